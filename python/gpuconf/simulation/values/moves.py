# SPDX-License-Identifier: Apache-2.0
"""Values between CPU tensors and tensors on simulated GPUs, dense and sparse."""

from __future__ import annotations

import torch

from ..._typing import Any
from .memory import on_cpu
from .small import LIMIT

only_small = False  # see small.py

_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def to_view(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor in the memory of a tensor on a simulated GPU, or of its indices and values."""
    layout = tensor.layout
    if layout is torch.strided:
        return on_cpu(tensor)
    if layout is torch.sparse_coo:
        indices, values = on_cpu(tensor._indices()), on_cpu(tensor._values())
        return torch.ops.aten._sparse_coo_tensor_unsafe(
            indices, values, tensor.shape, is_coalesced=tensor.is_coalesced()
        )
    if layout in _COMPRESSED:
        parts = [on_cpu(one) for one in parts_of(tensor)]
        return torch.ops.aten._sparse_compressed_tensor_unsafe(
            *parts, tensor.shape, layout=layout, dtype=tensor.dtype, device="cpu"
        )
    raise NotImplementedError(f"gpuconf: tensors with layout {layout} are not computed on simulated GPUs")


def parts_of(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the tensors that a compressed sparse tensor consists of."""
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    return tensor.ccol_indices(), tensor.row_indices(), tensor.values()


def fill(result: Any, value: Any) -> None:
    """Write a CPU tensor's values, or those of a list, into a result on a simulated GPU. None leaves it as it is."""
    if value is None:
        return
    if isinstance(result, torch.Tensor):
        if result.is_nested:
            fill(result.unbind(), value.unbind())
            return
        if result.numel() == 0 or result._is_zerotensor() or (isinstance(value, torch.Tensor) and value.numel() == 0):
            return  # zeros without memory, or what only one of the devices keeps for the backward pass
        if result.layout is torch.sparse_coo:
            fill(result._indices(), value._indices())
            fill(result._values(), value._values())
            return
        if only_small and result.is_cuda and result.untyped_storage().nbytes() >= LIMIT:
            return
        target = on_cpu(result) if result.is_cuda else result
        if not isinstance(value, torch.Tensor):
            value.fill(target)  # see formulas/results.py
            return
        if target.shape != value.shape:
            raise RuntimeError(
                f"gpuconf: PyTorch's kernel for CUDA returned sizes {tuple(target.shape)} and the CPU's "
                f"{tuple(value.shape)}"
            )
        target.copy_(value)
    elif isinstance(result, (list, tuple)):
        for one, its in zip(result, value, strict=True):
            fill(one, its)


def device_among(values: Any) -> torch.device | None:
    """Return the device of the first tensor on a simulated GPU among arguments, or a device that they name."""
    if isinstance(values, torch.Tensor):
        return values.device if values.is_cuda else None
    if isinstance(values, torch.device):
        return values if values.type == "cuda" else None
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, (list, tuple)):
        return None
    for one in values:
        found = device_among(one)
        if found is not None:
            return found
    return None


def to_gpu(value: Any, arguments: Any) -> Any:
    """Move results of the CPU to the simulated GPU of an operation's arguments."""
    return _moved(value, device_among(arguments) or torch.device("cuda"))


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, (list, tuple)):
        kind = type(value) if type(value) in (list, tuple) else tuple
        return kind(_moved(one, device) for one in value)
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout is torch.strided:
        made = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
        fill(made, value)
        return made
    if value.layout is torch.sparse_coo:
        indices, values = _moved(value._indices(), device), _moved(value._values(), device)
        return torch.ops.aten._sparse_coo_tensor_unsafe(indices, values, value.shape, is_coalesced=value.is_coalesced())
    parts = [_moved(one, device) for one in parts_of(value)]
    return torch.ops.aten._sparse_compressed_tensor_unsafe(
        *parts, value.shape, layout=value.layout, dtype=value.dtype, device=device
    )


def is_bytewise(to: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether PyTorch copies between these tensors with the driver alone, byte by byte."""
    return (
        to.dtype is source.dtype
        and to.is_conj() == source.is_conj()
        and to.is_neg() == source.is_neg()
        and to.shape == source.shape
        and to.is_contiguous()
        and source.is_contiguous()
        and not source._is_zerotensor()
    )


def replace(target: torch.Tensor, source: torch.Tensor) -> None:
    """Give a tensor on a simulated GPU the contents of a CPU tensor that was made by `to_view` and written to."""
    if target.layout is torch.strided:
        if target.shape != source.shape:
            target.resize_(source.shape)
        fill(target, source)
    elif target.layout is torch.sparse_coo:
        moved = _moved(source, target.device)
        torch.ops.aten.copy_sparse_to_sparse_(target, moved)
    else:
        for part, value in zip(parts_of(target), parts_of(source), strict=True):
            fill(part, value)
