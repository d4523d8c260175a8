"""Run every case, or those that LETHE_CASES names, separated by commas."""

import json
import os
import sys
import time
import traceback

import cases_table  # noqa: F401, I001 (registers its cases, the simple ones first)
import cases_drop  # noqa: F401
import cases_view  # noqa: F401
from harness import CASES, Env


def main(*where):
    env, only = Env(*where), os.environ.get("LETHE_CASES")
    for function in CASES:
        if only and function.__name__ not in only.split(",") or not env.can(function):
            continue
        began, error = time.monotonic(), None
        try:
            function(env)
        except Exception:  # noqa: BLE001 (the next case still runs)
            error = traceback.format_exc()
        print(json.dumps({"case": function.__name__, "seconds": time.monotonic() - began, "error": error}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
