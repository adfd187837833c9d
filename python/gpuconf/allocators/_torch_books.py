"""PyTorch's memory functions over gpuconf's books, for the mode in which PyTorch's own allocator is not in use.

PyTorch's public functions are Python over a few functions of ``torch._C``, which raise "does not yet support" for a foreign
allocator. Those few are replaced, and everything made of them answers: ``memory_allocated``, ``memory_summary`` and so on.

gpuconf counts what is in use and reserved, its peaks, and calls; it has no totals of bytes ever handed out, no small and large
pools, and no retries. Where PyTorch has numbers for these, they are 0.
"""

from __future__ import annotations

import torch

from .. import _notices, errors
from .._typing import Any
from . import _share

_KINDS = (
    "allocation", "segment", "active", "inactive_split",
    "allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes",
)  # fmt: skip


def _stat(current: int = 0, peak: int = 0, allocated: int = 0, freed: int = 0) -> dict[str, int]:
    return {"current": current, "peak": max(peak, current), "allocated": allocated, "freed": freed}


def memory_stats(device: int) -> dict[str, Any]:
    """``torch._C._cuda_memoryStats``: the books of the logical GPU that this thread allocates from."""
    books = _share.stats_of(device, "torch.cuda.memory_stats")
    live, in_use = books.live_blocks, books.bytes_in_use
    every = {kind: _stat() for kind in _KINDS}
    every["allocation"] = every["active"] = _stat(live, live, books.num_allocs, max(0, books.num_allocs - live))
    every["allocated_bytes"] = every["active_bytes"] = _stat(in_use, books.peak_bytes_in_use)
    every["requested_bytes"] = _stat(books.requested_bytes_in_use)
    every["reserved_bytes"] = _stat(books.bytes_reserved, books.peak_bytes_reserved)
    every["inactive_split_bytes"] = _stat(books.bytes_reserved - in_use)
    nested: dict[str, Any] = {kind: {"all": stat, "small_pool": _stat(), "large_pool": _stat()} for kind, stat in every.items()}
    nested.update(
        dict.fromkeys(("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free"), 0)
    )
    nested.update(oversize_allocations=_stat(), oversize_segments=_stat(), max_split_size=-1)
    return nested


def reset_peak(device: int) -> None:
    """``torch._C._cuda_resetPeakMemoryStats``."""
    from ..config.experimental import reset_memory_stats

    reset_memory_stats(_share.name_of(_share.routed(device, "torch.cuda.reset_peak_memory_stats")))


def reset_accumulated(device: int) -> None:
    """``torch._C._cuda_resetAccumulatedMemoryStats``: there are no totals to reset."""
    _share.routed(device, "torch.cuda.reset_accumulated_memory_stats")


def fraction(device: int) -> float:
    """``torch._C._cuda_getMemoryFraction``: the limit's part of the card's memory."""
    return _share.stats_of(device, "torch.cuda.get_per_process_memory_fraction").bytes_limit / total_bytes(device)


def total_bytes(ordinal: int) -> int:
    """A card's memory, by CUDA ordinal."""
    import json

    from .. import _runtime
    from .._native import core

    for position, device in enumerate(_runtime.physical_devices()):
        if device.name == f"/physical_device:GPU:{ordinal}":
            return int(json.loads(core.pybind_DeviceDetails(position))["total_bytes"])
    raise errors.InvalidArgumentError(f"CUDA device {ordinal} is not among gpuconf's physical devices")


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """``torch.cuda.mem_get_info``: what the limit leaves, and the limit, of the logical GPU that this thread allocates from."""
    books = _share.stats_of(torch.cuda._get_device_index(device, optional=True), "torch.cuda.mem_get_info")
    return books.bytes_limit - books.bytes_in_use, books.bytes_limit


def snapshot(*_: Any, **__: Any) -> dict[str, Any]:
    """``torch._C._cuda_memorySnapshot``: what every pool holds now, in the form that pytorch.org/memory_viz draws."""
    from .. import _runtime
    from .._memory_map import memory_map

    _runtime.logical_devices("torch.cuda.memory_snapshot")
    segments = []
    for number, ordinal in enumerate(_runtime.ordinals()):
        for region in memory_map(_share.name_of(number)).regions:
            in_use = sum(chunk.nbytes for chunk in region.chunks if chunk.in_use)
            segments.append(
                {
                    "device": ordinal,
                    "address": region.address,
                    "total_size": region.nbytes,
                    "allocated_size": in_use,
                    "active_size": in_use,
                    "requested_size": sum(chunk.requested for chunk in region.chunks),
                    "stream": 0,
                    "segment_type": "large",
                    "segment_pool_id": (0, number),
                    "is_expandable": False,
                    "frames": [],
                    "blocks": [
                        {
                            "address": chunk.address,
                            "size": chunk.nbytes,
                            "requested_size": chunk.requested,
                            "state": "active_allocated" if chunk.in_use else "inactive",
                            "frames": [],
                        }
                        for chunk in region.chunks
                    ],
                }
            )
    return {"segments": segments, "device_traces": [], "allocator_settings": {"backend": "gpuconf"}, "external_annotations": []}


def record_history(*args: Any, **_: Any) -> None:
    """``torch._C._cuda_record_memory_history``: nothing is recorded, and the log says so."""
    if args and args[0] is not None:
        _notices.log(
            "warning",
            "torch.cuda.memory._record_memory_history records nothing in mode 'whole': a snapshot has what is there now. "
            "Mode 'segments' has PyTorch's history",
        )


def replace() -> None:
    """Put these functions in the place of PyTorch's."""
    for name, function in {
        "_cuda_memoryStats": memory_stats,
        "_cuda_resetPeakMemoryStats": reset_peak,
        "_cuda_resetAccumulatedMemoryStats": reset_accumulated,
        "_cuda_getMemoryFraction": fraction,
        "_cuda_memorySnapshot": snapshot,
        "_cuda_record_memory_history": record_history,
        "_cuda_record_memory_history_legacy": record_history,
    }.items():
        if hasattr(torch._C, name):
            setattr(torch._C, name, function)
    torch.cuda.memory.mem_get_info = torch.cuda.mem_get_info = mem_get_info
