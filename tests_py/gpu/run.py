"""Run all cases on this machine's GPU from a built wheel: ``python tests_py/gpu/run.py dist/gpuconf-*.whl``.

Needs Python and the NVIDIA driver; no Go, no network, no pytest. Cases of missing libraries are skipped, by name.
Without a wheel, the installed gpuconf is used. Prints a line for each case, and exits with code 1 if one failed.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import sys

import steps


def main() -> int:
    """Run them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", nargs="?", help="the wheel to test")
    parser.add_argument("--only", default="", help="run the cases whose names contain this")
    options = parser.parse_args()
    counts = collections.Counter({"passed": 0, "left out": 0, "FAILED": 0})
    with contextlib.ExitStack() as stack:
        environment = steps.unpacked(options.wheel, stack)
        for name in steps.all_cases():
            if options.only not in name:
                continue
            found = steps.run(steps.of_case(name, limit=600), environment)
            result = "FAILED" if found["result"] == "timed out" else found["result"]
            counts[result] += 1
            why = f": {found['why']}" if "why" in found else ""
            print(f"{result:8}  {name.replace('_', ' ')}{why}", flush=True)
            if result == "FAILED":
                print(found["output"], flush=True)
    print(", ".join(f"{count} {result}" for result, count in counts.items()))
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
