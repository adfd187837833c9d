# SPDX-License-Identifier: Apache-2.0
"""Operators whose kernels for CUDA read on the host what their own launches have written, such as how many elements are
not zero.

The CPU computes them first. Then PyTorch's kernel for CUDA runs, whose reads are answered from the results: so it
allocates what it allocates on a card, the temporary memory of sorting and selecting, too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch

from ..._core.block import Block
from ..._typing import Any
from .unmarked import state

Answers = Callable[[Any, tuple[Any, ...]], "list[Any] | None"]
_LONG = 2048  # elements that the fused kernel of mode takes
_library: Any = None


def _rows(results: Any, _args: tuple[Any, ...]) -> list[Any]:
    return [(results[0] if isinstance(results, (list, tuple)) else results).shape[0]]


def _unique(results: Any, args: tuple[Any, ...]) -> list[Any]:
    return [int(args[0].sum())] if args[0].dtype is torch.bool else _rows(results, args)


def _length_of_dim(results: Any, args: tuple[Any, ...]) -> list[Any]:
    return [results[0].shape[args[1]]]


def _consecutive(results: Any, args: tuple[Any, ...]) -> list[Any]:
    dim = args[3] if len(args) > 3 else None
    return _rows(results, args) if dim is None else [results[0].shape[dim]]


def _least_and_most(_results: Any, args: tuple[Any, ...]) -> list[Any]:
    return [args[0].min().item(), args[0].max().item()] if args[0].numel() else []


def _range_of_values(_results: Any, args: tuple[Any, ...]) -> list[Any]:
    """Return what histc reads: the least and the greatest value, unless its arguments name others."""
    least, most = (*args[2:], 0, 0)[:2]
    return _least_and_most(None, args) if least == most else []


def _none(_results: Any, _args: tuple[Any, ...]) -> list[Any]:
    return []  # what it calls reads: nonzero, for example


def _mode(_results: Any, args: tuple[Any, ...]) -> list[Any] | None:
    """Return nothing where a fused kernel finds the mode; the one for longer rows reads positions in the middle of its
    work.
    """
    dim = args[1] if len(args) > 1 else -1
    return [] if args[0].dim() == 0 or args[0].shape[dim] <= _LONG else None


# Functions of the CPU's results and of the arguments on the CPU: what is read, in this order; None if no kernel for
# CUDA may run.
ANSWERS: dict[str, Answers] = {
    "aten::nonzero": _rows,
    "aten::masked_select": _none,
    "aten::_unique": _unique,
    "aten::_unique2": _unique,
    "aten::unique_consecutive": _consecutive,
    "aten::unique_dim": _length_of_dim,
    "aten::_ctc_loss": _none,
    "aten::_ctc_loss.Tensor": _none,
    "aten::bincount": _least_and_most,
    "aten::histc": _range_of_values,
    "aten::equal": lambda result, _args: [result],
    "aten::repeat_interleave.Tensor": lambda result, _args: [result.shape[0], 1],  # and that no count is negative
    "aten::median": _none,
    "aten::normal.float_Tensor": lambda _result, _args: [True],  # that no deviation is negative
    "aten::normal.Tensor_Tensor": lambda _result, _args: [True],
    "aten::mode": _mode,
    "aten::nanmedian": lambda _result, args: [int(args[0].isnan().sum())],
}

# They read from their solvers on the host whether these failed, which the CPU's find out.
CHECKS = {"aten::_linalg_svd", "aten::_linalg_svd.U"}


def install(library: Any) -> None:
    """Use the library that answers copies to the host."""
    global _library
    _library = library


class Answering(Block):
    """While it is entered, reads on the host by this thread get these values."""

    __slots__ = ("_before", "_kept", "_values")

    def __init__(self, values: list[Any]) -> None:
        self._values = values
        self._kept: Any = None
        self._before: list[Any] = []

    def __enter__(self) -> Answering:
        self._before = state.answers
        state.answers = list(self._values)
        whole = [int(one) for one in self._values if not isinstance(one, (float, complex))]
        self._kept = (ctypes.c_int64 * max(len(whole), 1))(*whole)
        _library.gpuconf_runtime_answer(self._kept, len(whole))
        return self

    def _leave(self, *_: object) -> None:
        state.answers = self._before
        _library.gpuconf_runtime_answer(None, 0)


def without_errors(original: Callable[..., Any]) -> Callable[..., Any]:
    """Let a kernel read that its solvers did not fail."""

    def kernel(*args: Any, **named: Any) -> Any:
        with Answering([0]):
            return original(*args, **named)

    return kernel


def same_shapes(results: Any, computed: Any) -> bool:
    """Whether the kernel for CUDA returned what the CPU did.

    A result after the first may be empty: it was not requested.
    """
    if isinstance(computed, (list, tuple)):
        pairs = zip(results, computed, strict=True)
        return all(
            one is None or other is None or (at > 0 and (0,) in (one.shape, other.shape)) or same_shapes(one, other)
            for at, (one, other) in enumerate(pairs)
        )
    if isinstance(computed, torch.Tensor):
        return bool(results.shape == computed.shape and results.dtype is computed.dtype)
    return bool(results == computed)
