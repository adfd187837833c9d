"""How long processes take that do little with gpuconf, beyond an interpreter that does nothing.

EARLIER=PYTHON adds a column for the gpuconf that this Python has.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 31

BARE = "`python -c pass`"
FIRST_CALL = "import gpuconf; gpuconf.simulate('T4'); gpuconf.config.list_physical_devices()"
ALLOCATION = "import gpuconf; gpuconf.simulate('T4'); gpuconf.memory.allocate(1000).free()"
PROCESSES = {
    BARE: ["python", "-I", "-c", "pass"],
    "`import gpuconf`": ["python", "-I", "-c", "import gpuconf"],
    "import and first call, which loads the core": ["python", "-I", "-c", FIRST_CALL],
    "import and first allocation": ["python", "-I", "-c", ALLOCATION],
    **{f"`{command}`": command.split() for command in ("gpuconf --version", "gpuconf ps", "gpuconf run true")},
    "`gpuconf run --memory 1GiB true`": ["gpuconf", "run", "--memory", "1GiB", "true"],
}
GOALS = {"`import gpuconf`": 0.6, "`gpuconf ps`": 4, "`gpuconf run --memory 1GiB true`": 4}  # times a bare interpreter


def seconds(words: list[str], environment: dict[str, str]) -> float:
    """Run a process once."""
    begin = time.perf_counter()
    subprocess.run(words, check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def version(python: str) -> str:
    """The version of the gpuconf that a Python has."""
    program = "import gpuconf; print(gpuconf.__version__)"
    return subprocess.run([python, "-I", "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def measure() -> list[dict[str, str]]:
    """Run the processes in turns, with a simulated GPU and a ledger of their own; return a row for each."""
    pythons = {"time": sys.executable}
    if earlier := os.environ.get("EARLIER"):
        pythons[f"with {version(earlier)}"] = earlier
    taken: dict[str, dict[str, list[float]]] = {column: {what: [] for what in PROCESSES} for column in pythons}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            for what, (program, *words) in PROCESSES.items():
                for column, python in pythons.items():
                    environment = {**os.environ, "GPUCONF_LEDGER": f"{folder}/{column}"}
                    if program == "gpuconf":
                        environment["GPUCONF_SIMULATE"] = "T4"
                    file = python if program == "python" else str(Path(python).with_name(program))
                    taken[column][what].append(seconds([file, *words], environment))
    bare = {column: statistics.median(times[BARE]) for column, times in taken.items()}
    return [
        row(what, {column: statistics.median(times[what]) for column, times in taken.items()}, bare)
        for what in PROCESSES
    ]


def row(what: str, took: dict[str, float], bare: dict[str, float]) -> dict[str, str]:
    """A row of the table; that of the bare interpreter has its time, and the others what they take beyond it."""
    beyond = {column: took[column] - (0 if what == BARE else bare[column]) for column in took}
    goal = ""
    if what in GOALS:
        goal = f"<= {1000 * GOALS[what] * bare['time']:.1f} ms: {GOALS[what]} times a bare interpreter"
    elif what.startswith("import and first call"):
        goal = "0.6 of what 0.2.0 takes: <= 30 ms where that takes 50"
    return {"what": what, **{column: f"{1000 * each:.1f} ms" for column, each in beyond.items()}, "goal": goal}
