"""What the guard adds to calls of the CUDA driver: the loops of guard.c with and without it, over the simulated driver.

Its cards are those of a specification, as for users. Those of the tests never use an address twice, so each step would
take longer.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconf.jobs import budget

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
MACHINE = "H100-80GB"
ROUNDS = 31
NUMBER = 20_000
WAYS = ("without", "proxy", "preload")
LOOPS = (
    ("pair", "`cuMemAlloc` and `cuMemFree` of 2 MiB", "<= 1.25x"),
    ("small", "`cuMemAlloc` and `cuMemFree` of 4 KiB", "<= 1.25x"),
    ("physical", "`cuMemCreate` and `cuMemRelease` of 2 MiB", "<= 1.25x"),
    ("ordered", "`cuMemAllocAsync` and `cuMemFreeAsync` of 2 MiB", "<= 1.25x"),
    ("info", "`cuMemGetInfo`", "<= 1.3x"),
    ("total", "`cuDeviceTotalMem`", "<= 1.3x"),
    ("device", "`cuCtxGetDevice`, which is not counted", "1.00x"),
)


def measure() -> list[dict[str, str]]:
    """Time the loops in turns; the fastest step of each, and the median of each round's ratio to the one without the
    guard.
    """
    times: dict[tuple[str, str], list[float]] = {(loop, way): [] for loop, _, _ in LOOPS for way in WAYS}
    with _programs() as programs:
        for turn in range(ROUNDS + 1):
            for loop, _, _ in LOOPS:
                for way in WAYS if turn % 2 else reversed(WAYS):
                    taken = _ask(programs[way], loop)
                    if turn:  # the first one warms up
                        times[loop, way].append(taken)
    return [_row(loop, what, goal, times) for loop, what, goal in LOOPS]


def _row(loop: str, what: str, goal: str, times: dict[tuple[str, str], list[float]]) -> dict[str, str]:
    row = {"what": what, "without": f"{min(times[loop, 'without']):.0f} ns"}
    for way in WAYS[1:]:
        ratio = statistics.median(a / b for a, b in zip(times[loop, way], times[loop, "without"], strict=True))
        row[way] = f"{min(times[loop, way]):.0f} ns, {ratio:.2f}x"
    return row | {"goal": goal}


def _ask(program: subprocess.Popen[str], loop: str) -> float:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(f"{loop} {NUMBER}\n")
    program.stdin.flush()
    return float(program.stdout.readline())


@contextlib.contextmanager
def _programs() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """The same program three times: by itself, and under a budget in both modes."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        runpy.run_path(str(ROOT / "tests_go" / "machine" / "fakecuda" / "build.py"))["build"](folder)
        program = folder / "guard"
        source = Path(__file__).with_suffix(".c")
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", program, source, "-ldl", "-lpthread"], check=True)
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("GPUCONF_", "FAKECUDA_", "CUDA_", "LD_"))
        }
        base = {**kept, "LD_LIBRARY_PATH": str(folder), "GPUCONF_SIMULATE": MACHINE}
        question = "import gpuconf; print(gpuconf.visible_devices()[0].uuid)"
        card = subprocess.check_output([sys.executable, "-c", question], env=base, text=True).strip()
        running = {}
        for way in WAYS:
            extra = {}
            if way != "without":
                extra = stack.enter_context(budget.prepare({card: 1 << 30}, way, environment=base)).environment
            running[way] = stack.enter_context(_running(program, {**base, **extra}))
        yield running


@contextlib.contextmanager
def _running(program: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [program], env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process


if __name__ == "__main__":
    for line in measure():
        print(" | ".join(line.values()))
