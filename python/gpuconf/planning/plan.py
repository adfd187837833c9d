"""Find out without a GPU whether a recorded job would fit."""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Iterable

from .. import errors
from .._core import runtime, sizes, texts
from .._core.columns import columns
from .._core.humanbytes import human_bytes
from .._core.job import Job
from .._core.made import Made, make
from .._core.native import core
from .._core.table import Table
from .._typing import Any
from ..memory._record import Recording
from ..memory._trace import HEADER, Trace, load_trace

POLICIES = ("tensorflow", "regions", "virtual")
SCHEMA = 1


class PlanFailure(
    Table,
    namedtuple("PlanFailure", ["event", "requested", "cause", "bytes_in_use", "bytes_reserved", "largest_free_block_bytes"]),
):
    """The first allocation that would fail. Sizes are in bytes, and named as in :class:`gpuconf.memory.MemoryStats`."""

    __slots__ = ()

    event: int  # its number in the trace, from 1; 0: the block was live before the trace began
    requested: int
    cause: str  # "limit reached", "fragmented", "too large", "device full"
    bytes_in_use: int
    bytes_reserved: int
    largest_free_block_bytes: int


class PlanResult(
    Table,
    namedtuple(
        "PlanResult",
        [
            "gpu",
            "policy",
            "fits",
            "least_limit",
            "bytes_limit",
            "peak_bytes_in_use",
            "peak_bytes_reserved",
            "fragmentation",
            "failure",
        ],
    ),
):
    """One logical GPU under one policy. Sizes are in bytes, and named as in :class:`gpuconf.memory.MemoryStats`."""

    __slots__ = ()

    gpu: int
    policy: str
    fits: bool | None  # None: no limit was asked for
    least_limit: int  # whole MiB; a MiB less does not do
    bytes_limit: int  # that of the replay which the next three describe: the given limit, or the least one if the job does not fit
    peak_bytes_in_use: int  # of the pool's blocks
    peak_bytes_reserved: int  # taken from the GPU
    fragmentation: float  # when most was in use: the part of the pool's free memory that is not in its largest piece
    failure: PlanFailure | None  # under the limit that was asked for


class PlanUsage(
    Table,
    namedtuple(
        "PlanUsage",
        ["gpu", "num_allocs", "peak_bytes_in_use", "live_blocks_before", "live_blocks_after", "failures", "unfreed", "streams"],
    ),
):
    """What a trace does to one logical GPU, whatever the policy."""

    __slots__ = ()

    gpu: int
    num_allocs: int
    peak_bytes_in_use: int  # the most bytes that were live at one time, each block rounded up to 256
    live_blocks_before: int  # blocks that were live when the trace began
    live_blocks_after: int  # and when it ended
    failures: int  # allocations that failed when it was made
    unfreed: int  # blocks whose free is missing
    streams: int


class PlanPoint(Table, namedtuple("PlanPoint", ["time", "bytes_in_use", "bytes_reserved"])):
    """A stretch of a replay: its end, in seconds since the trace's beginning, and the most bytes in it."""

    __slots__ = ()

    time: float
    bytes_in_use: int
    bytes_reserved: int


class Plan(metaclass=Made):
    """What :func:`gpuconf.plan` has found out. ``print`` shows it as a table.

    Attributes: ``limit`` in bytes, or None; ``gpu``, the product's name, and ``gpu_memory`` in bytes, or None; ``events``, the
    trace's length, and ``lost``; ``usages``, a PlanUsage for each logical GPU; ``results``, a PlanResult for each of them
    under each policy.
    """

    _made_by = "they come from gpuconf.plan()"

    def __init__(self, trace: Trace, told: dict[str, Any]) -> None:
        self.limit: int | None = told["limit"] or None
        self.gpu: str | None = told["gpu"] or None
        self.gpu_memory: int | None = told["memory"] or None
        self.events = len(trace)
        self.lost = trace.lost
        self.usages = tuple(PlanUsage(**usage) for usage in told["usage"] or ())
        self.results = tuple(map(_result, told["results"] or ()))
        self._timelines = {(r["gpu"], r["policy"]): r["measure"]["timeline"] or [] for r in told["results"] or ()}

    @property
    def fits(self) -> bool | None:
        """Whether the job fits under at least one of the policies; None where no limit was asked for."""
        return None if self.limit is None else bool(self.fitting)

    @property
    def fitting(self) -> tuple[str, ...]:
        """The policies under which all logical GPUs of the job fit."""
        if self.limit is None:
            return ()
        return tuple(p for p in self.policies if all(r.fits for r in self.results if r.policy == p))

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies that were tried."""
        return tuple(dict.fromkeys(r.policy for r in self.results))

    def timeline(self, gpu: int = 0, policy: str = "virtual") -> tuple[PlanPoint, ...]:
        """The memory of one logical GPU over the time of the replay, in at most some 400 stretches.

        Raises LookupError for a GPU that is not in the trace, or a policy that was not tried.
        """
        try:
            points = self._timelines[gpu, policy]
        except KeyError:
            raise errors.NotFoundError(f"GPU:{gpu} under policy {policy!r} is not in this plan") from None
        began = points[0]["micros"] if points else 0
        return tuple(PlanPoint((p["micros"] - began) / 1e6, p["bytes_in_use"], p["bytes_reserved"]) for p in points)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the timelines, as ``gpuconf plan --json`` prints it. Sizes are bytes."""
        return {
            "schema": SCHEMA,
            "events": self.events,
            "lost": self.lost,
            "limit": self.limit,
            "gpu": None if self.gpu is None else {"name": self.gpu, "memory": self.gpu_memory},
            "fits": self.fits,
            "fitting": list(self.fitting),
            "usages": [usage.to_dict() for usage in self.usages],
            "results": [result.to_dict() for result in self.results],
        }

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw memory over time into a file, whose name tells the format (``.png``, ``.svg``). Needs matplotlib: ``gpuconf[plot]``.

        Raises NotImplementedError without it.
        """
        from . import plot as _plot

        _plot.draw(self, os.fspath(path))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return f"<gpuconf.Plan of {_plural(self.events, 'event')}, fits: {self.fits}>"

    def _lines(self) -> list[str]:
        lines = [f"{_plural(self.events, 'event')}, {_plural(sum(u.num_allocs for u in self.usages), 'allocation')}"]
        lines += [f"GPU:{u.gpu}: {human_bytes(u.peak_bytes_in_use)} live at the peak" for u in self.usages]
        on = f" on {self.gpu}" if self.gpu else ""
        if self.limit is not None:
            lines.append(f"limit: {human_bytes(self.limit)}{on}")
        if self.results:
            lines += ["", *_table(self.results), ""]
        for r in self.results:
            if r.failure is not None:
                f = r.failure
                what = f"event {f.event} asks for" if f.event else "what was live before needs"
                lines.append(
                    f"GPU:{r.gpu} {r.policy}: {what} {human_bytes(f.requested)}: {f.cause} (in use {human_bytes(f.bytes_in_use)}, "
                    f"reserved {human_bytes(f.bytes_reserved)}, largest free block {human_bytes(f.largest_free_block_bytes)})"
                )
        lines += [f"note: {note}" for note in self._notes()]
        return [*lines, self._verdict()]

    def _verdict(self) -> str:
        if not self.results:
            return "nothing is allocated"
        if self.limit is None:
            return "no limit was asked for"
        if not self.fitting:
            return "does not fit"
        missed = [p for p in self.policies if p not in self.fitting]
        return f"fits with {', '.join(self.fitting)}" + (f"; does not fit with {', '.join(missed)}" if missed else "")

    def _notes(self) -> Iterable[str]:
        if self.lost:
            be = "is" if self.lost == 1 else "are"
            yield f"{_plural(self.lost, 'event')} before the trace {be} lost: an earlier peak is not in it"
        for u in self.usages:
            name = f"GPU:{u.gpu}"
            if u.failures:
                yield f"{_plural(u.failures, 'allocation')} on {name} had failed: what would have followed is not in the trace"
            if u.unfreed:
                what = "free is missing: its block ends" if u.unfreed == 1 else "frees are missing: their blocks end"
                yield f"on {name} {u.unfreed} {what} where another begins at its address"
            if u.streams > 1:
                yield f"{name} uses {u.streams} streams, replayed as one: what waits for another stream's work is not counted"


def _result(told: dict[str, Any]) -> PlanResult:
    measure = told["measure"]
    return PlanResult(
        told["gpu"],
        told["policy"],
        told["fits"],
        told["least_limit"],
        measure["bytes_limit"],
        measure["peak_bytes_in_use"],
        measure["peak_bytes_reserved"],
        measure["fragmentation"],
        told["failure"] and PlanFailure(**told["failure"]),
    )


def _table(results: Iterable[PlanResult]) -> list[str]:
    rows = [("GPU", "policy", "fits", "least limit", "peak in use", "peak reserved", "fragmentation")]
    rows += [
        (
            f"GPU:{r.gpu}",
            r.policy,
            {True: "yes", False: "no", None: "-"}[r.fits],
            human_bytes(r.least_limit),
            human_bytes(r.peak_bytes_in_use),
            human_bytes(r.peak_bytes_reserved),
            f"{100 * r.fragmentation:.1f}%",
        )
        for r in results
    ]
    return columns(rows, left=3)


def _plural(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def plan(
    trace: Trace | Recording | str | os.PathLike[str],
    limit: int | str | None = None,
    gpu: str | None = None,
    policy: str | Iterable[str] | None = None,
) -> Plan:
    """Find out whether a recorded job would fit, and which limit it needs at least. Needs no GPU, and initialises nothing.

    ``trace`` is a Trace, a Recording that has stopped, or a file for ``gpuconf.memory.load_trace``. Each of its logical GPUs is
    replayed through the real allocator, over a device that only counts. ``limit`` is what each may take: bytes, or text such as
    ``"24GiB"``; whole MiB count, rounded down. ``gpu`` is a model as for ``simulate``, such as ``"A10"``: the pool can't
    take more than it has, and without ``limit`` gets its default limit. With neither, only the least limits are found.

    ``policy`` is one of these, or a list; all that the GPU can without:

    - ``"tensorflow"``: TensorFlow's allocator with memory growth
    - ``"regions"``: gpuconf without memory growth, which takes the whole limit at once
    - ``"virtual"``: gpuconf with memory growth, which maps memory as it is needed

    Raises ValueError for a trace, limit, GPU or policy that can't be, and OSError as ``open`` does.

    >>> with gpuconf.memory.record() as recording:
    ...     allocate(3_000_000, "GPU:0").free()
    >>> found = plan(recording, limit="4MiB")
    >>> found.fits, [(r.policy, r.least_limit >> 20) for r in found.results]
    (True, [('tensorflow', 3), ('regions', 3), ('virtual', 3)])
    """
    open_plan = core.pybind_OpenPlan  # loads the core, which comes before all imports
    import json

    from .._core.notices import log

    taken = trace if isinstance(trace, Trace) else trace.trace if isinstance(trace, Recording) else load_trace(trace)
    request = {
        "limit": sizes.limit_bytes(limit) if limit is not None else 0,
        "gpu": texts.check_text("gpu", gpu) if gpu is not None else "",
        "policies": _policies(policy),
        "env": json.loads(runtime.environment()),
    }
    if gpu is not None and not gpu.strip():
        raise errors.InvalidArgumentError("gpu names no GPU: write a model, such as 'A10'")
    with Job(open_plan, json.dumps(request)) as job:
        core.pybind_FeedPlan(job.number, HEADER)
        for page in taken._pages:
            core.pybind_FeedPlan(job.number, page)
        told = job.finish()
    for level, text in told["notices"]:
        log(level, text)
    return make(Plan, taken, told)


def _policies(policy: Any) -> list[str]:
    if isinstance(policy, str):
        return [_policy(policy)]
    try:
        return [] if policy is None else list(map(_policy, policy))
    except TypeError:
        text = "policy must be one of the policies, or a list of them"
        raise errors.InvalidTypeError(f"{text}, but got {type(policy).__name__}: {texts.shown(policy)}") from None


def _policy(policy: object) -> str:
    if not isinstance(policy, str) or policy not in POLICIES:
        raise errors.InvalidArgumentError(f"policy must be one of {', '.join(map(repr, POLICIES))}, but got {texts.shown(policy)}")
    return policy
