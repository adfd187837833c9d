"""The cost that a recording adds to an allocation and a free, and the time of a plan."""

from __future__ import annotations

import itertools
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import gpuconf as tf
from gpuconf.plans.generated.policies import POLICIES

from benchmarks.c_loops import loops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 25
NUMBER = 50_000
EVENTS = 1_000_000


def measure() -> list[dict[str, str]]:
    """Alternate with and without; medians, and the median of the rounds' ratios."""
    with loops() as c:
        ways: dict[str, Callable[[], float]] = {
            "`gpuconf.memory.allocate` and `free`": _pairs,
            "`gpuconf_malloc` and `gpuconf_free`, hot pair of 4 KiB": lambda: 2 * c.pair(NUMBER),
            "`gpuconf_malloc` and `gpuconf_free`, churn of 1000 blocks": lambda: 2 * c.churn(NUMBER),
        }
        times: dict[str, list[tuple[float, float]]] = {what: [] for what in ways}
        for _ in range(ROUNDS):
            for what, way in ways.items():
                off = way()
                with tf.memory.record(events=200_000):
                    on = way()
                times[what].append((off, on))
    return [
        {
            "what": what,
            "off": f"{statistics.median(off for off, _ in pairs):.0f} ns",
            "on": f"{statistics.median(on for _, on in pairs):.0f} ns",
            "ratio": f"{statistics.median(on / off for off, on in pairs):.2f}",
            "goal": "<= 1.15",
        }
        for what, pairs in times.items()
    ]


def _pairs() -> float:
    allocate = tf.memory.allocate
    begin = time.perf_counter()
    for _ in range(NUMBER // 10):
        allocate(4096).free()
    return (time.perf_counter() - begin) / (NUMBER // 10) * 1e9


def stacks() -> list[dict[str, str]]:
    """What record(stacks=True) adds to an allocation and its free, by the depth of the calls; and the cost of a tag."""
    rows = []
    with tf.simulate("H100-80GB"):
        tf.config.list_logical_devices()
        for depth in (5, 20, 60):
            times: list[tuple[float, float]] = []
            for _ in range(ROUNDS):
                with tf.memory.record(events=200_000):
                    off = _deep(depth, _pairs)
                with tf.memory.record(events=200_000, stacks=True):
                    on = _deep(depth, _pairs)
                times.append((off, on))
            added = statistics.median(on - off for off, on in times)
            off, on = (statistics.median(column) for column in zip(*times, strict=True))
            what = f"`allocate` and `free`, {depth} calls deep"
            rows.append({"what": what, "without": f"{off:.0f} ns", "with": f"{on:.0f} ns", "added": f"{added:.0f} ns"})
        times = [(_pairs(), _tagged_pairs()) for _ in range(ROUNDS)]
        off, on = (statistics.median(column) for column in zip(*times, strict=True))
        added = statistics.median(on - off for off, on in times)
        what = "`allocate` and `free`, in `with gpuconf.memory.tag(...)`"
        rows.append({"what": what, "without": f"{off:.0f} ns", "with": f"{on:.0f} ns", "added": f"{added:.0f} ns"})
    return rows


def _deep(depth: int, call: Callable[[], float]) -> float:
    return call() if depth <= 1 else _deep(depth - 1, call)


def _tagged_pairs() -> float:
    allocate, tag = tf.memory.allocate, tf.memory.tag("benchmark")
    begin = time.perf_counter()
    for _ in range(NUMBER // 10):
        with tag:
            allocate(4096).free()
    return (time.perf_counter() - begin) / (NUMBER // 10) * 1e9


def plans() -> list[dict[str, str]]:
    """The time of a plan of a million events, for each policy and trace."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in (("churn", _churn()), ("random", _random())):
            path = Path(folder, f"{name}.csv")
            path.write_text("\n".join(lines))
            for policy in POLICIES:
                trace = tf.memory.load_trace(path)
                begin, cpu = time.perf_counter(), time.process_time()
                found = tf.plan(trace, policy=policy)
                rows.append(
                    {
                        "trace": name,
                        "policy": policy,
                        "events": f"{len(trace):,}",
                        "the plan, least limit included": f"{time.perf_counter() - begin:.1f} s",
                        "processor time": f"{time.process_time() - cpu:.1f} s",
                        "goal": "<= 3 s",
                        "least limit": f"{found.results[0].least_limit / found.usages[0].peak_bytes_in_use:.3f}x the "
                        "live peak",
                    }
                )
    return rows


def _churn() -> list[str]:
    """A thousand live blocks of 512 B to 8 MiB, of which random ones are replaced."""
    draw = random.Random(1)
    live: list[tuple[int, int]] = []

    def steps() -> Iterator[tuple[int, int]]:
        while True:
            if len(live) == 1000:
                yield _drawn(draw, live)
            yield 0, int(2 ** draw.uniform(9, 23))

    return _lines(live, steps())


def _random() -> list[str]:
    """Sizes up to 64 MiB, 73 % allocations while at most 16 GB are live, random victims: after RMM's random
    benchmark.
    """
    draw = random.Random(1)
    live: list[tuple[int, int]] = []

    def steps() -> Iterator[tuple[int, int]]:
        while True:
            size = draw.randrange(1, 64 << 20)
            if draw.random() < 0.73 and sum(size for _, size in live) + size <= 16_000_000_000:
                yield 0, size
            elif live:
                yield _drawn(draw, live)

    return _lines(live, steps())


def _drawn(draw: random.Random, live: list[tuple[int, int]]) -> tuple[int, int]:
    at = draw.randrange(len(live))
    live[at], live[-1] = live[-1], live[at]
    return live.pop()


def _lines(live: list[tuple[int, int]], steps: Iterator[tuple[int, int]]) -> list[str]:
    """RMM's log of steps: the address and size of a block to free, or 0 and the size of one to allocate, which becomes
    live.
    """
    lines = ["Thread,Time,Action,Pointer,Size,Stream"]
    for i, (address, size) in enumerate(itertools.islice(steps, EVENTS)):
        if not address:
            live.append(((i + 1) << 24, size))
        action = "free" if address else "allocate"
        lines.append(f"1,10:00:00.000000,{action},0x{address or (i + 1) << 24:x},{size},0")
    return lines


if __name__ == "__main__":
    for row in (*measure(), *plans()):
        print(*row.values(), sep=" | ")
