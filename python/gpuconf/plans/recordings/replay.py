# SPDX-License-Identifier: Apache-2.0
"""Determine without a GPU whether a recorded job would fit."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable

from ... import errors
from ..._core import html, runtime, sizes, texts
from ..._core.handle import Job
from ..._core.native import core, refuse_in_child
from ..._core.stacks import Frame, call_site
from ..._core.table import Fields, Made, Printed, Table, columns, counted, glyphs_of, human_bytes, human_limit, make
from ..._typing import Any
from ...memory._record import Recording
from ...memory._trace import HEADER, Trace, load_trace
from ..generated.policies import NEED_VIRTUAL, OF_GPUCONF, POLICIES
from . import out_of_memory, sites
from .out_of_memory import OutOfMemory
from .sites import PlanSite

SCHEMA = 1


class PlanFailure(Table):
    """The first allocation that would fail. Sizes are in bytes, and named as in :class:`gpuconf.memory.MemoryStats`."""

    event: int  # the event's number in the trace, from 1; 0 if the block was live before the trace began
    requested: int
    cause: str  # "limit reached", "fragmented", "too large", "device full"
    bytes_in_use: int
    bytes_reserved: int
    largest_free_block_bytes: int


class PlanResult(Table):
    """One logical GPU under one policy. Sizes are in bytes, and named as in :class:`gpuconf.memory.MemoryStats`."""

    gpu: int
    policy: str
    settings: str  # of PYTORCH_CUDA_ALLOC_CONF, such as "max_split_size_mb:128"; "" if the policy needs none
    fits: bool | None  # None without a limit, or if that depends on a limit that the snapshot does not have
    least_limit: int  # the smallest limit under which the job fits, a multiple of 1 MiB
    # The limit of the replay that the next three fields describe: the given one, or least_limit if that fails.
    bytes_limit: int
    peak_bytes_in_use: int  # the maximum total size of live blocks
    peak_bytes_reserved: int  # the maximum memory reserved on the GPU
    # At the peak of bytes in use: the fraction of the pool's free memory outside its largest free block.
    fragmentation: float
    failure: PlanFailure | None  # under the given limit


class PlanHolder(Table):
    """Memory that is live at the peak, of one library under one tag, allocated by the same calls."""

    library: str  # as in UsageRow; "" if unknown
    tag: str  # "" for untagged memory
    stack: tuple[tuple[str, int, str], ...]  # as in TraceEvent; () if unknown
    bytes_in_use: int  # as in PlanUsage
    live_blocks: int
    before: bool  # allocated before the trace began, and nothing else is known

    @property
    def call_site(self) -> Frame | None:
        """The innermost call of ``stack`` that is not in an installed library, else the innermost.

        None without a stack.
        """
        return call_site(self.stack)


class PlanUsage(Table):
    """The memory use of a trace on one logical GPU, independent of the policy."""

    gpu: int
    num_allocs: int
    # the maximum of live bytes: each block as PyTorch sized it, if known, or rounded up to a multiple of 256
    peak_bytes_in_use: int
    live_blocks_before: int  # blocks that were live when the trace began
    live_blocks_after: int  # blocks that were live when the trace ended
    failures: int  # allocations that failed during recording
    unfreed: int  # blocks whose free is missing
    streams: int
    peak_bytes_requested: int = 0  # what the program requested for the blocks that are live at that peak
    needed_bytes: int = 0  # the peak with the allocation that failed at the end of a snapshot; 0 if there is none
    bytes_before: int = 0  # live when the trace began
    recorded_bytes_reserved: int | None = None  # the most that PyTorch had reserved, by its snapshot; None if unknown
    holders_at_peak: tuple[PlanHolder, ...] = ()  # the largest first, at most 100
    # The same by line of code, at most 100, and then the rest: they add up to the peak.
    sites_at_peak: tuple[PlanSite, ...] = ()


class PlanPoint(Table):
    """An interval of a replay: its end, in seconds since the first event of its GPU, and the maximum bytes during
    it.
    """

    time: float
    bytes_in_use: int
    bytes_reserved: int


class Plan(Printed, Fields, metaclass=Made):
    """The result of :func:`gpuconf.plan`. ``print`` shows it as a table.

    Attributes: ``limit`` in bytes, or None; ``gpu``, the product name, and ``gpu_memory`` in bytes, or None;
    ``events``, the length of the trace, and ``lost``; ``usages``, a PlanUsage for each logical GPU; ``results``, a
    PlanResult for each logical GPU and policy; ``out_of_memory``, an OutOfMemory for each GPU on which a PyTorch
    snapshot ends with a
    failed
    allocation.
    """

    __module__ = "gpuconf"

    _made_by = "use gpuconf.plan()"
    _fields = ("events", "lost", "limit", "gpu", "fits", "fitting", "out_of_memory", "usages", "results")

    def __init__(self, trace: Trace, fields: dict[str, Any]) -> None:
        self.limit: int | None = fields["limit"] or None
        self.gpu: str | None = fields["gpu"] or None
        self._default_limit: bool = fields["default_limit"]
        self._without_pools: list[str] = fields.get("without_pools", [])
        self.gpu_memory: int | None = fields["memory"] or None
        self.events: int = len(trace)
        self.lost: int = trace.lost
        self._open_ended = trace._open_ended
        self._recorded: list[Any] = trace._recorded
        self._incomplete = trace._incomplete
        self._settings = trace._settings
        self.out_of_memory: tuple[OutOfMemory, ...] = _failed(trace)
        self.usages: tuple[PlanUsage, ...] = tuple(_usage(usage, trace) for usage in fields["usage"] or ())
        failed = min(self.out_of_memory, key=lambda failure: failure.bytes_limit, default=None)
        # PyTorch's own limit is between these two, if the second is more: a replay that needs more than the first, and
        # not more than the second, may fit.
        self._most_limit = failed.most_limit if failed and fields["limit_of_failure"] else self.limit or 0
        self.results: tuple[PlanResult, ...] = tuple(map(self._result, fields["results"] or ()))
        self._timelines = {(r["gpu"], r["policy"]): r["measure"]["timeline"] or [] for r in fields["results"] or ()}
        self._on_cards = {(r["gpu"], r["policy"]): r["on_cards"] or [] for r in fields["results"] or ()}

    @property
    def fits(self) -> bool | None:
        """Whether the job fits under at least one of the policies; None without a limit, without allocations, or if
        that depends on a limit of PyTorch's own that the snapshot does not have.
        """
        if self.limit is None or not self.results or (not self.fitting and self._possible()):
            return None
        return bool(self.fitting)

    def _result(self, fields: dict[str, Any]) -> PlanResult:
        told = {**fields, **fields["measure"], "failure": fields["failure"] and PlanFailure(**fields["failure"])}
        if self.limit and self.limit < told["least_limit"] <= self._most_limit:
            told |= {"fits": None, "failure": None}
        return PlanResult(**{name: told[name] for name in PlanResult._fields})

    def _possible(self) -> dict[str, int]:
        """Return the least limits of the policies under which the job may fit: the snapshot does not say."""
        return {
            policy: max(r.least_limit for r in self.results if r.policy == policy)
            for policy in self.policies
            if all(r.fits is not False for r in self.results if r.policy == policy) and policy not in self.fitting
        }

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
        """Return the memory of one logical GPU over the time of the replay, in at most about 400 intervals.

        Raises LookupError for a GPU that is not in the trace, or a policy that was not tried.
        """
        try:
            points = self._timelines[gpu, policy]
        except KeyError:
            raise errors.NotFoundError(f"GPU:{gpu} under policy {policy!r} is not in this plan") from None
        return tuple(PlanPoint(p["micros"] / 1e6, p["bytes_in_use"], p["bytes_reserved"]) for p in points)

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the timelines, as ``gpuconf plan --json`` prints it. Sizes are in bytes."""
        gpu = None if self.gpu is None else {"name": self.gpu, "memory": self.gpu_memory}
        return {"schema": SCHEMA, **super().to_dict(), "gpu": gpu}

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Plot memory over time into a file. The file name determines the format (``.png``, ``.svg``).

        Requires matplotlib (``gpuconf[plot]``); raises MissingPackageError without it, and ValueError for a format that
        it cannot write.
        """
        from ..pages import plot as _plot

        _plot.draw(self, os.fspath(path))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return f"<gpuconf.Plan of {counted(self.events, 'event')}, fits: {self.fits}>"

    def _repr_html_(self) -> str:
        top = [html.line(text) for text in self._summary()]
        bottom = [html.line(text) for text in (*self._failures(), *self._notes())]
        most = max((max(r.bytes_limit, r.least_limit) for r in self.results), default=0)
        rows = [
            (
                f"GPU:{r.gpu}",
                _named(r),
                _YES[r.fits],
                html.memory_bar(r.peak_bytes_in_use, r.peak_bytes_in_use, r.peak_bytes_reserved, most),
                html.limit(r.least_limit),
                *map(html.size, (r.peak_bytes_in_use, r.peak_bytes_reserved)),
                f"{100 * r.fragmentation:.1f}%",
            )
            for r in self.results
        ]
        head = (*_HEAD[:3], "", *_HEAD[3:])
        return html.shown(
            html.titled(f"Plan: {self._verdict()}", *top, html.table(head, rows, left=4) if rows else "", *bottom)
        )

    def _lines(self) -> list[str]:
        table = ["", *_table([*self._as_recorded(), *map(_row, self.results)]), ""] if self.results else []
        notes = [f"note: {note}" for note in self._notes()]
        ran_out = [line for failure in self.out_of_memory for line in (*failure.lines(glyphs_of(sys.stdout)), "")]
        replayed = [*self._summary(), *table, *self._failures()]
        return [*self._top(), *ran_out, *replayed, *notes, *self._advice(), self._verdict()]

    def _top(self) -> Iterable[str]:
        """Yield a verdict for each GPU that ran out of memory, in at most 80 columns a line."""
        for failure in self.out_of_memory:
            usage = next((u for u in self.usages if u.gpu == failure.gpu), None)
            if usage is None or failure.unknown:
                continue
            needs, has = human_bytes(usage.needed_bytes), human_bytes(failure.bytes_limit)
            advice = self._help()
            helps = "a setting helps" if advice else ""
            if not advice and self.limit == _had(self.out_of_memory):  # PyTorch's own limit is at least that
                helps = "its own limit is not recorded: see --limit" if failure.own_limit else "no setting helps"
            at_least = "at least " if failure.own_limit and self.limit == _had(self.out_of_memory) else ""
            figures = f"{needs} and has {at_least}{has}"
            if needs == has and not at_least:  # as rounded
                figures = f"{needs}, {human_bytes(usage.needed_bytes - failure.bytes_limit)} more than it has"
            yield f"GPU:{failure.gpu} ran out of memory: it needs {figures}" + (f"; {helps}" if helps else "")
            if advice:
                yield f"  {advice}"
            for site in failure.sites:
                if site.call_site is not None:
                    start = f"  {human_bytes(site.bytes_in_use)} of it are held by "
                    yield start + sites.cut(site.call_site, 80 - len(start))
                    break
            yield ""

    def _as_recorded(self) -> Iterable[tuple[str, ...]]:
        """Yield a row of the table for each GPU whose snapshot says what PyTorch had reserved."""
        for usage in self.usages:
            reserved = usage.recorded_bytes_reserved
            if reserved is not None:
                fits = "-" if self.limit is None or usage.needed_bytes else _YES[reserved <= self.limit]
                sizes = human_bytes(usage.peak_bytes_in_use), human_bytes(reserved)
                yield f"GPU:{usage.gpu}", "as recorded", fits, "-", *sizes, "-"

    def _head(self) -> str:
        """Return how long the trace is, and of what it is if a rehearsal wrote it."""
        events = f"{counted(self.events, 'event')}, {counted(sum(u.num_allocs for u in self.usages), 'allocation')}"
        of = self._settings
        return f"{events}, on {of['card']} with PyTorch {of['torch']}: {of['command']}" if of.get("card") else events

    def _summary(self) -> Iterable[str]:
        yield self._head()
        for u in self.usages:
            yield f"GPU:{u.gpu}: {_peak(u)}"
            yield from sites.lines(u.sites_at_peak, _SHOWN)
        if self.limit is not None:
            on = f" on {self.gpu}" if self.gpu else ""
            had = ", the memory that PyTorch could use" if self.limit == _had(self.out_of_memory) else ""
            default = ", its default" if self._default_limit else ""
            at_least = "at least " if self._most_limit > self.limit else ""
            yield f"limit: {at_least}{human_bytes(self.limit)}{on}{default}{had}"

    def _failures(self) -> Iterable[str]:
        for r in self.results:
            if r.failure is not None:
                f = r.failure
                what = f"event {f.event} requests" if f.event else "blocks live before the trace need"
                yield f"GPU:{r.gpu} {r.policy}: {what} {human_bytes(f.requested)}: {f.cause}"
                in_use, reserved, free = map(
                    human_bytes, (f.bytes_in_use, f.bytes_reserved, f.largest_free_block_bytes)
                )
                yield f"  in use {in_use}, reserved {reserved}, largest free block {free}"

    def _verdict(self) -> str:
        if not self.results:
            return "no allocations: record the job again, from its start to its end"
        if self.limit is None:
            return "no limit given"
        possible = self._possible()
        if not self.fitting and possible:
            least = min(possible, key=lambda policy: possible[policy])
            needs = f"{human_limit(possible[least])} with {least}"
            return f"depends on PyTorch's own limit, which is not recorded (--limit): the job needs {needs}"
        if not self.fitting:
            return "does not fit"
        missed = [p for p in self.policies if p not in self.fitting]
        return f"fits with {', '.join(self.fitting)}" + (f"; does not fit with {', '.join(missed)}" if missed else "")

    def _advice(self) -> Iterable[str]:
        """Yield the changes of PyTorch's allocator with which a job fits that did not fit before."""
        if self.limit is None or "pytorch" not in self.policies or "pytorch" in self.fitting or self.fits is None:
            return
        yield f"advice: {self._help() or f'no setting makes it fit: {self._need()}'}"

    def _help(self) -> str:
        """Return the setting that makes a job fit that does not fit with PyTorch's allocator as it was.

        "" if there is none.
        """
        if "pytorch" in self.fitting:
            return ""
        settings = [p for p in self.fitting if p.startswith("pytorch-")]
        if settings:
            found = [
                max((r for r in self.results if r.policy == p), key=lambda r: r.least_limit).settings for p in settings
            ]
            return f"export PYTORCH_CUDA_ALLOC_CONF={found[0]}" + (
                f" (or {', or '.join(found[1:])})" if found[1:] else ""
            )
        for policy in reversed(OF_GPUCONF):
            if policy in self.fitting:
                return f"gpuconf.configure(limit={self.limit}, growth={policy in NEED_VIRTUAL})"
        return ""

    def _need(self) -> str:
        """Return why no policy fits: what is live at the peak and who holds it, or the least limit if that is more."""
        usage = max(self.usages, key=lambda u: max(u.peak_bytes_in_use, u.needed_bytes))
        most = max(usage.peak_bytes_in_use, usage.needed_bytes)
        if most <= (self.limit or 0):
            needs = {p: max(r.least_limit for r in self.results if r.policy == p) for p in self.policies}
            best = min(reversed(self.policies), key=lambda p: needs[p])
            return f"the smallest limit that one of them needs is {human_limit(needs[best])} ({best})"
        text = f"{human_bytes(most)} are {'needed' if usage.needed_bytes else 'live at the peak'}"
        known = [site for site in usage.sites_at_peak if site.known][:3]
        return f"{text}; the largest holders are {'; '.join(map(str, known))}" if known else text

    def _notes(self) -> Iterable[str]:
        if self._without_pools and not self.fitting:
            yield (
                "private pools, such as those of CUDA graphs, are taken to be in use to the end, since the recording "
                f"does not say when they were left; if they were, it may fit with {', '.join(self._without_pools)}: "
                "`gpuconf plan -- PROGRAM` sees that"
            )
        if self._incomplete:
            yield f"PyTorch does not write such a snapshot, which is synthetic or damaged: {self._incomplete}"
        for recorded in self._recorded:
            gpu = f"GPU:{recorded['gpu']}"
            if recorded["unknown"]:
                yield f"the snapshot of {gpu} contradicts itself, so it is synthetic or damaged: {recorded['unknown']}"
            elif recorded["differs"]:
                yield (
                    f"PyTorch's allocator, as gpuconf knows it, would not have done on {gpu} what the snapshot has, "
                    f"which may be synthetic or damaged: {recorded['differs']}"
                )
        for u in self.usages:
            if not u.num_allocs and u.live_blocks_before and not u.failures:
                yield (
                    f"the trace has no allocation on GPU:{u.gpu}: this is what was live when it was taken, and not the "
                    "job's peak. Call torch.cuda.memory._record_memory_history() before the job"
                )
        if self.lost:
            be = "was" if self.lost == 1 else "were"
            yield f"{counted(self.lost, 'event')} before the trace {be} lost: an earlier peak may be missing"
        if self._open_ended:
            yield "the file's last line has no newline: if the file was cut there, the end of the job is missing"
        for u in self.usages:
            name = f"GPU:{u.gpu}"
            if u.failures > any(failure.gpu == u.gpu for failure in self.out_of_memory):
                failed = f"{counted(u.failures, 'allocation')} on {name} failed during recording"
                yield f"{failed}: later allocations may be missing"
            if u.unfreed:
                one = u.unfreed == 1
                what = "free is missing: its block ends" if one else "frees are missing: each of these blocks ends"
                yield f"on {name} {u.unfreed} {what} when its address is allocated again"
            if u.streams > 1:
                yield (
                    f"{name} uses {u.streams} streams, which only PyTorch's policies keep apart: memory that waits "
                    "for another stream is not counted"
                )


_SHOWN = 5  # holders at the peak, in the table
_MOST_HOLDERS = 100  # in the JSON


def _failed(trace: Trace) -> tuple[OutOfMemory, ...]:
    if not trace._failed:
        return ()
    holders, stacks = trace._holders(), trace._stacks()
    most = {one["gpu"]: one["peak_bytes_reserved"] for one in trace._recorded if not one["unknown"]}
    return tuple(out_of_memory.read(fields, holders, stacks, most.get(fields["gpu"], 0)) for fields in trace._failed)


def _had(failed: Iterable[OutOfMemory]) -> int:
    """Return what PyTorch could have when it ran out of memory, on the GPU where that was least.

    0 if that is unknown.
    """
    return min((failure.bytes_limit for failure in failed), default=0)


def _usage(fields: dict[str, Any], trace: Trace) -> PlanUsage:
    holders, stacks = trace._holders(), trace._stacks()
    at_peak = []
    for h in fields["holders_at_peak"]:
        library, tag = holders[h["holder"]]
        at_peak.append(PlanHolder(library, tag, stacks[h["stack"]], h["bytes_in_use"], h["live_blocks"], h["before"]))
    most = at_peak[:_MOST_HOLDERS]
    by_line = sites.first(sites.fold(at_peak), _MOST_HOLDERS)
    recorded = next((r for r in trace._recorded if r["gpu"] == fields["gpu"] and not r["unknown"]), None)
    reserved = recorded and recorded["peak_bytes_reserved"]
    return PlanUsage(
        **{**fields, "recorded_bytes_reserved": reserved, "holders_at_peak": tuple(most), "sites_at_peak": by_line}
    )


def _peak(usage: PlanUsage) -> str:
    """Return the peak of a GPU, by the names of torch.cuda.memory_stats if the sizes are PyTorch's."""
    if usage.recorded_bytes_reserved is None:
        text = f"{human_bytes(usage.peak_bytes_in_use)} live at the peak"
    else:
        in_use, requested = human_bytes(usage.peak_bytes_in_use), human_bytes(usage.peak_bytes_requested)
        text = f"{in_use} allocated at the peak, {requested} requested"
    return text + (f"; needed {human_bytes(usage.needed_bytes)}" if usage.needed_bytes else "")


_HEAD = ("GPU", "policy", "fits", "least limit", "peak in use", "peak reserved", "fragmented")
_YES = {True: "yes", False: "no", None: "-"}


_SHORT = {"expandable_segments": "expandable", "max_split_size_mb": "max_split", "roundup_power2_divisions": "roundup"}


def _named(result: PlanResult) -> str:
    """Return the policy, short: the table fits into 80 columns."""
    name, _, value = result.settings.partition(":")
    return f"{_SHORT.get(name, name)} {value.removeprefix('True')}".rstrip() if name else result.policy


def _row(r: PlanResult) -> tuple[str, ...]:
    sizes = human_limit(r.least_limit), human_bytes(r.peak_bytes_in_use), human_bytes(r.peak_bytes_reserved)
    return f"GPU:{r.gpu}", _named(r), _YES[r.fits], *sizes, f"{100 * r.fragmentation:.1f}%"


def _table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    return columns([_HEAD, *sorted(rows, key=lambda row: int(row[0][4:]))], left=3)


def find(
    trace: Trace | Recording | str | os.PathLike[str],
    limit: int | str | None = None,
    gpu: str | None = None,
    policy: str | Iterable[str] | None = None,
    progress: Callable[[float], None] | None = None,
    **more: Any,
) -> Plan:
    """Do what gpuconf.plan does with a trace, with progress: how much is done, from 0 to 1.

    ``more`` of the request, as pybind/plan.go has it: ``workspaces`` and their ``use``, and ``cards``.
    """
    open_plan = core.pybind_OpenPlan  # loads the core, which must precede all imports
    import json

    from ..._core.message import log

    trace = trace if isinstance(trace, Trace) else trace.trace if isinstance(trace, Recording) else load_trace(trace)
    request = {
        "limit": sizes.limit_bytes(limit) if limit is not None else _had(_failed(trace)) if gpu is None else 0,
        "gpu": texts.check_text("gpu", gpu) if gpu is not None else "",
        "policies": check_policies(policy),
        "settings": trace._settings,
        "wanted": bool(trace._failed),
        "starts": {r["gpu"]: r["start"] for r in trace._recorded if r["start"]},
        "env": json.loads(runtime.environment()),
        **more,
    }
    if gpu is not None and not gpu.strip():
        raise errors.InvalidArgumentError("gpu must not be empty: pass a model such as 'A10'")
    with Job(open_plan, json.dumps(request)) as job:
        job.feed(HEADER, *trace._pages)
        fields = job.finish(progress)
    for level, text in fields["notices"]:
        log(level, text)
    if policy is None and trace._of_pytorch:
        others = _of_others(trace)
        fields["results"] = [one for one in fields["results"] or () if one["policy"] not in others]
    limited = [one for one in fields["results"] or () if one["fits"] is False]
    if limited and trace._of_pytorch and not trace._settings.get("card") and _has_pools(trace):
        with Job(open_plan, json.dumps(request | {"pools_left": True})) as job:
            job.feed(HEADER, *trace._pages)
            less = {(one["gpu"], one["policy"]): one["fits"] for one in job.finish(progress)["results"] or ()}
        fields["without_pools"] = [one["policy"] for one in limited if less.get((one["gpu"], one["policy"]))]
    fields["default_limit"] = limit is None and gpu is not None
    fields["limit_of_failure"] = limit is None and gpu is None
    return make(Plan, trace, fields)


def _of_others(trace: Trace) -> tuple[str, ...]:
    """Return the policies that are not for PyTorch's recordings: TensorFlow's, and, if graphs or the program have pools
    of their own, all that know no such pools.
    """
    return ("tensorflow", *OF_GPUCONF) if _has_pools(trace) else ("tensorflow",)


def _has_pools(trace: Trace) -> bool:
    """Whether graphs or the program have pools of their own."""
    return any(page.count("\n") != page.count(",\n") for page in trace._pages)  # the last column


def check_policies(policy: Any) -> list[str]:
    """Return the policies of an argument.

    Raises ValueError for one that does not exist, and TypeError for other types.
    """
    if isinstance(policy, str):
        return [_policy(policy)]
    if policy is None:
        return []
    try:
        policies = list(map(_policy, policy))
    except TypeError:
        text = "policy must be one of the policies, or a list of them"
        raise errors.InvalidTypeError(f"{text}, but got {texts.given(policy)}") from None
    if not policies:
        raise errors.InvalidArgumentError("policy must name at least one policy")
    return policies


def _policy(policy: object) -> str:
    if not isinstance(policy, str) or policy not in POLICIES:
        raise errors.InvalidArgumentError(
            f"policy must be one of {', '.join(map(repr, POLICIES))}, but got {texts.shown(policy)}"
        )
    return policy


# Check the model of PyTorch's allocator against a snapshot that PyTorch wrote.


class Verification(Table):
    """How far a replay of a snapshot agrees with what PyTorch recorded."""

    allocations: int  # in the snapshot's events
    same_address: int  # allocations that got the recorded address
    undetermined: int  # allocations that depend on something that the snapshot does not contain
    segments: int  # segments taken and released, and ranges mapped and unmapped
    same_segments: int  # of these, those that the replay took and released at the same time
    difference: str  # the first difference, or ""


def verify(path: str | os.PathLike[str]) -> Verification:
    """Replay a snapshot of ``torch.cuda.memory._dump_snapshot()`` on the model of PyTorch's allocator, and compare.

    Raises ValueError for a file that is not such a snapshot, and OSError as ``open`` does.
    """
    name = os.fspath(path)
    refuse_in_child()
    with open(name, "rb", buffering=0) as file:
        try:
            with Job(core.pybind_OpenVerify, file.fileno()) as job:
                result = job.finish()
        except errors.InvalidArgumentError as error:
            what = "only a snapshot of torch.cuda.memory._dump_snapshot() has addresses to compare"
            raise errors.InvalidArgumentError(f"cannot verify {name!r}: {error}; {what}") from None
    return Verification(**result["verdict"], difference=result["difference"])
