"""What the cover of a rehearsal takes: a program that does nothing, in each cover in turns, in an empty folder.

    python benchmarks/covers.py

The copy that a mirror makes is timed beside `cp -a` of the same folder: both are as fast as the file system below them.
"""

from __future__ import annotations

import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gpuconf.errors import UnavailableError
from gpuconf.plans.programs.cover import Cover, Options

from benchmarks.report import table

ROUNDS = 31
FILES = 2000  # of 2 kB
PROGRAM = ["true"]


def covered(kind: str, folder: Path) -> float:
    """Return the seconds until the program has ended in a cover."""
    begin = time.perf_counter()
    cover = Cover(Options(only=kind))
    try:
        cover.start(PROGRAM, os.environ, stdout=subprocess.DEVNULL, stderr=None, folder=str(folder))
        cover.go({})
        while cover.poll() is None:
            select.select([cover], [], [], 10)
        assert cover.status == 0, cover.status
        return time.perf_counter() - begin
    finally:
        cover.close()


def copied(folder: Path) -> float:
    """Return the seconds that `cp -a` takes."""
    copy = folder.with_name("copy")
    begin = time.perf_counter()
    subprocess.run(["cp", "-a", folder, copy], check=True)
    taken = time.perf_counter() - begin
    shutil.rmtree(copy)
    return taken


def measure() -> list[dict[str, str]]:
    """Measure. A cover that the machine does not allow is a row that says so."""
    with tempfile.TemporaryDirectory() as temporary:
        empty, full = Path(temporary, "empty"), Path(temporary, "full")
        empty.mkdir()
        full.mkdir()
        for number in range(FILES):
            (full / str(number)).write_bytes(b"x" * 2000)
        ways: dict[str, Callable[[], float]] = {
            "unprotected": lambda: covered("unprotected", empty),
            "root": lambda: covered("root", empty),
            "user": lambda: covered("user", empty),
            "mirror": lambda: covered("mirror", empty),
            "files": lambda: covered("mirror", full),
            "cp": lambda: copied(full),
        }
        taken: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                try:
                    taken.setdefault(name, []).append(way())
                except UnavailableError:
                    continue
    median = {name: statistics.median(times) if times else None for name, times in taken.items()}
    bare, rows = median["unprotected"], []
    goals = {"root": "<= 30 ms", "user": "<= 30 ms", "mirror": ""}
    assert bare is not None
    for name, goal in goals.items():
        found = median[name]
        text = "not allowed here" if found is None else f"{1000 * (found - bare):.1f} ms"
        rows.append({"cover": f"`{name}`, beyond none", "median": text, "goal": goal})
    files, empty_one, copy = median["files"], median["mirror"], median["cp"]
    if files is not None and empty_one is not None and copy is not None:
        each = (files - empty_one) / FILES
        text = f"{1000 * each:.3f} ms, {each / (copy / FILES):.2f} times `cp -a`"
        rows.append({"cover": "`mirror`, each file of the folder", "median": text, "goal": "<= 0.2 ms"})
    return rows


if __name__ == "__main__":
    print(table(measure()))
