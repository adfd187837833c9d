# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: operations under capture are not computed but recorded, and computed at each replay."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import torch

from .._typing import Any
from . import generators
from .thread import state

_open: list[Any] = []  # the graphs whose capture has begun and not ended
_recorded: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
_drawing: weakref.WeakSet[Any] = weakref.WeakSet()  # graphs whose operations draw random numbers


def capturing() -> bool:
    """Whether the thread's current stream is being captured."""
    return bool(_open) and torch.cuda.is_current_stream_capturing()


def record(compute: Callable[[int], None]) -> None:
    """Keep an operation for the replays of the graph, as a function of a seed. The graph's pool keeps the memory of its tensors."""
    _recorded[_open[-1]].append(compute)


def draws(random: bool) -> None:
    """Remember whether an operation of the graph draws numbers. PyTorch refuses to tell a generator's state under capture."""
    if random:
        _drawing.add(_open[-1])


def _compute(graph: Any, seed: int) -> None:
    for number, compute in enumerate(_recorded.get(graph, ())):
        compute(generators.seed_of(seed, number + 1))


def install() -> None:
    """Let ``torch.cuda.CUDAGraph`` record and compute."""
    graph_class = torch.cuda.CUDAGraph
    begin, end, replay, reset = graph_class.capture_begin, graph_class.capture_end, graph_class.replay, graph_class.reset

    def capture_begin(self: Any, *args: Any, **named: Any) -> None:
        begin(self, *args, **named)
        _recorded[self] = []
        _drawing.discard(self)
        _open.append(self)

    def capture_end(self: Any) -> None:
        if self in _open:
            _open.remove(self)
        end(self)

    def replay_and_compute(self: Any) -> None:
        source = generators.default_of(torch.device("cuda"))
        offset = source.get_offset()
        seed = generators.seed_of(source.initial_seed(), offset)
        state.mark.value += 1
        try:
            replay(self)
        finally:
            state.mark.value -= 1
        if self in _drawing and source.get_offset() == offset:
            source.set_offset(offset + 4)  # the next replay draws other numbers
        torch.cuda.current_stream().synchronize()
        _compute(self, seed)

    def reset_and_forget(self: Any) -> None:
        _recorded.pop(self, None)
        reset(self)

    for own, theirs in ((capture_begin, begin), (capture_end, end), (replay_and_compute, replay), (reset_and_forget, reset)):
        own.__name__, own.__doc__ = theirs.__name__, theirs.__doc__
        setattr(graph_class, theirs.__name__, own)
