"""Measure `gpuconf plan --fleet`, and write the tables of benchmarks/reports/fleet.md.

    make bench WHAT=fleet

Packing: problems whose best number of cards is known (tests_py/plans/fleet_problems.py), by first-fit decreasing alone
and by the planner, with and without OR-tools. Units: what one replay, one task, one claim costs. Replays: the same
traces by one process and by two of Dask's workers, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import distributed
from gpuconf.leases import ledger as _ledger
from gpuconf.plans.fleets import recorded_jobs
from gpuconf.plans.fleets.packing import first_fit, lower_bound

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests_py" / "plans")]

import fleet_problems  # noqa: E402

from benchmarks.report import cpu, fill, table  # noqa: E402

PAGE = ROOT / "benchmarks" / "reports" / "fleet.md"
GIB = 1 << 30

# At least 10,000 jobs each, or 1,000 cards, and sizes in MiB of a card with 80 GiB, except where a class has a capacity
# of its own.
CLASSES: dict[str, Callable[[random.Random], fleet_problems.Problem]] = {
    "ten jobs a card": lambda chance: fleet_problems.ten_each(chance, 1000),
    "uniform, capacity 150": lambda chance: fleet_problems.uniform(chance, 4000, 150),
    "uniform": lambda chance: fleet_problems.uniform(chance, 4000),
    "triplets, capacity 1000": lambda chance: fleet_problems.triplets(chance, 3334, 1000),
    "triplets": lambda chance: fleet_problems.triplets(chance, 3334),
    "hard, capacity 1000": lambda chance: fleet_problems.hard(chance, 2500, 1000),
    "hard, capacity 100,000": lambda chance: fleet_problems.hard(chance, 2500),
    "cards of 24, 40 and 80 GiB": lambda chance: fleet_problems.mixed(chance, 2001),
}

# A pack without OR-tools: in a process of its own, where the import fails.
_PACK = """
import json, sys, time
sizes, cards, solver = json.load(sys.stdin)
if not solver:
    sys.modules["ortools"] = None
from gpuconf.plans.fleets.pack import pack
began = time.monotonic()
found = pack(sizes, cards)
print(json.dumps([found.first.used, found.best.used, found.bound, time.monotonic() - began]))
"""


def packed(problem: fleet_problems.Problem, solver: bool) -> tuple[int, int, int, float]:

    text = json.dumps([problem.sizes, problem.more, solver])
    done = subprocess.run([sys.executable, "-c", _PACK], input=text, capture_output=True, text=True, check=True)
    first, best, bound, seconds = json.loads(done.stdout)
    return first, best, bound, seconds


def packing() -> str:
    rows = []
    for name, make in CLASSES.items():
        problem = make(random.Random(1))
        known = len(problem.cards)
        _, without, _, _ = packed(problem, solver=False)
        first, best, bound, seconds = packed(problem, solver=True)
        row = {"problem": name, "jobs": f"{len(problem.sizes):,}", "best": f"{known:,}", "lower bound": f"{bound:,}"}
        for way, used in {"first-fit decreasing": first, "without OR-tools": without, "with OR-tools": best}.items():
            row[way] = f"{used:,} (+{100 * (used / known - 1):.2f}%)"
        rows.append({**row, "time": f"{seconds:.0f} s"})
        print(*rows[-1].values(), sep="  ", flush=True)
    return table(rows)


def write_trace(path: Path, events: int, seed: int) -> None:
    """Write RMM's CSV of a job with blocks of all sizes."""
    chance = random.Random(seed)
    live: list[tuple[int, int]] = []
    lines = ["Thread,Time,Action,Pointer,Size,Stream"]
    for i in range(events):
        second = i // 100
        if live and (len(live) > 60 or chance.random() < 0.48):
            action, (address, size) = "free", live.pop(chance.randrange(len(live)))
        else:
            action, address, size = "allocate", (i + 1) << 32, int(2 ** chance.uniform(10, 29))
            live.append((address, size))
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{i % 100:02}0000"
        lines.append(f"1,{clock},{action},0x{address:x},{size},0")
    path.write_text("\n".join(lines))


def replays(traces: int, events: int, rounds: int) -> str:
    """Replay in turns. The start of the processes is included."""
    with tempfile.TemporaryDirectory() as name:
        for i in range(traces):
            write_trace(Path(name, f"job{i:04}.csv"), events, i)
        ways = {"one process": "", "2 workers": ", dask=2"}
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, argument in ways.items():
                program = Path(name, "program.py")
                program.write_text(
                    f"import gpuconf\nif __name__ == '__main__':\n    gpuconf.plan_fleet({name!r}, "
                    f"'1000xH100-80GB'{argument})\n"
                )
                began = time.monotonic()
                subprocess.run([sys.executable, program], check=True)
                seconds[way].append(time.monotonic() - began)
                print(way, f"{seconds[way][-1]:.1f} s", flush=True)
    one, two = (statistics.median(seconds[way]) for way in ways)
    row = {
        "traces": f"{traces:,}",
        "events each": f"{events:,}",
        "one process": f"{one:.0f} s",
        "2 workers": f"{two:.0f} s",
    }
    return table([{**row, "ratio": f"{one / two:.2f}x"}])


def units() -> str:
    """What one piece of the work costs, in processor time of one core; the least of several measurements."""
    rows = [
        {"work": work, "cost": cost}
        for work, cost in (*_replay_cost(), *_packing_costs(), *_dask_costs(), *_ledger_costs())
    ]
    for row in rows:
        print(*row.values(), sep=": ", flush=True)
    return table(rows)


def _least(work: Callable[[], object], times: int = 5) -> float:
    """Return the least processor time of some calls, in seconds."""
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def _replay_cost() -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "job.csv")
        write_trace(path, 100_000, 1)
        seconds = _least(lambda: recorded_jobs.need(path, ("virtual",)))
    yield "replay of a trace of 100,000 events, one policy", f"{1000 * seconds:.0f} ms"


def _packing_costs() -> Iterator[tuple[str, str]]:
    for n in (10, 1000, 100_000):
        problem = fleet_problems.ten_each(random.Random(1), n)
        seconds = _least(lambda: first_fit(problem.sizes, problem.more), 1)  # noqa: B023 - called here
        yield f"first-fit decreasing of {10 * n:,} jobs onto {n:,} cards", f"{1000 * seconds:,.1f} ms"
        seconds = _least(lambda: lower_bound(problem.sizes, problem.more), 1)  # noqa: B023
        yield f"their lower bound, without the linear program, {n:,} cards", f"{1000 * seconds:,.1f} ms"


def _dask_costs() -> Iterator[tuple[str, str]]:
    local = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 60}
    with distributed.LocalCluster(n_workers=1, **local) as cluster, distributed.Client(cluster) as client:
        seconds = _least(lambda: client.gather(client.map(int, range(1000), pure=False)), 3)
    yield "a task of Dask, client and scheduler", f"{seconds:.2f} ms"
    with (
        distributed.LocalCluster(n_workers=100, processes=False, **local) as cluster,
        distributed.Client(cluster) as client,
    ):
        seconds = _least(lambda: client.run(os.getpid))
        yield "one question to a worker (`client.run`), client, scheduler and worker", f"{10 * seconds:.2f} ms"
        seconds = _least(lambda: time.sleep(10), 1)
        yield "the heartbeats of a worker, both sides", f"{seconds:.2f} ms a second"  # 100 workers, 10 seconds


def _ledger_costs() -> Iterator[tuple[str, str]]:
    for live in (8, 64, 512):
        with tempfile.TemporaryDirectory() as name, ExitStack() as claims:
            ledger = _ledger.open_ledger(str(Path(name, "ledger")))
            cards = [_ledger.Card(f"GPU-{i}", 80 * GIB, GIB // 8) for i in range(8)]
            for _ in range(live):
                claims.enter_context(ledger.claim(cards))
            yield f"a claim and its release, {live} others live", f"{10 * _least(lambda: _claim(ledger, cards)):.2f} ms"  # noqa: B023
            yield f"listing {live} claims", f"{1000 * _least(ledger.claims):.1f} ms"


def _claim(ledger: _ledger.Ledger, cards: list[_ledger.Card]) -> None:
    for _ in range(100):
        ledger.claim(cards).release()


def save(name: str, text: str) -> None:
    """Replace a table of the page, between its two comments."""
    load = os.getloadavg()[0]
    note = f"Measured on {cpu()}, {os.cpu_count()} cores, load average {load:.1f} at the end."
    fill(PAGE, {name: f"{text}\n\n{note}"})


def parts(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    if options.part in ("packing", "all"):
        yield "packing", packing()
    if options.part in ("units", "all"):
        yield "units", units()
    if options.part in ("replays", "all"):
        yield "replays", replays(options.traces, options.events, options.rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=["packing", "units", "replays", "all"], default="all")
    parser.add_argument("--traces", type=int, default=1000)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1)
    for name, text in parts(parser.parse_args()):
        print(text)
        save(name, text)


if __name__ == "__main__":
    main()
