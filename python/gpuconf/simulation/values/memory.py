# SPDX-License-Identifier: Apache-2.0
"""CPU tensors that lie in the memory of tensors on simulated GPUs."""

from __future__ import annotations

import ctypes

import torch

from ..._typing import Any

_CPU = torch.device("cpu")
_storage = torch._C._construct_storage_from_data_pointer
_zero = torch.ops.aten.zero_.default._handle.redispatch_boxed
_set = torch.ops.aten.set_.source_Storage_storage_offset
# An address and a size say all about such a tensor, so that an entry is right for every storage that ever has them.
_bases: dict[Any, torch.Tensor] = {}
_MOST = 8192
_clear: Any = None


def install(library: Any) -> None:
    """Use the library that clears memory."""
    global _clear
    _clear = library.gpuconf_runtime_clear
    _clear.argtypes, _clear.restype = [ctypes.c_void_p, ctypes.c_size_t], None


def clear(address: int, size: int) -> None:
    """Make memory zero. Of a large part the host keeps none until something is written."""
    _clear(address, size)


def _base(address: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor of a storage's whole memory. It does not own the memory."""
    key = (address, size, dtype)
    base = _bases.get(key)
    if base is None:
        if len(_bases) >= _MOST:
            _bases.clear()
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction(), torch.inference_mode(False):
            base = torch.empty(0, dtype=dtype, device=_CPU)
            if address and size:
                _set(base, _storage(address, _CPU, size), 0, (size // dtype.itemsize,), (1,))
        _bases[key] = base
    return base


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor of the same memory, sizes, strides and conjugation as a dense tensor on a simulated GPU."""
    if tensor._is_zerotensor():  # its storage has a size and no memory, and refuses to say an address
        return torch._efficientzerotensor(tensor.size(), dtype=tensor.dtype, device=_CPU)
    storage = tensor.untyped_storage()
    address = storage.data_ptr()
    if not address:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=_CPU)
    alias = _base(address, storage.nbytes(), tensor.dtype).as_strided(
        tensor.size(), tensor.stride(), tensor.storage_offset()
    )
    if tensor.is_conj():
        torch._C._set_conj(alias, True)
    if tensor.is_neg():
        torch._C._set_neg(alias, True)
    return alias


def zero_(keys: Any, tensor: torch.Tensor) -> torch.Tensor:
    """``aten::zero_`` of a CPU tensor in the memory of one on a simulated GPU."""
    if tensor.is_contiguous():
        clear(tensor.data_ptr(), tensor.numel() * tensor.itemsize)
        return tensor
    return _zero(keys, tensor)


# Python numbers in the place of tensors.
#
# PyTorch makes a tensor of a number in ``x * 0.5`` that takes part in type promotion as a number, and gives it to a
# Python kernel as a number. A kernel that is called from there needs such a tensor again. Nothing makes one by itself,
# but a detached one
# is one, too.

_KINDS = {float: torch.float64, int: torch.int64, bool: torch.bool, complex: torch.complex128}
_made: dict[Any, torch.Tensor] = {}
_MOST_MADE = 4096


def _template(value: Any) -> torch.Tensor:
    """Return the tensor that autograd saves of a number."""
    with torch.inference_mode(False), torch.enable_grad():
        factor = torch.zeros((), dtype=torch.complex64, device="cpu", requires_grad=True)
        saved: torch.Tensor = (factor * value).grad_fn._saved_other
        return saved


# What the dispatcher includes and excludes where no mode and no transform is active.
_PLAIN = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
_TEMPLATES = {kind: _template(kind(1)) for kind in _KINDS}


def as_tensor(value: Any) -> torch.Tensor:
    """Return the tensor that PyTorch makes of a number."""
    kind = type(value)
    key = (kind, repr(value))  # of zeros, too, the sign counts
    tensor = _made.get(key)
    if tensor is None:
        if len(_made) >= _MOST_MADE:
            _made.clear()
        # A mode, or a transform, such as the functionalization of torch.export, would make a tensor of its own here.
        off = torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction(), torch._C._DisablePythonDispatcher()
        with off[0], off[1], off[2], torch._C._ForceDispatchKeyGuard(*_PLAIN):
            tensor = _TEMPLATES[kind].detach()
            tensor.set_(torch.full((), value, dtype=_KINDS[kind], device="cpu").untyped_storage(), 0, (), ())
        _made[key] = tensor
    return tensor


def as_tensors(args: tuple[Any, ...], places: tuple[int, ...]) -> tuple[Any, ...]:
    """Return arguments with tensors in place of numbers at these places."""
    for place in places:
        if place < len(args) and type(args[place]) in _KINDS:
            return tuple(as_tensor(one) if at in places and type(one) in _KINDS else one for at, one in enumerate(args))
    return args
