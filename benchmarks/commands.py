"""The time of whole commands, beside the start of Python."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 31
GOAL = 5  # times the start of Python

COMMANDS = ("gpuconf run --memory 1GiB true", "gpuconf ps", "gpuconf run true", "gpuconf --version")


def seconds(words: list[str], environment: dict[str, str]) -> float:
    """Run a command once."""
    begin = time.perf_counter()
    subprocess.run(words, check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def measure() -> list[dict[str, str]]:
    """Run the commands and `python -c pass` in turns, on a simulated GPU with a ledger of its own; return a row for each."""
    python = ["python", "-c", "pass"]
    taken: dict[str, list[float]] = {" ".join(words): [] for words in (python, *(one.split() for one in COMMANDS))}
    scripts = {"python": sys.executable, "gpuconf": str(Path(sys.executable).with_name("gpuconf"))}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "GPUCONF_SIMULATE": "T4", "GPUCONF_LEDGER": f"{folder}/ledger"}
        for _ in range(ROUNDS):
            for command, times in taken.items():
                first, *rest = command.split()
                times.append(seconds([scripts[first], *rest], environment))
    start = taken.pop(" ".join(python))
    rows = [{"what": f"`{' '.join(python)}`", "time": f"{1000 * statistics.median(start):.1f} ms", "ratio": "", "goal": ""}]
    for command, times in taken.items():
        ratio = statistics.median(one / alone for one, alone in zip(times, start, strict=True))
        goal = f"<= {GOAL}" if command in COMMANDS[:2] else ""
        rows.append(
            {"what": f"`{command}`", "time": f"{1000 * statistics.median(times):.1f} ms", "ratio": f"{ratio:.1f}", "goal": goal}
        )
    return rows
