# SPDX-License-Identifier: Apache-2.0
"""Memory on the cards, as a trace in RMM's format, and which arrays hold it."""

from __future__ import annotations

import sys
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import count

from ...._core.stacks import Frame
from ...._typing import Any
from ....memory._trace import escaped

STATE, ARRAYS, FROM_HOST, TEMPORARY, TUNING = (
    "arrays that calls update",
    "other arrays",
    "arrays from the host",
    "temporaries of compiled functions",
    "kernels that XLA tries while it compiles",
)
TUNED = ".tuned.csv"  # the trace with what XLA takes to try kernels
_GRAIN = 256  # of XLA's allocator
_APART = 1 << 38  # addresses of blocks: nothing reads them, but they do not overlap


class Block:
    """An allocation on one card."""

    __slots__ = ("address", "freed", "gpu", "nbytes", "stack", "tag")

    def __init__(self, gpu: int, nbytes: int, tag: str, stack: tuple[Frame, ...], address: int) -> None:
        self.gpu: int = gpu
        self.nbytes: int = nbytes
        self.tag: str = tag
        self.stack: tuple[Frame, ...] = stack
        self.address: int = address
        self.freed: bool = False


class _Held:
    __slots__ = ("blocks", "reference", "written")

    def __init__(self, reference: Any, blocks: list[Block], written: bool) -> None:
        self.reference, self.blocks, self.written = reference, blocks, written


class Ledger:
    """The memory of one process. Appending to a list is all that several threads do to it at once."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._events: list[tuple[float, bool, Block]] = []  # the time, whether it is an allocation
        self._addresses = count(_APART, _APART)
        self._held: dict[int, _Held] = {}  # by the id of the array
        self.live: Counter[int] = Counter()  # bytes by GPU
        self.most: Counter[int] = Counter()  # that were live at a time
        self.largest: Counter[int] = Counter()  # allocation
        self._allocations: Counter[int] = Counter()

    def allocate(self, gpu: int, nbytes: int, tag: str, stack: tuple[Frame, ...]) -> Block:
        """Take memory on a card."""
        block = Block(gpu, nbytes, tag, stack, next(self._addresses))
        self._events.append((time.monotonic() - self._begin, True, block))
        self.live[gpu] += _rounded(nbytes)
        self.most[gpu] = max(self.most[gpu], self.live[gpu])
        if tag != TUNING:
            self.largest[gpu] = max(self.largest[gpu], nbytes)
        self._allocations[gpu] += 1
        return block

    def free(self, blocks: Iterable[Block]) -> None:
        """Return memory, once."""
        for block in blocks:
            if not block.freed:
                block.freed = True
                self._events.append((time.monotonic() - self._begin, False, block))
                self.live[block.gpu] -= _rounded(block.nbytes)

    def hold(self, array: Any, blocks: list[Block], *, written: bool) -> None:
        """Let an array hold blocks until its last reference is gone."""
        key = id(array)
        ending = sys.is_finalizing  # modules are empty by then

        def gone(reference: Any) -> None:
            held = None if ending() else self._held.get(key)
            if held is not None and held.reference is reference:
                del self._held[key]
                self.free(held.blocks)

        self._held[key] = _Held(weakref.ref(array, gone), blocks, written)

    def held(self, array: Any) -> list[Block] | None:
        """Return the blocks of an array; None if it is not known."""
        found = self._held.get(id(array))
        return None if found is None else found.blocks

    def is_written(self, array: Any) -> bool:
        """Whether an array has the values that it should have."""
        found = self._held.get(id(array))
        return found is None or found.written

    def release(self, array: Any) -> list[Block]:
        """Take the blocks from an array that a call took over, and return them."""
        found = self._held.get(id(array))
        if found is None:
            return []
        blocks, found.blocks = found.blocks, []
        return blocks

    def statistics(self, gpu: int) -> dict[str, int]:
        """Return what JAX's ``Device.memory_stats()`` says of a card, but for its limit. Sizes are in bytes."""
        return {
            "num_allocs": self._allocations[gpu],
            "bytes_in_use": self.live[gpu],
            "peak_bytes_in_use": self.most[gpu],
            "largest_alloc_size": self.largest[gpu],
        }

    @property
    def gpus(self) -> list[int]:
        """The cards that hold or held something."""
        return sorted({block.gpu for _, _, block in self._events})

    def parts(self, gpu: int) -> dict[str, int]:
        """Return what was live on a card when most was, in bytes by tag, without what XLA takes to try kernels."""
        most, total, at = 0, 0, -1
        for number, (_, is_allocation, block) in enumerate(self._events):
            if block.gpu == gpu and block.tag != TUNING:
                total += _rounded(block.nbytes) if is_allocation else -_rounded(block.nbytes)
                if total > most:
                    most, at = total, number
        sums: dict[str, int] = defaultdict(int)
        for _, is_allocation, block in self._events[: at + 1]:
            if block.gpu == gpu:
                sums[block.tag] += block.nbytes if is_allocation else -block.nbytes
        return {tag: size for tag, size in sums.items() if size and tag != TUNING}

    @property
    def is_tuned(self) -> bool:
        """Whether XLA tries kernels while it compiles."""
        return any(block.tag == TUNING for _, _, block in self._events)

    def write(self, path: str, *, tuning: bool) -> None:
        """Write the trace, with or without what XLA takes to try kernels."""
        stacks: dict[tuple[Frame, ...], int] = {(): 0}
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write("Thread,Time,Action,Pointer,Size,Stream,GPU,Library,Tag,Stack\n")
            for seconds, taken, block in list(self._events):
                if block.tag == TUNING and not tuning:
                    continue
                stack = _stack(stacks, block.stack) if taken else ""
                action = "allocate" if taken else "free"
                tag = escaped(block.tag) if taken else ""
                fields = (
                    "0",
                    _clock(seconds),
                    action,
                    f"{block.address:#x}",
                    str(block.nbytes),
                    "0",
                    str(block.gpu),
                    "",
                    tag,
                    stack,
                )
                file.write(",".join(fields) + "\n")


def _stack(known: dict[tuple[Frame, ...], int], stack: tuple[Frame, ...]) -> str:
    if stack in known:
        return str(known[stack]) if stack else ""
    known[stack] = number = len(known)
    return f"{number}=" + ";".join(f"{escaped(file)}:{line}:{escaped(function)}" for file, line, function in stack)


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600 % 24:02}:{whole // 60 % 60:02}:{whole % 60:02}.{int((seconds - whole) * 1e6):06}"


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _GRAIN) * _GRAIN


def sizes(shape: Sequence[int], itemsize: int) -> int:
    """Return the bytes of an array."""
    total = itemsize
    for one in shape:
        total *= one
    return total
