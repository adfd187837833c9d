"""What the pytest plugin costs a suite that uses none of it: whole runs of pytest, in turns with and without the plugin."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 21
PLUGIN = ["-p", "gpuconf.pytest_plugin"]


def run(folder: Path, options: list[str]) -> float:
    """Run a suite and return its processor time in milliseconds, which other programs on the machine disturb less.

    Other plugins, which differ between machines, are left out.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # users have the files compiled
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def measure() -> list[dict[str, str]]:
    """Return the medians for a suite of one test and of 1,000."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for count in (1, 1000):
            suite = Path(folder, str(count))
            suite.mkdir()
            (suite / "test_it.py").write_text("".join(f"def test_{n}(): pass\n" for n in range(count)))
            run(suite, PLUGIN)  # compiles
            pairs = [(run(suite, []), run(suite, PLUGIN)) for _ in range(ROUNDS)]
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
