"""Random operations of several processes on one budget, beside a model:
``python tests_py/guard/guard_soak.py --steps 1000000``.

`make soak` runs it at full size and the tests a sample. soak.c says what is compared after every operation. The driver
is that of tests_go/machine/fakecuda. Prints what was done, and exits with code 1 at the first difference.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from conftest_guard import CARDS, MIB, build_driver, compile_c, job

LIMIT = 512 * MIB
DEATHS = ("exited", "killed in a driver call", "killed at any moment", "became another program")

# What the log may say: a driver call failed at the start, while a pool was settled, or while a request was being
# undone.
NOTED = {
    "device 0 does not report its UUID: allocations on it are refused until it does",
    "a memory pool did not report what it reserves: its charge stays until it does",
    "the driver could not free memory beyond the limit: it stays charged",
    "a memory pool has grown beyond the limit on its own: further requests are refused",
}


def soak(folder: Path, driver: Path, steps: int, seed: int, workers: int = 4, mode: str = "proxy") -> dict[str, Any]:
    """Run it; what was done. Raises AssertionError at a difference."""
    program = compile_c(Path(__file__).parent / "c" / "soak.c", folder / "soak")
    past = folder / "past-the-guard.so"  # by its own name, preloading would return the proxy
    past.symlink_to(driver / "libcuda.so.1")
    with job(driver, LIMIT, mode, DRIVER=str(past)) as one:
        words = (program, folder / "shared", str(LIMIT), str(steps), str(seed), str(workers))
        running = one.start(*words)
        out, err = running.communicate()
        assert running.returncode == 0, out + err
        done: dict[str, Any] = json.loads(out.splitlines()[-1])
        use = one.budget.usage()[CARDS[0]]
        assert use.used == done["left"] == 0, (use, done)
        # What the driver took beyond the limit and, because it was made to fail, did not free.
        assert use.peak <= LIMIT + done["lost"], (use, done["lost"])
        noted = {line.partition(": ")[2] for line in one.budget.log()}
        assert noted <= NOTED, noted
    return done


def kills(folder: Path, driver: Path, stride: int) -> int:
    """Kill a process after each so many instructions; how many were killed. Raises AssertionError if memory is lost."""
    program = compile_c(Path(__file__).parent / "c" / "processes.c", folder / "processes")
    with job(driver, LIMIT) as one:
        running = one.start(program, "kill", "0", "1000000", str(stride))
        out, err = running.communicate()
        assert running.returncode == 0, out + err
    return int(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000, help="operations of each process (1000000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--stride", type=int, default=31, help="kill a process after each such number of instructions (31)"
    )
    options = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        driver = build_driver(folder / "driver", 13050)
        done = soak(folder, driver, options.steps, options.seed)
        took = time.monotonic() - begin
        granted, refused = sum(done["granted"].values()), sum(done["refused"].values())
        print(
            f"guard: 4 processes with {options.steps:,} operations each, in {took:.0f} s:"
            f" {granted:,} allocations granted and {refused:,} refused, in {len(done['granted'])} ways;"
            f" {done['failures']:,} driver calls failed; {done['forks']:,} forks; workers that "
            + ", ".join(f"{how}: {count:,}" for how, count in zip(DEATHS, done["deaths"], strict=True))
            + f"; the budget was full {done['full']:,} times and never exceeded; no difference",
            flush=True,
        )
        killed = kills(folder, driver, options.stride)
        print(
            f"guard: {killed:,} processes killed, each {options.stride} instructions later in an allocation; nothing "
            "lost"
        )


if __name__ == "__main__":
    try:
        main()
    except AssertionError as error:
        sys.exit(f"FAILED: {error}")
