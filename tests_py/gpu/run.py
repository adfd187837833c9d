"""Run all cases on this machine's GPU from a built wheel: ``python tests_py/gpu/run.py dist/gpuconf-*.whl``.

Needs Python and the NVIDIA driver; no Go, no network, no pytest. Cases of missing libraries are skipped, by name. Without a wheel,
the installed gpuconf is used. Prints a line for each case, and exits with code 1 if one failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MISSING = 77


def main() -> int:
    """Run them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", nargs="?", help="the wheel to test")
    parser.add_argument("--only", default="", help="run the cases whose names contain this")
    options = parser.parse_args()
    names = re.findall(r"^def case_(\w+)\(", (HERE / "cases.py").read_text(), re.M)
    with contextlib.ExitStack() as stack:
        env = dict(os.environ)
        if options.wheel:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            zipfile.ZipFile(options.wheel).extractall(folder)
            env["PYTHONPATH"] = os.pathsep.join([folder, env.get("PYTHONPATH", "")])
        counts = {"passed": 0, "left out": 0, "FAILED": 0}
        for name in names:
            if options.only not in name:
                continue
            done = subprocess.run(
                [sys.executable, HERE / "cases.py", name], capture_output=True, text=True, check=False, env=env, timeout=600
            )
            result = {0: "passed", MISSING: "left out"}.get(done.returncode, "FAILED")
            counts[result] += 1
            why = done.stdout.strip().rpartition("\n")[2] if result == "left out" else ""
            print(f"{result:8}  {name.replace('_', ' ')}{': ' if why else ''}{why}", flush=True)
            if result == "FAILED":
                print(done.stdout + done.stderr, flush=True)
    print(", ".join(f"{count} {result}" for result, count in counts.items()))
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
