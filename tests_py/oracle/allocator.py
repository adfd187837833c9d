"""TensorFlow's BFCAllocator and gpuconf's on the same random traces, step by step.

With TensorFlow's split rule both must agree in everything: addresses, statistics, and calls to the device. With exact
splitting gpuconf may serve what TensorFlow cannot; up to the first such step the same requests are served, with no more
memory in
use.
"""

import re
import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .cpp import build
from .outcomes import Tally

CLEAR_STATS = 0xFFFFFFFF
NEVER_ENDS = 2304  # on a full device, TensorFlow retries requests of up to this many bytes forever
SECONDS = 60  # a trace that takes longer hangs

_RECORD = np.dtype([(name, "<u8") for name in ("addr", "current", "peak", "pool", "allocs", "largest", "calls")])
_HEADER = np.dtype(
    [(name, "<u8") for name in ("steps", "limit", "capacity", "layout")]
    + [("fraction", "<f8"), ("growth", "u1"), ("collect", "u1"), ("exact", "u1"), ("", "u1", 5)]
)


class Trace(NamedTuple):
    """Steps: an allocation into a slot, or (size 0) the free of its contents."""

    slots: np.ndarray
    sizes: np.ndarray
    limit: int
    capacity: int
    layout: int
    fraction: float
    growth: bool
    collect: bool

    def __str__(self) -> str:
        return (
            f"{len(self.slots)} steps, limit {self.limit}, device {self.capacity}, layout {self.layout}, fraction "
            f"{self.fraction}, "
            f"growth {self.growth}, collect {self.collect}"
        )


class Program:
    """A program that runs traces; it is watched, and killed if a trace takes too long."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, trace: Trace, *, exact: bool = False) -> np.ndarray:
        """The records of a trace's steps. TensorFlow's end before a step that might never end."""
        if self.process is None:
            self.process = subprocess.Popen(
                [self.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"},
            )
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        header = np.zeros(1, _HEADER)
        header[0] = (len(trace.slots), *trace[2:6], trace.growth, trace.collect, exact, (0,) * 5)
        watchdog = threading.Timer(SECONDS, process.kill)
        watchdog.start()
        try:
            process.stdin.write(header.tobytes() + trace.slots.tobytes() + trace.sizes.tobytes())
            process.stdin.flush()
            size = int.from_bytes(process.stdout.read(8), "little") * _RECORD.itemsize
            answer = process.stdout.read(size)
        except BrokenPipeError:
            size, answer = 0, b""
        finally:
            watchdog.cancel()
        if not size or len(answer) != size:
            self.process = None
            raise RuntimeError(f"{self.path.name} ended ({process.wait()}) in a trace of {trace}")
        return np.frombuffer(answer, _RECORD)

    def close(self) -> None:
        """End the program."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait()


_LAWS = ("uniform", "logarithmic", "powers", "few", "small", "tail", "layers")


def _sizes(draw: np.random.Generator, law: str, n: int, largest: int) -> np.ndarray:
    """Request sizes from one of several distributions, from 1 byte up."""
    largest = max(largest, 512)
    if law == "uniform":
        return draw.integers(1, largest, n)
    if law == "logarithmic":
        return np.exp(draw.uniform(0, np.log(largest), n)).astype(np.int64)
    if law == "powers":
        return (2 ** draw.integers(0, int(np.log2(largest)) + 1, n)) + draw.choice([-1, 0, 0, 0, 1, 256], n)
    if law == "few":
        return draw.choice(draw.integers(1, largest, draw.integers(1, 9)), n)
    if law == "small":
        return draw.integers(1, 4096, n)
    if law == "even":  # so that the remainder is sometimes exactly 128 MiB
        return draw.integers(1, 20, n) * (64 << 20) + draw.choice([-1, 1, 256] + [0] * 60, n)
    if law == "tail":
        return np.minimum(256 * (1 + draw.pareto(0.8, n)), largest).astype(np.int64)
    layers = np.exp(draw.uniform(np.log(512), np.log(largest), 12)).astype(np.int64) // 512 * 512
    return draw.choice(layers, n)


def draw_trace(draw: np.random.Generator, steps: int) -> Trace:
    """A random trace: slots are filled and emptied at random, in order, or in the same way repeatedly; the limit is
    near.
    """
    huge = draw.random() < 0.12  # blocks beyond 128 MiB, which TensorFlow splits differently
    if huge:
        steps = min(max(steps, 500), 3000)
    count = int(draw.integers(4, 13)) if huge else int(np.exp(draw.uniform(0, np.log(2000))))
    pattern = draw.choice(["random", "random", "stack", "queue", "iterations"])
    if pattern == "random":
        slots = draw.integers(0, count, steps)
    elif pattern == "stack":
        once = np.concatenate([np.arange(count), np.arange(count)[::-1]])
        slots = np.resize(once, steps)
    elif pattern == "queue":
        slots = np.resize(np.concatenate([np.arange(count), np.arange(count)]), steps)
    else:
        once = draw.permutation(np.repeat(np.arange(count), 2))
        slots = np.resize(once, steps)
    # A slot is filled and emptied alternately: its odd occurrences allocate.
    order = np.argsort(slots, kind="stable")
    in_order = slots[order]
    first = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]])
    rank = np.arange(steps) - np.repeat(first, np.diff(np.r_[first, steps]))
    nth = np.empty(steps, np.int64)
    nth[order] = rank
    allocates = nth % 2 == 0

    smallest, largest = (64 << 20, 1400 << 20) if huge else (4096, 64 << 20)
    largest = int(np.exp(draw.uniform(np.log(smallest), np.log(largest))))
    law = draw.choice([*_LAWS[:4], *["even"] * 8] if huge else _LAWS)
    sizes = _sizes(draw, law, steps, largest)
    if pattern == "iterations":  # the same sizes each time
        sizes = np.resize(sizes[: 2 * count], steps)
    live = max(float(sizes.mean()) * count / 2, 4096.0)
    limit = int(min(max(live * np.exp(draw.uniform(np.log(0.2), np.log(4))), 1), (4 if huge else 2) << 30))
    if law == "even":
        limit = max(limit // (64 << 20), 4) * (64 << 20)
    capacity = 1 << 62
    if draw.random() < 0.3:
        capacity = int(limit * draw.uniform(0.05, 1.1))
        sizes = np.maximum(sizes, NEVER_ENDS + 1)
    sizes = np.where(allocates, np.maximum(sizes, 1), 0).astype("<u8")
    slots = slots.astype("<u4")
    clears = draw.random(steps) < 0.0005
    clears &= allocates  # a slot that was not filled may be emptied, with no effect
    slots[clears] = CLEAR_STATS
    fraction = float(draw.choice([0] * (16 if huge else 4) + [0.01, 0.05, 0.5, 1.0]))
    layout = int(draw.choice([0, 1, draw.integers(2, 1 << 30)]))
    return Trace(slots, sizes, limit, capacity, layout, fraction, bool(draw.random() < 0.6), bool(draw.random() < 0.7))


class Programs:
    """Both allocators."""

    def __init__(self) -> None:
        self.theirs = Program(build.cpp("bfc_traces.cc", shared=False))
        self.ours = Program(build.go("./tests_go/pool/oracle"))

    def close(self) -> None:
        """End both."""
        self.theirs.close()
        self.ours.close()


class Exact(NamedTuple):
    """Exact splitting compared with TensorFlow's, over all traces."""

    traces: int = 0
    same_to_the_end: int = 0
    ours_failed_first: int = 0
    theirs_failed_first: int = 0


def _compare_rule(programs: Programs, trace: Trace, seed: str, tally: Tally) -> np.ndarray:
    """TensorFlow's split rule: everything is the same. Returns TensorFlow's records."""
    theirs = programs.theirs.run(trace)
    ours = programs.ours.run(trace)[: len(theirs)]
    unlike = np.flatnonzero(theirs != ours)
    tally.equal(len(theirs) - len(unlike))
    if len(unlike):
        at = int(unlike[0])
        fields = [name for name in _RECORD.names or () if theirs[name][at] != ours[name][at]]
        story = [
            f"trace {seed}: {trace}",
            f"  from step {at} (slot {trace.slots[at]}, {trace.sizes[at]} bytes): {', '.join(fields)}",
        ]
        story += [f"  TensorFlow: {theirs[at]}", f"  gpuconf:    {ours[at]}"]
        tally.different(f"TensorFlow's rule: {fields[0]}", story, len(unlike))
    return theirs


def _compare_exact(
    programs: Programs, trace: Trace, theirs: np.ndarray, seed: str, tally: Tally, counts: Exact
) -> Exact:
    """Exact splitting: the same requests are served, with no more in use, until the first that only one serves."""
    ours = programs.ours.run(trace, exact=True)[: len(theirs)]
    served, serves = theirs["addr"] != 0, ours["addr"] != 0
    apart = np.flatnonzero(served != serves)
    end = int(apart[0]) if len(apart) else len(theirs)
    more = np.flatnonzero(ours["current"][:end] > theirs["current"][:end])
    tally.equal(end - len(more))
    if len(more):
        story = [
            f"trace {seed}: {trace}",
            f"  step {more[0]}: {theirs['current'][more[0]]} and {ours['current'][more[0]]} in use",
        ]
        tally.different("exact splitting: more in use", story, len(more))
    if not len(apart):
        return counts._replace(traces=counts.traces + 1, same_to_the_end=counts.same_to_the_end + 1)
    tally.excused("exact-splitting")
    who = "theirs_failed_first" if serves[end] else "ours_failed_first"
    return counts._replace(traces=counts.traces + 1, **{who: getattr(counts, who) + 1})


def run(programs: Programs, seed: int, wanted: int, tally: Tally) -> Exact:
    """Compare at least this many steps."""
    counts, number = Exact(), 0
    while tally.compared < wanted:
        draw = np.random.default_rng([seed, number])
        trace = draw_trace(draw, int(np.exp(draw.uniform(np.log(20), np.log(40000)))))
        name = f"{number} of seed {seed}"
        theirs = _compare_rule(programs, trace, name, tally)
        counts = _compare_exact(programs, trace, theirs, name, tally, counts)
        number += 1
    return counts


_GOLDEN = re.compile(
    r'\{name: "(?P<name>[^"]*)", limit: (?P<limit>[^,]*),(?P<options>[^`]*?)wantTrace: `(?P<trace>[^`]*)`\}', re.DOTALL
)
_STEP = re.compile(
    r"(?:(?P<as>\w+) = )?(?:alloc (?P<bytes>\d+)|free (?P<free>\w+))\s*:\s*(?:@(?P<at>\w+) (?P<got>\d+)|null|zero)?"
)


def run_goldens(programs: Programs, tally: Tally) -> None:
    """The golden traces of gpuconf's own tests, on TensorFlow: this shows that the compiled allocator is the right
    one.
    """
    source = (build.ROOT / "tests_go" / "pool" / "bfc" / "golden_test.go").read_text()
    found = list(_GOLDEN.finditer(source))
    assert len(found) >= 10, "the golden traces of tests_go/pool/bfc/golden_test.go are not found"
    for golden in found:
        _run_golden(programs, golden, tally)


def _run_golden(programs: Programs, golden: re.Match[str], tally: Tally) -> None:
    steps = [step for step in map(_STEP.match, (line.strip() for line in golden["trace"].splitlines())) if step]
    names: dict[str, int] = {}
    slots, sizes = [], []
    for i, step in enumerate(steps):
        if step["free"]:
            slots.append(names[step["free"]])
            sizes.append(0)
        else:
            names[step["as"] or f"step {i}"] = i
            slots.append(i)
            sizes.append(int(step["bytes"]))
    options = dict(re.findall(r"(\w+): ([^,]+)", golden["options"]))
    trace = Trace(
        np.array(slots, "<u4"), np.array(sizes, "<u8"), limit=_number(golden["limit"]),
        capacity=_number(options.get("device", "1 << 62")), layout=0, fraction=float(options.get("fraction", 0)),
        growth="growth" in options, collect="noGC" not in options,
    )  # fmt: skip
    records = programs.theirs.run(trace)
    for i, step in enumerate(steps):
        if step["free"]:
            continue
        before = int(records["current"][i - 1]) if i else 0
        got = (int(records["addr"][i]), int(records["current"][i]) - before)
        want = (0x700000000000 + int(step["at"], 16), int(step["got"])) if step["at"] else (0, 0)
        if got == want:
            tally.equal()
        else:
            tally.different(
                golden["name"], [f"golden trace {golden['name']}, {step[0]}: TensorFlow gives {got}, not {want}"]
            )


def _number(text: str) -> int:
    """A Go constant such as 1 << 30."""
    left, _, right = text.partition("<<")
    return int(left) << int(right or 0)
