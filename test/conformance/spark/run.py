"""Run every case, or those whose names are given after the five arguments."""

import json
import sys
import time
import traceback

import cases_query  # noqa: F401, I001 (registers its cases, the simple ones first)
import cases_view  # noqa: F401
import cases_drop  # noqa: F401
from harness import CASES, Env


def main(uri, token, warehouse, jar, scratch, *only):
    env = Env(uri, token, warehouse, jar, scratch)
    try:
        for function in CASES:
            if only and function.__name__ not in only:
                continue
            began, error = time.monotonic(), None
            try:
                function(env)
            except Exception:  # noqa: BLE001 (the next case still runs)
                error = traceback.format_exc()
            print(json.dumps({"case": function.__name__, "seconds": time.monotonic() - began, "error": error}), flush=True)
    finally:
        env.spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
