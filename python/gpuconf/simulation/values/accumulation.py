# SPDX-License-Identifier: Apache-2.0
"""Sums of gradients, which autograd forms in place if it has the last reference to the first one.

From PyTorch 2.10 on a tensor that Python has seen counts as one with another reference, and what a kernel in Python
returns is one. So autograd requests a sum in memory of its own, where on a card there is none. The kernel of ``add``
then adds in
place.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable

import torch

from ..._typing import Any

# torch::autograd::InputBuffer::add(unsigned long, at::Tensor&&, std::optional<c10::Stream> const& [twice],
# torch::autograd::Node*)
_FUNCTION = "_ZN5torch8autograd11InputBuffer3addEmON2at6TensorERKSt8optionalIN3c106StreamEESA_PNS0_4NodeE"
_HOLDERS = 3  # of the first gradient: autograd's buffer, the call of the kernel, and the tensor's Python object
_STORAGE_HOLDERS = 2  # the tensor and the storage's Python object
_references = 0  # to the Python object of a gradient that only autograd and the call of the kernel hold
_has_caller: Callable[[], int] = lambda: 0  # noqa: E731


def install(library: Any, wrapped: Callable[[Callable[[], Any]], Any]) -> None:
    """Find the function of autograd that sums.

    Versions before 2.10 do not have it with these arguments, and need no other sum.

    ``wrapped`` makes of a kernel's maker what the dispatcher calls.
    """
    global _has_caller, _references
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    try:
        function = getattr(ctypes.CDLL(os.path.join(folder, "libtorch_cpu.so")), _FUNCTION)
    except (OSError, AttributeError):
        return
    library.gpuconf_runtime_watch_caller(ctypes.cast(function, ctypes.c_void_p))
    _has_caller = library.gpuconf_runtime_has_caller
    call = ctypes.pythonapi.PyObject_Call
    call.restype, call.argtypes = ctypes.py_object, [ctypes.py_object] * 3
    # PyTorch's own, and its arguments without the keys.
    _references = call(wrapped(lambda: _counting), (None, [], []), {}) + 2


def _counting(keys: Any, first: Any, second: Any, *rest: Any, **named: Any) -> int:
    """Count references to an argument in the place of the kernel below, which has the same parameters."""
    del keys, second, rest, named
    return sys.getrefcount(first)


def _is_last_reference(tensor: torch.Tensor) -> bool:
    """Whether autograd's buffer alone holds a gradient, and no view of it is held either.

    The call itself holds it, too.
    """
    count = torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)
    return bool(count == _STORAGE_HOLDERS) and torch.ops.aten.is_non_overlapping_and_dense.default(tensor)


def summing(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Make the kernel of ``aten::add.Tensor``."""

    def add(keys: Any, first: Any, second: Any, *rest: Any, **named: Any) -> Any:
        if (
            isinstance(first, torch.Tensor)
            and first._use_count() == _HOLDERS
            and not torch.is_grad_enabled()
            and torch._C._current_autograd_node() is not None
            and sys.getrefcount(first) == _references
            and _has_caller()
            and _is_last_reference(first)
        ):
            return torch.ops.aten.add_.Tensor(first, second)
        return kernel(keys, first, second, *rest, **named)

    return add
