# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: operations under capture are not computed but recorded, and computed at each replay."""

from __future__ import annotations

import ctypes
import weakref
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import torch

from ..._typing import Any
from . import generators, moves, notice
from .unmarked import state

_open: list[Any] = []  # the graphs whose capture has begun and not ended


class _Operation(NamedTuple):
    compute: Callable[[int], None]  # takes the seed of the CPU's generator
    source: torch.Generator | None  # what it draws from
    advances: bool  # whether it advances the source


_recorded: weakref.WeakKeyDictionary[Any, list[_Operation]] = weakref.WeakKeyDictionary()


def capturing() -> bool:
    """Whether the thread's current stream is being captured."""
    return bool(_open) and torch.cuda.is_current_stream_capturing()


def record(compute: Callable[[int], None], source: torch.Generator | None = None, *, advances: bool = True) -> None:
    """Keep an operation for the replays of the graph, as a function of a seed.

    The graph's pool keeps the memory of its tensors.
    """
    _recorded[_open[-1]].append(_Operation(compute, source, source is not None and advances))


class _Draws:
    """The numbers that the operations of a replay draw from one generator: as without a graph, each from a state of its
    own.

    PyTorch advances the generator by a sum, and refuses to say a state under capture. So each operation that surely
    advances it gets an equal part. Those that advance it with a dropout only, such as attention, have other numbers
    than without a
    graph.
    """

    def __init__(self, source: torch.Generator, count: int) -> None:
        self._source, self._count = source, count
        self._before = self._next = source.get_offset()
        self._others = 0  # operations that did not advance it

    def begin(self) -> None:
        """Look how far PyTorch's replay has advanced the generator, and advance it if it has not."""
        count = max(1, self._count)
        if self._source.get_offset() == self._before:
            self._source.set_offset(self._before + count * generators.ADVANCE)
        whole = (self._source.get_offset() - self._before) // generators.ADVANCE
        self._part = max(1, whole // count) * generators.ADVANCE

    def seed(self, operation: _Operation) -> int:
        """Return the seed of the next operation."""
        seed = generators.seed_of(self._source.initial_seed(), self._next)
        if operation.advances:
            self._next += self._part
            return seed
        self._others += 1
        return generators.seed_of(seed, self._others)


def _draws_of(operations: list[_Operation]) -> dict[torch.Generator, _Draws]:
    sources = [one.source for one in operations if one.source is not None]
    counts = Counter(one.source for one in operations if one.advances)
    return {source: _Draws(source, counts[source]) for source in dict.fromkeys(sources)}


def install() -> None:
    """Let ``torch.cuda.CUDAGraph`` record and compute."""
    graph_class = torch.cuda.CUDAGraph
    begin, end = graph_class.capture_begin, graph_class.capture_end
    replay, reset = graph_class.replay, graph_class.reset

    def capture_begin(self: Any, *args: Any, **named: Any) -> None:
        begin(self, *args, **named)
        _recorded[self] = []
        _open.append(self)

    def capture_end(self: Any) -> None:
        if self in _open:
            _open.remove(self)
        end(self)

    def replay_and_compute(self: Any) -> None:
        operations = _recorded.get(self, [])
        draws = _draws_of(operations)
        state.mark.value += 1
        try:
            replay(self)
        finally:
            state.mark.value -= 1
        for one in draws.values():
            one.begin()
        notice.synchronize(torch.cuda.current_stream())
        for operation in operations:
            operation.compute(0 if operation.source is None else draws[operation.source].seed(operation))

    def reset_and_forget(self: Any) -> None:
        _recorded.pop(self, None)
        reset(self)

    pairs = (capture_begin, begin), (capture_end, end), (replay_and_compute, replay), (reset_and_forget, reset)
    for own, theirs in pairs:
        own.__name__, own.__doc__ = theirs.__name__, theirs.__doc__
        setattr(graph_class, theirs.__name__, own)


# Work that is left in the queues of streams: NCCL's, host functions, and what comes after these.
#
# The CPU computes an operation when it is queued. So the thread waits first until the work before it in its stream is
# done. NCCL's operations under capture are recorded with the others, and done in their turn at each replay.

left: ctypes.c_uint32 = ctypes.c_uint32(0)  # pieces of work in the queues of all streams
_kept: list[Any] = []


def install_queues(library: Any) -> None:
    """Use the replacement libraries' count."""
    global left
    library.gpuconf_runtime_queued_address.restype = ctypes.c_void_p
    left = ctypes.c_uint32.from_address(library.gpuconf_runtime_queued_address())
    collective = library.gpuconf_runtime_collective
    collective.argtypes, collective.restype = [ctypes.c_void_p], None
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda batch: record(lambda _seed: collective(batch)))
    _kept.append(callback)
    library.gpuconf_runtime_on_captured_collective(callback)


def wait(*arguments: Any) -> None:
    """Return when the work before an operation in its stream is done, unless it is captured.

    Call it only if there is work left.
    """
    stream = torch.cuda.current_stream(moves.device_among(arguments))
    if not capturing():
        notice.synchronize(stream)
