"""Run every native fuzz target below this folder, one after another, each for some time: ``fuzz.py 30s [PATTERN]``.

Prints a line with the result for each target. The first failure ends the run with the target's output, which says where
Go has stored the failing input: commit that file with the fix, and the ordinary tests run it from then on. With a
PATTERN, only the targets whose package and name contain it run, such as ``devname`` or ``FuzzTrace``.

``time`` instead of ``ok`` means that Go reports the target as failed only because its time ended: if it is busy at that
moment, as is frequent on a loaded machine, Go prints "context deadline exceeded". No defect was found. A target that
tried no input by then is a failure.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Go minimizes each interesting input, and may spend a minute on one: a target with inputs of some KiB would do nothing
# else.
MINIMIZE = "-fuzzminimizetime=50x"
TARGET = re.compile(r"^func (Fuzz\w*)\(", re.MULTILINE)


def targets(pattern: str) -> list[tuple[str, str]]:
    """All fuzz targets as (package folder, function), in order."""
    found = []
    for path in sorted(HERE.rglob("*_test.go")):
        package = "./" + path.parent.relative_to(HERE.parent).as_posix()
        found += [(package, name) for name in TARGET.findall(path.read_text(encoding="utf-8"))]
    return [(package, name) for package, name in found if pattern in f"{package} {name}"]


def fuzz(package: str, name: str, duration: str) -> tuple[int, str]:
    """Fuzz one target. Returns Go's exit status and output."""
    command = [
        "go",
        "test",
        "-run=^$",
        f"-fuzz=^{name}$",
        f"-fuzztime={duration}",
        MINIMIZE,
        "-tags=invariants",
        package,
    ]
    done = subprocess.run(
        command, cwd=HERE.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, done.stdout


def verdict(name: str, status: int, output: str) -> str:
    """``ok``, ``time`` or ``FAIL``.

    A finding may have any text, so the output must contain only the end of the time.
    """
    if status == 0:
        return "ok"
    ended = re.search(rf"^--- FAIL: {name} \([\d.]+s\)\n +context deadline exceeded\nFAIL$", output, re.MULTILINE)
    finding = "Failing input written to" in output or "panic: " in output or "fatal error: " in output
    return "time" if ended and not finding and tries(output) else "FAIL"


def tries(output: str) -> int:
    """How many inputs the last progress line of ``go test -fuzz`` counts."""
    counts = re.findall(r"execs: (\d+)", output)
    return int(counts[-1]) if counts else 0


def main(arguments: list[str]) -> int:
    """Run the requested targets; the exit status is the result."""
    if not 1 <= len(arguments) <= 2 or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 2
    duration, pattern = arguments[0], "".join(arguments[1:])
    found = targets(pattern)
    if not found:
        print(f"no fuzz target below {HERE} has {pattern!r} in its name", file=sys.stderr)
        return 1
    for package, name in found:
        begin = time.monotonic()
        status, output = fuzz(package, name, duration)
        told = verdict(name, status, output)
        print(f"{told:4}  {package} {name}  {tries(output):,} inputs  {time.monotonic() - begin:.0f} s", flush=True)
        if told == "FAIL":
            print(output, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
