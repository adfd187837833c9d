"""What the pytest plugin costs a suite that uses none of it: whole runs of pytest, in turns with and without the plugin."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 15
PLUGIN = ["-p", "gpuconf.pytest_plugin"]


def run(folder: Path, options: list[str]) -> float:
    """Run a suite and return its milliseconds. Other plugins, which differ between machines, are left out."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    begin = time.perf_counter()
    subprocess.run(
        command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    )
    return (time.perf_counter() - begin) * 1000


def measure() -> list[dict[str, str]]:
    """Return the medians for a suite of one test and of 1,000."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for count in (1, 1000):
            suite = Path(folder, str(count))
            suite.mkdir()
            (suite / "test_it.py").write_text("".join(f"def test_{n}(): pass\n" for n in range(count)))
            without, with_plugin = [], []
            for _ in range(ROUNDS):
                without.append(run(suite, []))
                with_plugin.append(run(suite, PLUGIN))
            bare = statistics.median(without)
            added = statistics.median(b - a for a, b in zip(without, with_plugin, strict=True))
            rows.append(
                {
                    "trivial tests": f"{count:,}",
                    "pytest": f"{bare:.0f} ms",
                    "the plugin, in addition": f"{added:.1f} ms",
                    "ratio": f"{(bare + added) / bare:.3f}",
                    "goal": "<= 20 ms" if count == 1 else "<= 1.02",
                }
            )
    return rows
