"""What the pytest plugin costs a suite that uses none of it.

Whole runs of pytest in turns: without gpuconf, with gpuconf and ``-p no:gpuconf``, and with the plugin.
"""

from __future__ import annotations

import importlib.metadata
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROUNDS = 31


def install(folder: Path, package: str) -> None:
    """Link an installed package and what it requires into a folder."""
    distribution = importlib.metadata.distribution(package)
    for name in {Path(str(file)).parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
        link = folder / name
        if not link.exists():
            link.symlink_to(Path(str(distribution.locate_file(name))))
    for line in distribution.requires or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            install(folder, requirement.name)


def run(suite: Path, installed: Path, *options: str) -> float:
    """Run a suite with only these packages.

    Return its processor time in milliseconds, which other programs disturb less.
    """
    # Users have the files compiled.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        # -S: without this environment.
        [sys.executable, "-S", "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=suite,
        check=True,
        stdout=subprocess.DEVNULL,
        env={**environment, "PYTHONPATH": str(installed)},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def measure(rounds: int = ROUNDS) -> list[dict[str, str]]:
    """Return the least of all rounds for a suite of one test and of 1,000: other programs only ever add to processor
    time.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bare, whole = Path(folder, "bare"), Path(folder, "whole")
        for place, packages in ((bare, ["pytest"]), (whole, ["pytest", "gpuconf"])):
            place.mkdir()
            for package in packages:
                install(place, package)
        ways: list[tuple[Any, ...]] = [(bare,), (whole, "-p", "no:gpuconf"), (whole,)]
        for count in (1, 1000):
            suite = Path(folder, str(count))
            suite.mkdir()
            (suite / "test_it.py").write_text("".join(f"def test_{n}(): pass\n" for n in range(count)))
            for way in ways:
                run(suite, *way)  # compiles
            times = []
            for turn in range(rounds):
                order = [(turn + i) % len(ways) for i in range(len(ways))]  # none is always the first
                taken = {i: run(suite, *ways[i]) for i in order}
                times.append([taken[i] for i in range(len(ways))])
            alone, disabled, plugin = (min(column) for column in zip(*times, strict=True))
            rows.append(
                {
                    "trivial tests": f"{count:,}",
                    "pytest": f"{alone:.0f} ms",
                    "-p no:gpuconf": f"{disabled:.0f} ms",
                    "with the plugin": f"{plugin:.0f} ms",
                    "ratio to pytest": f"{plugin / alone:.3f}",
                    "ratio to -p no:gpuconf": f"{plugin / disabled:.3f}",
                    "goal": "<= 20 ms more" if count == 1 else "<= 30 ms more: 10 us a test",
                }
            )
    return rows
