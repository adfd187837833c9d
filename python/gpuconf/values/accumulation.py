# SPDX-License-Identifier: Apache-2.0
"""Sums of gradients that the autograd engine makes in place.

Where several gradients of a tensor meet, the engine adds to the first one, if nothing else holds that. From PyTorch 2.10 on, a
Python object counts as a holder, even one that only C++ keeps alive. Our kernels are Python functions, and make an object of each
tensor. So the engine asks for a new sum, which on a card it does not: it is made in place here.
"""

from __future__ import annotations

import ctypes
import functools
import sys

import torch

from .._typing import Any
from .kernels import Kernel

_ENGINE = b"_ZN5torch8autograd11InputBuffer3addE"  # torch::autograd::InputBuffer::add, whatever its arguments
_MOST_FRAMES = 128
# Holders of a gradient that only the engine's buffer holds, when a kernel gets it: the buffer, the dispatcher and the Python
# object; and those of its memory: the gradient, and the object of the storage.
_HOLDERS, _OF_STORAGE = 3, 2


class _Symbol(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    _fields_ = (("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p))


_libc = ctypes.CDLL(None)
_frames = ctypes.c_void_p * _MOST_FRAMES
_least = sys.maxsize  # references to the Python object of a tensor that only C++ holds


def in_place(kernel: Kernel) -> Kernel:
    """Make the kernel of ``add.Tensor``, with the engine's sums in place."""
    add = torch.ops.aten.add_.Tensor

    def accumulate(keys: Any, *args: Any, **named: Any) -> Any:
        if torch._C._current_graph_task_id() == -1 or torch.is_grad_enabled() or named or len(args) != 2:
            return kernel(keys, *args, **named)
        global _least
        references = [sys.getrefcount(one) for one in args]
        _least = min(_least, *references)
        if max(references) > _least or not _is_the_engines_alone(*args) or not _called_by_engine():
            return kernel(keys, *args)
        return add(*args)

    return accumulate


def _is_the_engines_alone(first: Any, second: Any) -> bool:
    """Whether the engine could add to the first gradient, as ``can_accumulate_inplace`` has it."""
    if not (type(first) is type(second) is torch.Tensor and first.is_cuda and first.layout is second.layout is torch.strided):
        return False
    if first.shape != second.shape or first.dtype != second.dtype or first._use_count() > _HOLDERS:
        return False
    return torch._C._storage_Use_Count(first.untyped_storage()._cdata) <= _OF_STORAGE and bool(
        torch.ops.aten.is_non_overlapping_and_dense.default(first)
    )


def _called_by_engine() -> bool:
    found = _frames()
    return any(_is_in_engine(address) for address in found[: _libc.backtrace(found, _MOST_FRAMES)])


@functools.cache  # dladdr reads all symbols of a library
def _is_in_engine(address: int) -> bool:
    symbol = _Symbol()
    return bool(_libc.dladdr(ctypes.c_void_p(address), ctypes.byref(symbol)) and (symbol.name or b"").startswith(_ENGINE))
