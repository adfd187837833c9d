# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: operations under capture are not computed but recorded, and computed at each replay."""

from __future__ import annotations

import weakref

import torch

from .._typing import Any

_open: list[Any] = []  # the graphs whose capture has begun and not ended
_recorded: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


def capturing() -> bool:
    """Whether the thread's current stream is being captured."""
    return bool(_open) and torch.cuda.is_current_stream_capturing()


def record(operator: Any, results: Any, args: Any, named: dict[str, Any]) -> None:
    """Keep an operation, with the CPU tensors of its arguments' memory, for the replays of the graph."""
    _recorded[_open[-1]].append((operator, results_on_cpu(results), args, named))


def results_on_cpu(results: Any) -> Any:
    """Return CPU tensors of the results' memory. They own nothing: the graph's pool keeps the memory."""
    from .kernels import arguments_on_cpu

    return arguments_on_cpu(results) if isinstance(results, torch.Tensor) else [arguments_on_cpu(one) for one in results or ()]


def compute(graph: Any, seed: int) -> None:
    """Compute what was recorded of a graph."""
    from . import generators
    from .kernels import run_on_cpu, write

    for number, (operator, results, args, named) in enumerate(_recorded.get(graph, ())):
        own = generators.seed_of(seed, number + 1) if operator.random else None
        write(operator, results, run_on_cpu(operator, args, named, own))


def install() -> None:
    """Let ``torch.cuda.CUDAGraph`` record and compute."""
    graph_class = torch.cuda.CUDAGraph
    begin, end, replay, reset = graph_class.capture_begin, graph_class.capture_end, graph_class.replay, graph_class.reset

    def capture_begin(self: Any, *args: Any, **named: Any) -> None:
        begin(self, *args, **named)
        _recorded[self] = []
        _open.append(self)

    def capture_end(self: Any) -> None:
        if self in _open:
            _open.remove(self)
        end(self)

    def replay_and_compute(self: Any) -> None:
        from . import generators

        source = generators.default_of(torch.device("cuda"))
        seed = generators.seed_of(source.initial_seed(), source.get_offset())
        replay(self)
        torch.cuda.current_stream().synchronize()
        compute(self, seed)

    def reset_and_forget(self: Any) -> None:
        _recorded.pop(self, None)
        reset(self)

    for own, theirs in ((capture_begin, begin), (capture_end, end), (replay_and_compute, replay), (reset_and_forget, reset)):
        own.__name__, own.__doc__ = theirs.__name__, theirs.__doc__
        setattr(graph_class, theirs.__name__, own)
