# SPDX-License-Identifier: Apache-2.0
"""What memory is made of, from PyTorch's record of its allocations and what was seen of the program meanwhile."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from ..._typing import Any, NamedTuple

_TRIED_GRAIN = 512
_MARK, _LEAST = 435, 1 << 20


_OF_BLOCKS = ("alloc", "free_requested", "free_completed")


def of_blocks(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of blocks. PyTorch records other actions, too, such as "oom", and not all have an address."""
    return [event for event in events if event["action"] in _OF_BLOCKS]


def is_tried(blocks: Sequence[dict[str, Any]], number: int) -> bool:
    """Whether an allocation is such a workspace. ``blocks`` are one device's events of blocks, in order."""
    event = blocks[number]
    if event["action"] != "alloc" or event["size"] < _LEAST or event["size"] % _TRIED_GRAIN != _MARK:
        return False
    return is_freed_next(blocks, number)


def is_freed_next(blocks: Sequence[dict[str, Any]], number: int) -> bool:
    """Whether a block is freed before anything else happens to a block."""
    after = blocks[number + 1] if number + 1 < len(blocks) else {}
    return after.get("action") == "free_requested" and after["addr"] == blocks[number]["addr"]


def without_tried(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of one device but for those of such workspaces."""
    blocks = of_blocks(events)
    tried, left = set(), 0
    for number, event in enumerate(blocks):
        if is_tried(blocks, number):
            left = event["addr"]
        elif event["addr"] == left and event["action"] != "alloc":
            left = left if event["action"] == "free_requested" else 0
        else:
            continue
        tried.add(id(event))
    return [event for event in events if id(event) not in tried]


PARAMETERS, GRADIENTS, STATE = "parameters and buffers", "gradients", "optimizer state"
ACTIVATIONS, TEMPORARY, WORKSPACES, OTHER = "activations", "temporary", "workspaces", "other tensors"
PARTS = (PARAMETERS, GRADIENTS, STATE, ACTIVATIONS, TEMPORARY, WORKSPACES, OTHER)


class Seen(NamedTuple):
    """At a time, in microseconds: these addresses were of this part, each of a module."""

    time: int
    part: str
    addresses: Mapping[int, str]


# Of cuBLAS, as PyTorch allocates them: the default, that of compute capability 9 and that of 10 and newer. Newer
# versions of PyTorch free one right after the call that used it, older ones keep one for each handle and stream.
_OF_CUBLAS = (8519680, 32 << 20, 12 << 20)
_GRAIN = 512  # PyTorch's allocator rounds up to this


class _Block:
    __slots__ = ("begin", "end", "freed", "is_workspace", "module", "part", "size")

    def __init__(self, begin: int, size: int) -> None:
        self.begin = begin
        self.end: int | None = None
        self.freed: int | None = None  # the number of the event
        self.size = size
        self.part = self.module = ""
        self.is_workspace = False  # by its size


def parts(
    events: Sequence[dict[str, Any]], seen: Iterable[Seen], backward: Sequence[int], steps: Sequence[int]
) -> dict[str, int]:
    """Return the bytes of each part at the peak, and write into the event of each allocation what it is part of, and of
    which module, if that is known.

    gpuconf's snapshots have tags, too: so a report shows the parts over time.

    ``events`` are those of one device in a snapshot of PyTorch; ``backward`` and ``steps`` are the times at which a
    backward pass began and a step ended. Memory that none of ``seen`` names is an activation if a backward pass began
    while it lived, as long as it did not outlive the next step; what lives longer is another tensor that the program
    holds, and the rest is
    temporary.
    """
    events = of_blocks(events)
    blocks = _blocks(events, seen, backward, steps)
    at = _peak(events)
    sizes = dict.fromkeys(PARTS, 0)
    for number, block in blocks.items():
        events[number]["tag"] = block.part
        if block.module:
            events[number]["module"] = block.module
        if number <= at and (block.freed is None or block.freed > at):
            sizes[block.part] += block.size
    return {part: size for part, size in sizes.items() if size}


def modules(events: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the bytes of each part of each module at the peak, from events that have both."""
    events = of_blocks(events)
    live: dict[int, dict[str, Any]] = {}
    for event in events[: _peak(events) + 1]:
        if event["action"] == "alloc":
            live[event["addr"]] = event
        elif event["action"] == "free_requested":
            live.pop(event["addr"], None)
    found: dict[str, dict[str, int]] = {}
    for event in live.values():
        of = found.setdefault(event["module"], {})
        of[event["tag"]] = of.get(event["tag"], 0) + _rounded(event["size"])
    return found


def _peak(events: Sequence[dict[str, Any]]) -> int:
    """Return the number of the allocation with which most is allocated."""
    most, total, at = 0, 0, -1
    for number, event in enumerate(events):
        if event["action"] == "alloc":
            total += _rounded(event["size"])
            if total > most:
                most, at = total, number
        elif event["action"] == "free_requested":
            total -= _rounded(event["size"])
    return at


def _blocks(
    events: Sequence[dict[str, Any]], seen: Iterable[Seen], backward: Sequence[int], steps: Sequence[int]
) -> dict[int, _Block]:
    """Return the block of each allocation, by the number of its event."""
    live: dict[int, _Block] = {}
    blocks: dict[int, _Block] = {}
    waiting = iter(sorted(seen, key=lambda one: one.time))
    coming = next(waiting, None)
    for number, event in enumerate(events):
        while coming is not None and coming.time <= event["time_us"]:
            _name(live, coming)
            coming = next(waiting, None)
        if event["action"] == "alloc":
            blocks[number] = live[event["addr"]] = block = _Block(event["time_us"], _rounded(event["size"]))
            tried = is_tried(events, number)
            block.is_workspace = event["size"] in _OF_CUBLAS or tried
            if block.is_workspace and is_freed_next(events, number):
                block.part = WORKSPACES
            elif _of_reducer(event):
                block.part = GRADIENTS
        elif event["action"] == "free_requested":
            freed = live.pop(event["addr"], None)
            if freed is not None:
                freed.end, freed.freed = event["time_us"], number
    while coming is not None:
        _name(live, coming)
        coming = next(waiting, None)
    for block in live.values():
        if block.is_workspace:
            block.part = block.part or WORKSPACES
    backward, steps = sorted(backward), sorted(steps)
    for block in blocks.values():
        block.part = block.part or _unnamed(block, backward, steps)
    return blocks


def _of_reducer(event: dict[str, Any]) -> bool:
    """Whether a block is a bucket of gradients of DistributedDataParallel."""
    python = next((frame for frame in event.get("frames") or () if frame["filename"].endswith(".py")), None)
    return (
        python is not None
        and python["filename"].endswith("/torch/nn/parallel/distributed.py")
        and python["name"] in ("_ddp_init_helper", "_pre_forward")
    )


def _rounded(size: int) -> int:
    return -(-size // _GRAIN) * _GRAIN


def _name(live: dict[int, _Block], seen: Seen) -> None:
    for address, module in seen.addresses.items():
        block = live.get(address)
        if block is not None:
            block.part = block.part or seen.part
            block.module = block.module or module


def _unnamed(block: _Block, backward: Sequence[int], steps: Sequence[int]) -> str:
    end = block.end
    outlived = _count(steps, block.begin, end)
    if outlived > 1 or (end is None and not outlived and not _count(backward, block.begin, None)):
        return OTHER
    if _count(backward, block.begin, end):
        return ACTIVATIONS
    return OTHER if end is None else TEMPORARY


def _count(times: Sequence[int], begin: int, end: int | None) -> int:
    """Return how many of the times, which are in order, lie between two."""
    return (len(times) if end is None else bisect_right(times, end)) - bisect_left(times, begin)
