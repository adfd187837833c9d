# SPDX-License-Identifier: Apache-2.0
"""Record what libcuda.so.1 and libnvidia-ml.so.1 answer to a program of calls, on a real card or on a simulated one.

    python tests_py/driver/record_calls.py --out driver.jsonl.gz
    gpuconf run --simulate H100-80GB -- python tests_py/driver/record_calls.py --out simulated.jsonl.gz

Each unit runs in a process of its own, so an error that stays, a crash or a call that never returns harms no other one.
The part "full" fills the card's memory and reads how much of it is free, so it needs the card for itself. Only the
standard
library is used.
"""

import argparse
import ctypes
import gzip
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "calls"))

from answers import Calls

PARTS = ("facts", "sequences", "programs", "full")
LIMIT = 5.0  # seconds a unit may take
FIRST = ("facts.sweep", "facts.resolver", "facts.nvml_sweep")  # they take longest
CRASHES = 12  # a unit runs again without the call that crashed, so many times
LONGER = {"sweep": 40.0, "full": 15.0, "resolver": 20.0, "nvml_sweep": 20.0}
SWEEPS = ("sweep", "nvml_sweep")  # after a crash they go on behind the call that crashed


def units(parts: list[str], seeds: range) -> list[str]:
    """Return the names of the units, in the order in which they start."""
    names: list[str] = []
    for part in parts:
        if part == "programs":
            names += [f"programs.program_{seed}" for seed in seeds]
        else:
            names += [f"{part}.{name}" for name in importlib.import_module(part).UNITS]
    return sorted(names, key=lambda name: name not in FIRST)


def run_unit(name: str, skip: int, avoided: frozenset[int], path: str) -> None:
    """Run a unit in this process, which is a child."""
    Calls.avoided = avoided
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    part, unit = name.split(".")
    module = importlib.import_module(part)
    if part == "programs":
        module.program(descriptor, int(unit.rsplit("_", 1)[1]))
    else:
        module.UNITS[unit](descriptor, skip)


class Child:
    """A running unit."""

    patience = 1.0

    def __init__(
        self, name: str, folder: str, skip: int = 0, path: str = "", avoided: frozenset[int] = frozenset()
    ) -> None:
        self.name, self.skip, self.avoided = name, skip, avoided
        self.path = path or os.path.join(folder, name)
        self.started = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setpgid(0, 0)
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a unit must not outlive the recorder
                null = os.open(os.devnull, os.O_RDWR)
                errors = os.open(self.path + ".err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                os.dup2(null, 0), os.dup2(null, 1), os.dup2(errors, 2)
                run_unit(name, skip, avoided, self.path)
                os._exit(0)
            except BaseException as error:
                os.write(2, f"{type(error).__name__}: {error}".encode())
                os._exit(99)

    def poll(self, deadline: float) -> str | None:
        """Return how the unit ended, if it did."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            return "done" if status == 0 else f"signal {status & 127}" if status & 127 else f"exit {status >> 8}"
        now = time.monotonic()
        limit = LONGER.get(self.name.split(".")[1], LONGER.get(self.name.split(".")[0], LIMIT))
        if now - self.started > limit * Child.patience or now > deadline:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            return "deadline" if now > deadline else "hang"
        return None


def lines_of(child: Child, end: str) -> list[list[Any]]:
    """Return the lines that a unit wrote: [unit, number, what, code, values], and one for an end that was not its
    own.
    """
    text = Path(child.path).read_text() if os.path.exists(child.path) else ""
    found = []
    for number, line in enumerate(text.splitlines()):
        try:
            found.append([child.name, number, *json.loads(line)])
        except ValueError:
            found.append([child.name, number, line.removeprefix('["').removesuffix('"'), end])
    if end != "done":
        errors = child.path + ".err"
        said = Path(errors).read_text()[-300:] if os.path.exists(errors) and end.startswith("exit") else ""
        found.append([child.name, len(found), "end", end, said])
    return found


def crashed_call(child: Child) -> int | None:
    """Return the number of the call that a unit ended in."""
    lines = Path(child.path).read_text().splitlines() if os.path.exists(child.path) else []
    if not lines or lines[-1].endswith("]"):
        return None
    return sum('"note"' not in line for line in lines)


def run(names: list[str], jobs: int, seconds: float, out: Any) -> None:
    """Run the units, `jobs` at a time, and write each one's lines when it ends."""
    deadline = time.monotonic() + seconds
    waiting, running = list(names), []
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < jobs and time.monotonic() < deadline - 1:
                running.append(Child(waiting.pop(0), folder))
            if not running:
                break
            for child in list(running):
                end = child.poll(deadline)
                if end is None:
                    continue
                running.remove(child)
                if end != "done" and end != "deadline" and child.name.split(".")[1] in SWEEPS:
                    done = len(Path(child.path).read_text().splitlines()) if os.path.exists(child.path) else 0
                    if done > child.skip:
                        with open(child.path, "a") as file:
                            file.write(f', "{end}"]\n')
                        running.append(Child(child.name, folder, done, child.path))
                        continue
                crashed = crashed_call(child) if end.startswith("signal") else None
                if crashed and len(child.avoided) < CRASHES and crashed not in child.avoided:
                    os.unlink(child.path)
                    running.append(Child(child.name, folder, 0, child.path, child.avoided | {crashed}))
                    continue
                for line in lines_of(child, end):
                    out.write(json.dumps(line, separators=(",", ":")) + "\n")
                out.flush()
            time.sleep(0.002)
    for name in waiting:
        out.write(json.dumps([name, 0, "end", "not started"]) + "\n")


def main() -> None:
    """Record the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--part", action="append", choices=PARTS, help="default: all but full")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=90.0, help="for all")
    parser.add_argument(
        "--patience", type=float, default=1.0, help="multiplies the limit of each unit: for a machine that is busy"
    )
    parser.add_argument("--programs", type=int, default=300, help="the seed behind the last one")
    parser.add_argument("--first-program", type=int, default=0, help="the first seed")
    parser.add_argument("--no-sweeps", action="store_true", help="without the units that take longest")
    parser.add_argument("--seeds", choices=("all", "even", "odd"), default="all")
    parser.add_argument("--unit", help="only units whose name has this in it")
    arguments = parser.parse_args()
    Child.patience = arguments.patience
    first = arguments.first_program + (
        arguments.seeds != "all" and arguments.first_program % 2 != int(arguments.seeds == "odd")
    )
    seeds = range(first, arguments.programs, 1 if arguments.seeds == "all" else 2)
    names = [
        name for name in units(arguments.part or list(PARTS[:3]), seeds) if not arguments.unit or arguments.unit in name
    ]
    names = [name for name in names if not (arguments.no_sweeps and name in FIRST)]
    for part in arguments.part or PARTS[:3]:
        importlib.import_module(part)  # once, before the children
    began = time.monotonic()
    with gzip.open(arguments.out, "wt") as out:
        run(names, arguments.jobs, arguments.seconds, out)
    print(f"{len(names)} units in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
