# SPDX-License-Identifier: Apache-2.0
"""What a trace says about memory over time: the sums by library and tag, and the blocks at the peak."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from ..._core.handle import Job
from ..._core.native import core
from ..._core.stacks import call_site
from ..._typing import Any, NamedTuple
from ...memory._trace import HEADER, Trace

# The most intervals of the time axis. Each has the moments of its least and of its greatest memory in use: all extremes
# are exact.
INTERVALS = 1000


class Allocation(NamedTuple):
    """An allocation."""

    event: int  # its number among the GPU's events, from 0; -1 if it was live before
    time: float  # seconds since the trace began
    address: int
    requested: int  # bytes
    holder: int  # its number in History.holders
    stack: tuple[Any, ...]  # as in TraceEvent


class Block(NamedTuple):
    """A live block."""

    address: int
    nbytes: int  # as in PlanUsage
    allocation: Allocation


class Moment(NamedTuple):
    """A point of the time axis."""

    time: float  # seconds since the trace began
    event: int
    in_use: list[int]  # the bytes of each holder


class Site(NamedTuple):
    """The allocations of one line of code."""

    stack: tuple[Any, ...]  # as in TraceEvent
    count: int  # type: ignore[assignment]  # of its allocations
    total: int  # their bytes
    peak_bytes: int  # live at the peak
    peak_blocks: int


class History:
    """The memory of one logical GPU over time, as ``gocore/plan/timeline`` sums it up.

    ``holders`` are the (library, tag) pairs, by number; ``moments`` the points of the time axis; ``peak`` the Moment
    with the most memory in use; ``blocks`` the live blocks at the peak, by address, and ``segments`` the (address,
    bytes) of the pool's memory then, or [] if the trace has no segments; ``failures`` some of the ``failed``
    allocations that failed.
    """

    def __init__(self, fields: dict[str, Any], holders: list[tuple[str, str]], stacks: list[tuple[Any, ...]]) -> None:
        self.gpu: int = fields["gpu"]
        self.holders: list[tuple[str, str]] = [holders[number] for number in fields["holders"]]
        self.moments: list[Moment] = [_moment(each) for each in fields["moments"]]
        self.peak: Moment = _moment(fields["peak"])
        self.failed: int = fields["num_failures"]
        self.failures: list[Allocation] = [_allocation(each, stacks) for each in fields["failures"]]
        self.segments: list[tuple[int, int]] = [(start, nbytes) for start, nbytes in fields["segments"]]
        self.blocks: list[Block] = []
        at_peak: dict[int, tuple[int, int]] = {}  # stack: bytes, blocks
        for each in fields["blocks"]:
            size = each["size"]
            self.blocks.append(Block(each["address"], size, _allocation(each, stacks)))
            nbytes, count = at_peak.get(each["stack"], (0, 0))
            at_peak[each["stack"]] = nbytes + size, count + 1
        self.sites: list[Site] = _by_line(
            (stacks[s["stack"]], s["num_allocs"], s["allocated_bytes"], *at_peak.get(s["stack"], (0, 0)))
            for s in fields["sites"]
        )

    def spans(self) -> list[tuple[int, int]]:
        """Return the (address, bytes) of memory that the pool had at the peak, as far as it is known.

        Without segments, these are the parts of the address space between blocks that are close together.
        """
        if self.segments:
            return self.segments
        ranges: list[list[int]] = []
        for block in self.blocks:
            if ranges and block.address - ranges[-1][1] <= _FAR:
                ranges[-1][1] = block.address + block.nbytes
            else:
                ranges.append([block.address, block.address + block.nbytes])
        return [(start, end - start) for start, end in ranges]

    def free(self) -> list[tuple[int, int]]:
        """Return the (address, bytes) of free memory between the blocks at the peak."""
        gaps: list[tuple[int, int]] = []
        starts = [block.address for block in self.blocks]
        for start, nbytes in self.spans():
            at, end = start, start + nbytes
            for number in range(bisect_right(starts, start - 1), len(starts)):
                block = self.blocks[number]
                if block.address >= end:
                    break
                if block.address > at:
                    gaps.append((at, block.address - at))
                at = block.address + block.nbytes
            if at < end:
                gaps.append((at, end - at))
        return gaps


def _by_line(parts: Iterable[tuple[Any, int, int, int, int]]) -> list[Site]:
    """Add up the stacks that lead to the same line, and those that are not known; without any known stack there are
    none.

    The largest at the peak come first, then those that have allocated the most.
    """
    sums: dict[Any, Site] = {}
    for stack, *amounts in parts:
        line = call_site(stack)
        old = sums.get(line)
        sums[line] = (
            Site(stack, *amounts) if old is None else Site(old.stack, *map(sum, zip(old[1:], amounts, strict=True)))
        )
    if not any(sums):
        return []
    return sorted(sums.values(), key=lambda site: (-site.peak_bytes, -site.total))


_FAR = 256 << 20  # blocks without a segment that are further apart belong to different spans


def _moment(fields: dict[str, Any]) -> Moment:
    return Moment(fields["micros"] / 1e6, fields["event"], fields["in_use"])


def _allocation(fields: dict[str, Any], stacks: list[tuple[Any, ...]]) -> Allocation:
    time, stack = fields["micros"] / 1e6, stacks[fields["stack"]]
    return Allocation(fields["event"], time, fields["address"], fields["nbytes"], fields["holder"], stack)


def by_event(trace: Trace) -> list[str]:
    """Return the lines of a trace's CSV with the number of each in place of its time: a microsecond for each."""
    lines = []
    for number, line in enumerate(line for page in trace._pages for line in page.splitlines()):
        thread, _, rest = line.split(",", 2)
        lines.append(f"{thread},{number / 1e6:.6f},{rest}\n")
    return lines


def histories(trace: Trace, lines: list[str] | None = None) -> list[History]:
    """Return the history of each logical GPU of a trace, by number; of some ``lines`` of its CSV, or of all."""
    holders, stacks = trace._holders(), trace._stacks()
    with Job(core.pybind_OpenTimeline, INTERVALS) as job:
        job.feed(HEADER, *(trace._pages if lines is None else lines))
        return [History(fields, holders, stacks) for fields in job.finish()["gpus"]]
