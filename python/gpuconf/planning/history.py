"""What a trace says about memory over time: the sums by library and tag, and the blocks at the peak."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import namedtuple
from collections.abc import Callable, Iterator

from .._typing import Any
from ..memory._trace import Trace

# Called from time to time with the fraction of the work that is done.
Progress = Callable[[float], None]

# The most intervals of the time axis. Each has two points, the moments of its least and of its greatest memory in use, with what
# every holder has at that moment. So all extremes are exact, however long the trace is.
INTERVALS = 1000

_STEP = 50_000  # events between two reports of progress
_ACTIONS = {
    "allocate": 1,
    "free": 2,
    "allocate failure": 3,
    "segment_alloc": 4,
    "segment_map": 4,
    "segment_free": 5,
    "segment_unmap": 5,
}
_ALLOCATE, _FREE, _FAILURE, _MAP, _UNMAP = 1, 2, 3, 4, 5

# A live block: bytes rounded up to a multiple of 256, as the pool counts them, and the event that allocated it.
Block = namedtuple("Block", ["address", "nbytes", "event"])
# A moment: seconds since the trace began, the event, and the bytes of each holder.
Moment = namedtuple("Moment", ["time", "event", "in_use"])
Site = namedtuple("Site", ["stack", "count", "total", "peak_bytes", "peak_blocks"])


class History:
    """The events of one logical GPU, in columns, with what they add up to.

    ``holders`` are the (library, tag) pairs, by number; ``moments`` the points of the time axis; ``peak`` the Moment with the most
    memory in use; ``blocks`` the live blocks at the peak, by address, and ``segments`` the (address, bytes) of the pool's memory
    then, or [] if the trace has no segments.
    """

    def __init__(self, gpu: int) -> None:
        self.gpu = gpu
        self.times = array("d")
        self.actions = array("b")
        self.addresses = array("Q")
        self.sizes = array("Q")
        self.holder_of = array("l")
        self.stack_of = array("l")
        self.holders: list[tuple[str, str]] = []
        self.stacks: list[tuple[Any, ...]] = []
        self.moments: list[Moment] = []
        self.peak = Moment(0.0, 0, [])
        self.blocks: list[Block] = []
        self.segments: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def failures(self) -> list[int]:
        """The events that are failed allocations."""
        return [event for event, action in enumerate(self.actions) if action == _FAILURE]

    def holder(self, event: int) -> tuple[str, str]:
        """Return the library and the tag of an event."""
        return self.holders[self.holder_of[event]]

    def stack(self, event: int) -> tuple[Any, ...]:
        """Return the call site of an event, innermost frame first."""
        return self.stacks[self.stack_of[event]]

    def changes(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield the events that change the memory in use: event, address, bytes (negative for a free), and the holder.

        As in a plan, a block whose free is missing ends when its address is allocated again, and a free of an unknown block is
        ignored.
        """
        live: dict[int, tuple[int, int]] = {}
        for event, action in enumerate(self.actions):
            if action > _FREE:
                continue
            address = self.addresses[event]
            before = live.pop(address, None)
            if before is not None:
                yield event, address, -before[0], before[1]
            if action == _ALLOCATE and self.sizes[event]:
                size, holder = (self.sizes[event] + 255) // 256 * 256, self.holder_of[event]
                live[address] = size, holder
                yield event, address, size, holder

    def sum_up(self) -> None:
        """Find the moments, the peak, and the blocks at the peak."""
        began = self.times[0] if self.times else 0.0
        wanted = self._extremes()
        self.peak = Moment(0.0, 0, [0] * len(self.holders))
        in_use, total, at = [0] * len(self.holders), 0, 0
        most = -1
        for event, _, change, holder in self._and_end():
            while at < len(wanted) and wanted[at] < event:
                self.moments.append(Moment(self.times[wanted[at]] - began, wanted[at], in_use.copy()))
                if total > most:
                    most, self.peak = total, self.moments[-1]
                at += 1
            in_use[holder] += change
            total += change
        self._blocks_at_peak()
        self._segments_at_peak()

    def _and_end(self) -> Iterator[tuple[int, int, int, int]]:
        yield from self.changes()
        if self.holders:
            yield len(self), 0, 0, 0

    def _extremes(self) -> list[int]:
        """Return the events after which an interval has its least and its greatest memory in use, in order."""
        length = max(1, -(-len(self) // INTERVALS))
        found: set[int] = set()
        total, interval = 0, -1
        least = most = (0, 0)
        last = -1
        for event, _, change, _ in self.changes():
            # A free and an allocation can be one event, of a reused address. The state between them is no moment.
            if event != last and last >= 0:
                if total < least[0]:
                    least = total, last
                if total > most[0]:
                    most = total, last
            if event // length != interval:
                if interval >= 0:
                    found.update((least[1], most[1], last))
                interval = event // length
                least, most = (1 << 63, event), (-1, event)
            total += change
            last = event
        if last >= 0:
            found.update((least[1] if total >= least[0] else last, most[1] if total <= most[0] else last, last))
        return sorted(found)

    def _blocks_at_peak(self) -> None:
        live: dict[int, Block] = {}
        for event, address, change, _ in self.changes():
            if event > self.peak.event:
                break
            if change < 0:
                del live[address]
            else:
                live[address] = Block(address, change, event)
        self.blocks = sorted(live.values())

    def _segments_at_peak(self) -> None:
        mapped: dict[int, int] = {}  # address: end. Adjacent maps are merged at the end
        for event in range(min(self.peak.event + 1, len(self))):
            action = self.actions[event]
            if action == _MAP:
                mapped[self.addresses[event]] = self.addresses[event] + self.sizes[event]
            elif action == _UNMAP:
                _unmap(mapped, self.addresses[event], self.addresses[event] + self.sizes[event])
        merged: list[tuple[int, int]] = []
        for start, end in sorted(mapped.items()):
            if merged and merged[-1][1] >= start:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        self.segments = [(start, end - start) for start, end in merged]

    def sites(self) -> list[Site]:
        """Return the call sites, the largest at the peak first, then those that have allocated the most."""
        count, total = [0] * len(self.stacks), [0] * len(self.stacks)
        for event, action in enumerate(self.actions):
            if action == _ALLOCATE:
                count[self.stack_of[event]] += 1
                total[self.stack_of[event]] += self.sizes[event]
        peak, blocks = [0] * len(self.stacks), [0] * len(self.stacks)
        for block in self.blocks:
            peak[self.stack_of[block.event]] += block.nbytes
            blocks[self.stack_of[block.event]] += 1
        found = map(Site, self.stacks, count, total, peak, blocks)
        return sorted((site for site in found if site.stack and site.count), key=lambda s: (-s.peak_bytes, -s.total))

    def spans(self) -> list[tuple[int, int]]:
        """Return the (address, bytes) of memory that the pool had at the peak, as far as it is known.

        Without segments, these are the parts of the address space between blocks that are close together.
        """
        if self.segments:
            return self.segments
        found: list[list[int]] = []
        for block in self.blocks:
            if found and block.address - found[-1][1] <= _FAR:
                found[-1][1] = block.address + block.nbytes
            else:
                found.append([block.address, block.address + block.nbytes])
        return [(start, end - start) for start, end in found]

    def free(self) -> list[tuple[int, int]]:
        """Return the (address, bytes) of free memory between the blocks at the peak."""
        found: list[tuple[int, int]] = []
        starts = [block.address for block in self.blocks]
        for start, nbytes in self.spans():
            at, end = start, start + nbytes
            for block in self.blocks[bisect_right(starts, start - 1) :]:
                if block.address >= end:
                    break
                if block.address > at:
                    found.append((at, block.address - at))
                at = block.address + block.nbytes
            if at < end:
                found.append((at, end - at))
        return found


_FAR = 256 << 20  # blocks without a segment that are further apart belong to different spans


def _unmap(mapped: dict[int, int], start: int, end: int) -> None:
    """Remove a range, which may be a part of what was mapped at once."""
    for low, high in [(low, high) for low, high in mapped.items() if low < end and high > start]:
        del mapped[low]
        if low < start:
            mapped[low] = start
        if high > end:
            mapped[end] = high


def histories(trace: Trace, progress: Progress) -> list[History]:
    """Return the history of each logical GPU of a trace, by number."""
    found: dict[int, History] = {}
    numbers: dict[int, dict[Any, int]] = {}
    stacks: dict[int, dict[Any, int]] = {}
    for done, event in enumerate(trace.events):
        gpu = event.gpu
        history = found.get(gpu)
        if history is None:
            history = found[gpu] = History(gpu)
            numbers[gpu], stacks[gpu] = {}, {}
        holder, stack = (event.library, event.tag), event.stack
        number = numbers[gpu].get(holder)
        if number is None:
            number = numbers[gpu][holder] = len(history.holders)
            history.holders.append(holder)
        site = stacks[gpu].get(id(stack))  # the trace keeps each stack once; hashing them takes long
        if site is None:
            site = stacks[gpu][id(stack)] = len(history.stacks)
            history.stacks.append(stack)
        history.times.append(event.time)
        history.actions.append(_ACTIONS[event.action])
        history.addresses.append(event.address)
        history.sizes.append(event.nbytes)
        history.holder_of.append(number)
        history.stack_of.append(site)
        if not done % _STEP:
            progress(0.6 * done / len(trace))
    for done, history in enumerate(found.values()):
        history.sum_up()
        progress(0.6 + 0.4 * (done + 1) / len(found))
    return [found[gpu] for gpu in sorted(found)]
