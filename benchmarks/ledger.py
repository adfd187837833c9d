"""What a lease in the ledger costs, and how soon waiting processes get memory that another one frees."""

from __future__ import annotations

import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from gpuconf._core.generated import ledger as wire
from gpuconf._core.native import core
from gpuconf.leases.ledger import Ledger, open_ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GIB = 1 << 30
CARD = "GPU-4d1ee11c-4cd2-4b5c-8a6d-6a2bfd9a3ba1"
ROUNDS = 2000
WAITERS = 100
WAKES = 5  # of each kind
CROWDS = 20, 40, 100
CONTENDED_S = 2  # seconds a round
ROUNDS_OF_CROWDS = 3

REQUEST = json.dumps(wire.Request((wire.Card(CARD, GIB // 16, GIB // 16, 40 * GIB, 40 * GIB),), 1, 0, "", "", "", 0, 0))

# A process that waits for the whole card, reports when it has it, holds it until a line comes, and waits again.
WAITER = f"""
import sys, time
from gpuconf.leases.ledger import open_ledger
from gpuconf.leases.ledger import Card
ledger = open_ledger(sys.argv[1])
print("ready", flush=True)
while sys.stdin.readline():
    with ledger.claim([Card({CARD!r}, {40 * GIB}, {40 * GIB})]):
        print(time.monotonic_ns(), flush=True)
        sys.stdin.readline()
"""

# A process that holds a lease, and one that leases and releases all the time.
HOLDER = f"""
import sys
from gpuconf.leases.ledger import open_ledger
from gpuconf.leases.ledger import Card
ledger = open_ledger(sys.argv[1])
claim = ledger.claim([Card({CARD!r}, {40 * GIB}, {GIB})])
print("ready", flush=True)
sys.stdin.read()
"""
BUSY = f"""
import sys
from gpuconf.leases.ledger import open_ledger
from gpuconf.leases.ledger import Card
ledger = open_ledger(sys.argv[1])
print("ready", flush=True)
while True:
    ledger.claim([Card({CARD!r}, {40 * GIB}, {GIB})]).release()
"""

# Processes that lease and release for a time at each line, and report the number of their grants and the longest of
# them. The others do what a lock costs at least: they poll the same lock, with a back-off, and hold it as long as a
# grant does.
CONTENDER = f"""
import sys, time
from gpuconf.leases.ledger import open_ledger
from gpuconf.leases.ledger import Card
ledger = open_ledger(sys.argv[1])
cards = [Card("GPU-%d" % number, {80 * GIB}, {GIB}) for number in range(8)]
ledger.claim(cards).release()
print("ready", flush=True)
while sys.stdin.readline():
    grants, longest, end = 0, 0.0, time.monotonic() + {CONTENDED_S}
    while (begun := time.monotonic()) < end:
        claim = ledger.claim(cards)
        longest = max(longest, time.monotonic() - begun)
        claim.release()
        grants += 1
    print(grants, longest, flush=True)
"""
POLLER = f"""
import fcntl, os, sys, time
print("ready", flush=True)
while sys.stdin.readline():
    grants, longest, end = 0, 0.0, time.monotonic() + {CONTENDED_S}
    while (begun := time.monotonic()) < end:
        fd, sleep = os.open(sys.argv[1] + "/ledger", os.O_RDONLY), 1e-5
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(sleep)
                sleep = min(2 * sleep, 0.004)
        longest, held = max(longest, time.monotonic() - begun), time.perf_counter() + 150e-6
        while time.perf_counter() < held:
            pass
        os.close(fd)
        grants += 1
    print(grants, longest, flush=True)
"""

cpu = time.thread_time_ns


def measure() -> list[dict[str, str]]:
    """Return the costs of calls, and the delays of the first of many waiting processes."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = open_ledger(folder + "/ledger")
        rows = [
            _row("a grant, alone", *_grants(ledger), "<= 100 µs"),
            _row("a release, alone", *_releases(ledger), "<= 100 µs"),
        ]
        with _crowd(ledger, 20, HOLDER):
            rows += [_row("a grant, beside 20 leases of other processes", *_grants(ledger), "<= 100 µs")]
            rows += [_row("its release", *_releases(ledger), "<= 100 µs")]
        with _crowd(ledger, 20, BUSY):
            rows += [
                _row(
                    "processor time of a grant, while 20 processes lease and release all the time",
                    *_grants(ledger, cpu),
                    "",
                )
            ]
            rows += [_row("of its release", *_releases(ledger, cpu), "")]
        for count in CROWDS:
            rows.append(_contended(ledger, count))
        clean, killed = _delays(ledger)
        many = f"the first of {WAITERS} waiting processes has the memory, after "
        rows.append(_row(many + "a release", statistics.median(clean), max(clean), "<= 50 ms", 1e6, "ms"))
        rows.append(
            _row(many + "SIGKILL of the holder", statistics.median(killed), max(killed), "<= 300 ms", 1e6, "ms")
        )
    return rows


def _contended(ledger: Ledger, count: int) -> dict[str, str]:
    """Return how many grants a second all processes get together beside the polled lock, in turn, and the longest
    wait.
    """
    crowds = [[_start(code, ledger.folder) for _ in range(count)] for code in (CONTENDER, POLLER)]
    rounds = [[_together(crowd) for crowd in crowds] for _ in range(ROUNDS_OF_CROWDS)]
    for crowd in crowds:
        _end(crowd)
    ratio = statistics.median(own / polled for (own, _), (polled, _) in rounds)
    rate, polled_rate = (statistics.median(turn[number][0] for turn in rounds) / CONTENDED_S for number in range(2))
    return {
        "what": f"{count} processes that lease and release all the time: grants a second ({polled_rate:.0f} with a "
        "polled lock)",
        "median": f"{rate:.0f}, {ratio:.2f} times",
        "p99 or most": f"a wait of {1e3 * max(own for (_, own), _ in rounds):.0f} ms",
        "goal": ">= 0.3 times",
    }


def _together(crowd: list[subprocess.Popen[str]]) -> tuple[int, float]:
    for process in crowd:
        _tell(process)
    reports = [_pipe(process).readline().split() for process in crowd]
    return sum(int(grants) for grants, _ in reports), max(float(longest) for _, longest in reports)


def _row(what: str, median: float, most: float, goal: str, unit: float = 1e3, name: str = "µs") -> dict[str, str]:
    return {
        "what": what,
        "median": f"{median / unit:.0f} {name}",
        "p99 or most": f"{most / unit:.0f} {name}",
        "goal": goal,
    }


def _grants(ledger: Ledger, clock: Callable[[], int] = time.perf_counter_ns) -> tuple[float, float]:
    return _timed(ledger, clock)[0]


def _releases(ledger: Ledger, clock: Callable[[], int] = time.perf_counter_ns) -> tuple[float, float]:
    return _timed(ledger, clock)[1]


def _timed(ledger: Ledger, clock: Callable[[], int]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return median and 99th percentile of grants and of releases, in nanoseconds, of the core's functions."""
    grants, releases = [], []
    for _ in range(ROUNDS):
        begun = clock()
        while (claim := core.pybind_LedgerClaim(ledger.number, REQUEST, False)) < 0:  # another process has the lock
            ledger._nap(claim, 1)
        granted = clock()
        core.pybind_LedgerRelease(claim)
        releases.append(clock() - granted)
        grants.append(granted - begun)
    return _summary(grants), _summary(releases)


def _summary(times: list[int]) -> tuple[float, float]:
    return statistics.median(times), statistics.quantiles(times, n=100)[98]


@contextmanager
def _crowd(ledger: Ledger, count: int, code: str) -> Iterator[None]:
    """Run processes beside this one."""
    started = [_start(code, ledger.folder) for _ in range(count)]
    yield
    _end(started)


def _start(code: str, folder: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def _end(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.communicate()


def _delays(ledger: Ledger) -> tuple[list[float], list[float]]:
    """Return the delays after releases and after kills, in nanoseconds."""
    waiters = [_start(WAITER, ledger.folder) for _ in range(WAITERS)]
    clean: list[float] = []
    killed: list[float] = []
    for number in range(2 * WAKES):
        holder = _start(WAITER, ledger.folder)
        _tell(holder)
        _pipe(holder).readline()
        for waiter in waiters:
            _tell(waiter)
        while len(ledger.claims()) < WAITERS + 1:
            time.sleep(0.05)
        time.sleep(1)  # until all sleep
        begun = time.monotonic_ns()
        if number % 2:
            os.kill(holder.pid, signal.SIGKILL)
        else:
            _tell(holder)
        first = _first(waiters)
        (killed if number % 2 else clean).append(first - begun)
        _end([holder])
    _end(waiters)
    return clean, killed


def _tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _pipe(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def _first(waiters: list[subprocess.Popen[str]]) -> int:
    """Return when the first waiter had the memory, and let all others have it in turn."""
    times = []
    left = list(waiters)
    while left:
        ready, _, _ = select.select([_pipe(waiter) for waiter in left], [], [])
        for waiter in [w for w in left if _pipe(w) in ready]:
            times.append(int(_pipe(waiter).readline()))
            _tell(waiter)
            left.remove(waiter)
    return min(times)


if __name__ == "__main__":
    for row in measure():
        print(*row.values(), sep=" | ")
