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
    storage = tensor.untyped_storage()
    address = storage.data_ptr()
    if not address:
        return _without_memory(tensor)
    alias = _base(address, storage.nbytes(), tensor.dtype).as_strided(
        tensor.size(), tensor.stride(), tensor.storage_offset()
    )
    if tensor.is_conj():
        torch._C._set_conj(alias, True)
    if tensor.is_neg():
        torch._C._set_neg(alias, True)
    return alias


def _without_memory(tensor: torch.Tensor) -> torch.Tensor:
    if tensor._is_zerotensor():
        return torch._efficientzerotensor(tensor.size(), dtype=tensor.dtype, device=_CPU)
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=_CPU)


def zero_(keys: Any, tensor: torch.Tensor) -> torch.Tensor:
    """``aten::zero_`` of a CPU tensor in the memory of one on a simulated GPU."""
    if tensor.is_contiguous():
        clear(tensor.data_ptr(), tensor.numel() * tensor.itemsize)
        return tensor
    return _zero(keys, tensor)
