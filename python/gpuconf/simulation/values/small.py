# SPDX-License-Identifier: Apache-2.0
"""Which operations are computed with ``values="none"``: those on small tensors, such as indices, masks and scalars.

Other results have no value. They read as zero, so that programs see finite numbers, and their memory is not written, so
that the host needs none for it. Small results of those have no value either. Their storages are marked: the mark is an
attribute of the storage's Python object, which PyTorch keeps for as long as the storage lives.
"""

from __future__ import annotations

import atexit
import math
from collections import Counter

import torch

from ..._core import message
from ..._typing import Any
from .memory import on_cpu

LIMIT = 64 << 10
# PyTorch takes blocks up to this size from segments that small tensors share, whose values they would read.
_SHARED = 1 << 20
# Of gradients without a value none is infinite, whatever an operation on small ones made of zeros.
_NEVER = ("aten::_amp_foreach_non_finite_check_and_unscale_",)
_MARK = "_gpuconf_without_value"
_answered: Counter[str] = Counter()


def install() -> None:
    """Name at the end of the process what was answered without a value."""
    atexit.register(_report)


def is_large(tensor: torch.Tensor) -> bool:
    """Whether nothing is written to a tensor's memory."""
    return bool(tensor.layout is torch.strided and tensor.untyped_storage().nbytes() >= LIMIT)


def has_no_value(value: Any) -> bool:
    """Whether an argument is a tensor on a GPU, or has one, that was not computed, or was computed from such
    tensors.
    """
    if isinstance(value, torch.Tensor):
        return (
            value.is_cuda
            and value.layout is torch.strided
            and (is_large(value) or hasattr(value.untyped_storage(), _MARK))
        )
    return isinstance(value, (list, tuple)) and any(map(has_no_value, value))


def pass_on(results: Any, written: list[Any], values: tuple[Any, ...]) -> None:
    """Mark small results, or what was written to, that were computed from tensors without a value."""
    if any(map(has_no_value, values)):
        mark(written if results is None else results)


def mark(value: Any) -> None:
    """Note that tensors on a GPU have no value."""
    if isinstance(value, torch.Tensor):
        if value.is_cuda and value.layout is torch.strided:
            setattr(value.untyped_storage(), _MARK, True)
    elif isinstance(value, (list, tuple)):
        for one in value:
            mark(one)


def is_never_written(tensor: torch.Tensor) -> bool:
    """Whether a tensor's memory holds zeros because no small tensor ever had it."""
    return bool(tensor.untyped_storage().nbytes() > _SHARED)


def _any_large(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_cuda and is_large(value)
    return isinstance(value, (list, tuple)) and any(map(_any_large, value))


def _is_long(value: Any) -> bool:
    """Whether it takes long to read a tensor, or a list of them."""
    if isinstance(value, torch.Tensor):
        return bool(value.numel() * value.itemsize >= LIMIT)
    return isinstance(value, (list, tuple)) and any(map(_is_long, value))


def computes(operator: Any, results: Any, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether an operation is computed: it writes to small tensors only, and reads few values."""
    if operator.name == "aten::zero_":  # only what small tensors may have had is not zero
        return not is_never_written(args[0])
    if _any_large(results) or any(map(_is_long, args)):
        return False
    if any(map(_any_large, operator.targets(args, named))) or any(map(_is_long, named.values())):
        return False
    return operator.name not in _NEVER


def leave(operator: Any, results: Any, args: tuple[Any, ...]) -> None:
    """Let results without a value read as zero, or as what finite numbers give."""
    if isinstance(results, torch.Tensor):
        if operator.aliased and not operator.aliased[0]:
            _leave_one(operator, results, args)
    elif results is not None:
        for aliased, one in zip(operator.aliased, results, strict=False):
            if not aliased:
                for tensor in one if isinstance(one, (list, tuple)) else (one,):
                    _leave_one(operator, tensor, args)


def _leave_one(operator: Any, result: Any, args: tuple[Any, ...]) -> None:
    if not isinstance(result, torch.Tensor) or not result.is_cuda or result.layout is not torch.strided:
        return
    size = result.untyped_storage().nbytes()
    if size >= _SHARED or not size:
        return
    holds = size < LIMIT and _is_true_of_finite(operator.name, args)
    on_cpu(result).fill_(holds)
    if size < LIMIT:
        _answered[operator.name] += 1
        if not holds:
            mark(result)


def _is_true_of_finite(name: str, args: tuple[Any, ...]) -> bool:
    """Whether a comparison holds for all finite numbers, as those of ``isfinite`` do."""
    if name.startswith("aten::all"):
        return True
    if name == "aten::eq.Tensor":
        return bool(args[0].data_ptr() == args[1].data_ptr())
    return name == "aten::ne.Scalar" and isinstance(args[1], float) and math.isinf(args[1])


def read(name: str) -> None:
    """Count a large tensor that the program reads."""
    _answered[name] += 1


def _report() -> None:
    if _answered:
        most = ", ".join(f"{name} ({count})" for name, count in _answered.most_common(10))
        text = f'values="none": {sum(_answered.values())} results that a program can read have no value: {most}'
        message.log("info", text)
