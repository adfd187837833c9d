# SPDX-License-Identifier: Apache-2.0
"""A PyTorch snapshot that ends with a failed allocation: what was requested, who held the memory, and where the free
memory was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..._core.stacks import Frame, call_site
from ..._core.table import BLOCKS, Glyphs, Table, counted, human_bytes
from ..._typing import Any
from . import sites
from .sites import PlanSite

_MIB = 1 << 20
_SITES, _SEGMENTS, _WIDTH = 5, 12, 32  # lines, and cells of a bar: 80 columns hold it


class SegmentBlock(Table):
    """A block of a segment, or free memory."""

    address: int
    nbytes: int
    requested: int  # the requested size; 0 for free memory
    waiting: bool  # freed, but another stream may still use it
    library: str
    tag: str
    stack: tuple[Frame, ...]  # as in TraceEvent; () if unknown
    before: bool  # allocated before the recording began, and nothing else is known


class Segment(Table):
    """Memory that PyTorch's allocator had taken from the GPU, with its blocks in the order of addresses."""

    address: int
    nbytes: int
    stream: int  # only for requests on this stream
    small: bool  # only for requests up to 1 MiB
    expandable: bool
    blocks: tuple[SegmentBlock, ...]
    private: bool  # of a private pool, as CUDA graphs have

    @property
    def free(self) -> int:
        """The bytes of free memory."""
        return sum(b.nbytes for b in self.blocks if not b.requested)


class OutOfMemory(Table):
    """The state of a GPU when the allocation failed that ends a snapshot. Sizes are in bytes."""

    gpu: int
    event: int  # the event's number in the trace, from 1
    requested: int
    call_site: Frame | None  # the line of the program that requested it; None if the snapshot has no stacks
    # What PyTorch could have: what it had reserved and, unless own_limit, what the GPU had left; whole MiB.
    bytes_limit: int
    most_limit: int  # the most that it could have had; more than bytes_limit only if own_limit
    bytes_in_use: int
    bytes_reserved: int
    device_free: int  # what the GPU had left
    own_limit: bool  # the GPU had enough left: PyTorch's own limit was reached, which the snapshot does not contain
    free_blocks: tuple[int, ...]  # the sizes of the free blocks, the largest first
    sites: tuple[PlanSite, ...]  # who held the memory, by line of code; the largest first
    segments: tuple[Segment, ...]  # in the order of addresses
    unknown: str  # why the snapshot does not determine the state, or ""

    def lines(self, glyphs: Glyphs = BLOCKS, width: int = _WIDTH) -> Iterator[str]:
        """Yield a description of at most 80 columns, if call sites are short; without the map if its bars have no
        width.
        """
        yield f"GPU:{self.gpu} ran out of memory at event {self.event}, which requests {human_bytes(self.requested)}"
        if self.call_site:
            start = "  requested at " if self.call_site[0] else "  requested in "
            yield start + sites.cut(self.call_site, 80 - len(start))
        if self.unknown:
            yield f"  its state is not determined: {self.unknown}"
            return
        free = sum(self.free_blocks)
        in_use, reserved, left = map(human_bytes, (self.bytes_in_use, self.bytes_reserved, self.device_free))
        yield f"  {in_use} in use, {reserved} reserved, {left} left on the GPU"
        if self.own_limit:
            yield "  the GPU had enough left: PyTorch reached its own limit, which snapshots do not record"
        pieces = counted(len(self.free_blocks), "piece")
        yield f"  {human_bytes(free)} free in {pieces}, the largest {human_bytes(max(self.free_blocks, default=0))}"
        yield from _pools(self.segments)
        held = list(sites.lines(self.sites, _SITES))
        if held:
            yield "held by:"
            yield from held
        if width:
            yield from _map(self.segments, glyphs, width)


def read(
    fields: dict[str, Any], holders: list[tuple[str, str]], stacks: list[tuple[Frame, ...]], most_reserved: int
) -> OutOfMemory:
    """Return what Go has (gocore/plan/rewind/outofmemory.go). PyTorch once reserved ``most_reserved``, so it could."""
    segments = tuple(_segment(s, holders, stacks) for s in fields["segments"] or ())
    blocks = [b for s in segments for b in s.blocks]
    reserved, device_free = sum(s.nbytes for s in segments), fields["device_free"]
    own_limit = device_free >= fields["segment"]
    limit = (max(reserved, most_reserved) if own_limit else reserved + device_free) // _MIB * _MIB
    in_use = [b for b in blocks if b.requested]
    return OutOfMemory(
        **{name: fields[name] for name in ("gpu", "event", "requested", "device_free", "unknown")},
        call_site=call_site(stacks[fields["stack"]]),
        bytes_limit=limit,
        most_limit=max(limit, (reserved + fields["segment"] - 1) // _MIB * _MIB) if own_limit else limit,
        bytes_in_use=sum(b.nbytes for b in in_use),
        bytes_reserved=reserved,
        own_limit=own_limit,
        free_blocks=tuple(sorted((b.nbytes for b in blocks if not b.requested), reverse=True)),
        sites=sites.fold_blocks(in_use),
        segments=segments,
    )


def _segment(fields: dict[str, Any], holders: list[tuple[str, str]], stacks: list[tuple[Frame, ...]]) -> Segment:
    blocks = []
    for b in fields["blocks"] or ():
        library, tag = holders[b["holder"]]
        own = {name: b[name] for name in ("address", "nbytes", "requested", "waiting", "before")}
        blocks.append(SegmentBlock(library=library, tag=tag, stack=stacks[b["stack"]], **own))
    own = {name: fields[name] for name in ("address", "nbytes", "stream", "small", "expandable")}
    return Segment(blocks=tuple(blocks), private=fields["pool"] != [0, 0], **own)


def _pools(segments: Iterable[Segment]) -> Iterator[str]:
    """Yield what each of PyTorch's pools has, if there are several: free memory of one does not serve requests of
    another.
    """
    pools: dict[str, list[Segment]] = {}
    for s in segments:
        pools.setdefault("private" if s.private else "small" if s.small else "large", []).append(s)
    for name, own in sorted(pools.items() if len(pools) > 1 else ()):
        reserved, free = sum(s.nbytes for s in own), sum(s.free for s in own)
        yield f"  {name} pool: {human_bytes(reserved)} reserved, {human_bytes(free)} free"


def _map(segments: Iterable[Segment], glyphs: Glyphs, width: int) -> Iterator[str]:
    """Yield the segments with the most free memory as bars, by address, and what the others add up to."""
    ordered = sorted(segments, key=lambda s: (-s.free, -s.nbytes, s.address))
    yield f"segments ({glyphs.full} in use, {glyphs.part} partly, {glyphs.free} free):"
    for s in sorted(ordered[:_SEGMENTS], key=lambda s: int(s.address)):
        bar = f"{glyphs.left}{_bar(s, glyphs, width)}{glyphs.right}"
        yield f"  {s.address:#014x} {bar} {human_bytes(s.nbytes)}, {human_bytes(s.free)} free"
    rest = ordered[_SEGMENTS:]
    if rest:
        reserved, free = sum(s.nbytes for s in rest), sum(s.free for s in rest)
        yield f"  and {len(rest)} more with {human_bytes(reserved)}, {human_bytes(free)} free"


def _bar(segment: Segment, glyphs: Glyphs, width: int) -> str:
    """Return a cell for each equal part of a segment."""
    used = [0.0] * width
    per = segment.nbytes / width
    at = 0.0
    for block in segment.blocks:
        end = at + block.nbytes
        if block.requested:
            for cell in range(int(at / per), min(width, -int(-end // per))):
                used[cell] += min(end, (cell + 1) * per) - max(at, cell * per)
        at = end
    return "".join(glyphs.full if u > 0.999 * per else glyphs.part if u > 0 else glyphs.free for u in used)
