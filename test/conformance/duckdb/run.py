"""Run every case, or those whose names are given after the three arguments."""

import json
import sys
import time
import traceback

import cases  # noqa: F401 (registers its cases)
from harness import CASES, Env


def main(uri, token, warehouse, *only):
    env = Env(uri, token, warehouse)
    for function in CASES:
        if only and function.__name__ not in only:
            continue
        began, error = time.monotonic(), None
        try:
            function(env)
        except Exception:  # noqa: BLE001 (the next case still runs)
            error = traceback.format_exc()
            env = Env(uri, token, warehouse)  # without a transaction that is still open
        print(json.dumps({"case": function.__name__, "seconds": time.monotonic() - began, "error": error}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
