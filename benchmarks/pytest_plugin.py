"""What the pytest plugin costs a suite that uses none of it: whole runs of pytest, in turns with and without gpuconf installed."""

from __future__ import annotations

import importlib.metadata
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement

ROUNDS = 21


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


def run(suite: Path, installed: list[Path]) -> float:
    """Run a suite with only these packages. Return its processor time in milliseconds, which other programs disturb less."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # users have the files compiled
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [
            sys.executable,
            "-S",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
        ],  # -S: without this environment
        cwd=suite,
        check=True,
        stdout=subprocess.DEVNULL,
        env={**environment, "PYTHONPATH": os.pathsep.join(map(str, installed))},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def measure() -> list[dict[str, str]]:
    """Return the medians for a suite of one test and of 1,000."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        pytest, gpuconf = (Path(folder, name) for name in ("pytest", "gpuconf"))
        for place in (pytest, gpuconf):
            place.mkdir()
            install(place, place.name)
        for count in (1, 1000):
            suite = Path(folder, str(count))
            suite.mkdir()
            (suite / "test_it.py").write_text("".join(f"def test_{n}(): pass\n" for n in range(count)))
            run(suite, [pytest, gpuconf])  # compiles
            pairs = [(run(suite, [pytest]), run(suite, [pytest, gpuconf])) for _ in range(ROUNDS)]
            bare, whole = (statistics.median(times) for times in zip(*pairs, strict=True))
            rows.append(
                {
                    "trivial tests": f"{count:,}",
                    "pytest": f"{bare:.0f} ms",
                    "with the plugin": f"{whole:.0f} ms",
                    "ratio": f"{whole / bare:.3f}",
                    "goal": "<= 20 ms more" if count == 1 else "<= 1.02",
                }
            )
    return rows
