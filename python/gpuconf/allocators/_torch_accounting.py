# SPDX-License-Identifier: Apache-2.0
"""PyTorch's memory functions over gpuconf's accounting, for mode whole, in which PyTorch's own allocator is not in use.

In mode segments only the functions about free memory are replaced: the driver knows no limit but that of `gpuconf run`.

PyTorch's public functions in ``torch.cuda`` and ``torch.accelerator`` are Python code over a few functions of
``torch._C``, which do not support a foreign allocator. Replacing those few makes all functions built on them work:
``memory_allocated`` and so on.

Statistics that gpuconf does not count are left out of the dictionaries: a missing key fails loudly, a wrong 0 does not.
``docs/frameworks.md`` has the table.
"""

from __future__ import annotations

import functools
import os

import torch

from .. import errors
from .._core import message, runtime
from .._typing import Any
from ..memory._stats import stats, totals
from . import _share

_accumulated: dict[int, dict[str, int]] = {}  # totals at the last reset_accumulated_memory_stats(), by logical GPU
runtime.on_forget(_accumulated.clear)


def memory_stats(device: int) -> dict[str, Any]:
    """``torch._C._cuda_memoryStats``: the statistics of the logical GPU that this thread allocates from.

    ``active`` equals ``allocation``: gpuconf counts no freed block as active. There is one pool, and no size above
    which blocks are oversize.
    """
    number = _share.routed(device, "torch.cuda.memory_stats")
    now, ever = stats(_share.name_of(number)), totals(number)
    since = _accumulated.get(number, {"allocs": 0, "allocated_bytes": 0, "frees": 0, "freed_bytes": 0, "ooms": 0})
    counts = {
        "current": now.live_blocks,
        "allocated": ever.allocs - since["allocs"],
        "freed": max(0, ever.allocs - now.live_blocks - since["frees"]),
    }
    sizes = {
        "current": now.bytes_in_use,
        "peak": max(now.peak_bytes_in_use, now.bytes_in_use),
        "allocated": ever.allocated_bytes - since["allocated_bytes"],
        "freed": max(0, ever.allocated_bytes - now.bytes_in_use - since["freed_bytes"]),
    }
    reserved = {"current": now.bytes_reserved, "peak": max(ever.recent_peak_bytes_reserved, now.bytes_reserved)}
    none = dict.fromkeys(("current", "peak", "allocated", "freed"), 0)
    return {
        "allocation": {"all": counts},
        "active": {"all": dict(counts)},
        "segment": {"all": {"current": ever.regions}},
        "allocated_bytes": {"all": sizes},
        "active_bytes": {"all": dict(sizes)},
        "requested_bytes": {"all": {"current": now.requested_bytes_in_use}},
        "reserved_bytes": {"all": reserved},
        "num_ooms": ever.ooms - since["ooms"],
        "oversize_allocations": none,
        "oversize_segments": dict(none),
        "max_split_size": -1,
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """``torch.cuda.memory_summary``: the rows of PyTorch's table that gpuconf counts."""
    del abbreviated  # there is one pool
    index = torch.cuda._get_device_index(device, optional=True)
    stats = memory_stats(index)
    name = _share.name_of(_share.routed(index, "torch.cuda.memory_summary"))
    line = "=" * 75
    rows = [
        line,
        f" PyTorch on gpuconf: memory of {name} on CUDA device {index}",
        f" CUDA OOMs: {stats['num_ooms']}",
        line,
        " Metric            |   Cur Usage    |   Peak Usage   |   Tot Alloc    |   Tot Freed    ",
    ]
    for key, title in (
        ("allocated_bytes", "Allocated memory"),
        ("requested_bytes", "Requested memory"),
        ("reserved_bytes", "Reserved memory"),
        ("allocation", "Allocations"),
        ("segment", "Segments"),
    ):
        unit = " B" if key.endswith("bytes") else ""
        values = [stats[key]["all"].get(column) for column in ("current", "peak", "allocated", "freed")]
        cells = ("-" if value is None else f"{value}{unit}" for value in values)
        rows.append(f" {title:<17} | " + " | ".join(f"{cell:>14}" for cell in cells))
    return "\n".join([*rows, line, ""])


def reset_peak(device: int) -> None:
    """``torch._C._cuda_resetPeakMemoryStats``."""
    from ..config.experimental import reset_memory_stats

    reset_memory_stats(_share.name_of(_share.routed(device, "torch.cuda.reset_peak_memory_stats")))


def reset_accumulated(device: int) -> None:
    """``torch._C._cuda_resetAccumulatedMemoryStats``."""
    number = _share.routed(device, "torch.cuda.reset_accumulated_memory_stats")
    now, ever = stats(_share.name_of(number)), totals(number)
    _accumulated[number] = {
        **ever.to_dict(),
        "frees": ever.allocs - now.live_blocks,
        "freed_bytes": ever.allocated_bytes - now.bytes_in_use,
    }


def fraction(device: int) -> float:
    """``torch._C._cuda_getMemoryFraction``: the limit as a fraction of the GPU's memory."""
    return _share.stats_of(device, "torch.cuda.get_per_process_memory_fraction").bytes_limit / total_bytes(device)


def enable_caching(value: bool) -> None:
    """``torch.cuda.caching_allocator_enable``: memory is always pooled."""
    if not value:
        raise errors.UnimplementedError(
            "torch.cuda.caching_allocator_enable(False) is not supported in gpuconf's mode 'whole': memory is always "
            "pooled. Use mode 'segments', or PyTorch without gpuconf"
        )


def total_bytes(ordinal: int) -> int:
    """Return the memory of a GPU, by CUDA ordinal."""
    for device in runtime.physical_devices():
        if device.name == f"/physical_device:GPU:{ordinal}":
            return runtime.details_of(device).total_bytes
    raise errors.InvalidArgumentError(f"CUDA device {ordinal} is not among gpuconf's physical devices")


def memory_info(device: int) -> tuple[int, int]:
    """Return the memory left within the limit, and the limit, of the logical GPU that this thread allocates from."""
    now = _share.stats_of(device, "torch.cuda.mem_get_info")
    return now.bytes_limit - now.bytes_in_use, now.bytes_limit


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """``torch.cuda.mem_get_info``."""
    return memory_info(torch.cuda._get_device_index(device, optional=True))


def memory_info_of_card(device: int) -> tuple[int, int]:
    """Return the memory left within the limit and on the card, for mode segments, and the limit.

    What PyTorch has cached is not left. Under `gpuconf run` the driver counts what gpuconf's pools have in no block as
    free.
    """
    now = _share.stats_of(device, "torch.cuda.mem_get_info")
    free, total = torch.cuda.cudart().cudaMemGetInfo(device)
    if "GPUCONF_GUARD" not in os.environ:
        free += now.bytes_reserved - now.bytes_in_use
    left = now.bytes_limit - now.bytes_in_use
    return (min(free, left) if now.bytes_limit <= total else left), now.bytes_limit


def mem_get_info_of_card(device: Any = None) -> tuple[int, int]:
    """``torch.cuda.mem_get_info`` in mode segments."""
    return memory_info_of_card(torch.cuda._get_device_index(device, optional=True))


def snapshot(pool: Any = None, *_: Any, **__: Any) -> dict[str, Any]:
    """``torch._C._cuda_memorySnapshot``: the current contents of every pool, in the format of pytorch.org/memory_viz.

    A ``torch.cuda.MemPool`` is empty in mode whole.
    """
    from ..memory import _snapshot
    from ..memory._map import memory_map

    runtime.logical_devices("torch.cuda.memory_snapshot")
    shown = pool is None or tuple(pool[:2]) == (0, 0)
    segments = []
    for number, ordinal in enumerate(runtime.ordinals() if shown else ()):
        for region in memory_map(_share.name_of(number)).regions:
            chunks = [(chunk.address, chunk.nbytes, chunk.requested, chunk.in_use) for chunk in region.chunks]
            segments.append(_snapshot.segment(ordinal, (region.address, region.nbytes, chunks), {}, (0, number)))
    return {
        "segments": segments,
        "device_traces": [],
        "allocator_settings": {"backend": "gpuconf"},
        "external_annotations": [],
    }


def record_history(*args: Any, **_: Any) -> None:
    """``torch._C._cuda_record_memory_history``: records nothing, and logs a warning."""
    if args and args[0] is not None:
        message.log(
            "warning",
            "torch.cuda.memory._record_memory_history records nothing in mode 'whole': snapshots show only the current "
            "state. Use gpuconf.memory.record(), or mode 'segments', which keeps PyTorch's history",
        )


def refusing_pools(make: Any) -> Any:
    """Return ``torch.cuda.MemPool.__init__`` with gpuconf's reason where PyTorch refuses a foreign allocator."""

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> None:
        try:
            make(*args, **kwargs)
        except RuntimeError as error:
            raise errors.FailedPreconditionError(
                "torch.cuda.MemPool needs gpuconf's mode 'segments': call "
                "gpuconf.configure(libraries={'torch': 'segments'}) instead"
            ) from error

    return made


def replace() -> None:
    """Replace PyTorch's functions with these. ``torch.accelerator`` has its own functions in PyTorch 2.9 and newer."""
    native: Any = torch._C
    for name, function in {
        "_cuda_memoryStats": memory_stats,
        "_cuda_resetPeakMemoryStats": reset_peak,
        "_cuda_resetAccumulatedMemoryStats": reset_accumulated,
        "_cuda_getMemoryFraction": fraction,
        "_cuda_memorySnapshot": snapshot,
        "_cuda_record_memory_history": record_history,
        "_cuda_record_memory_history_legacy": record_history,
        "_cuda_cudaCachingAllocator_enable": enable_caching,
        "_accelerator_isAllocatorInitialized": torch.cuda.is_initialized,
        "_accelerator_getDeviceStats": memory_stats,
        "_accelerator_resetPeakStats": reset_peak,
        "_accelerator_resetAccumulatedStats": reset_accumulated,
        "_accelerator_getMemoryInfo": memory_info,
        "_accelerator_emptyCache": lambda: torch.cuda.empty_cache(),
    }.items():
        if hasattr(native, name):
            setattr(native, name, function)
    if hasattr(torch.cuda, "MemPool"):
        torch.cuda.MemPool.__init__ = refusing_pools(torch.cuda.MemPool.__init__)
    torch.cuda.memory.mem_get_info = torch.cuda.mem_get_info = mem_get_info
    torch.cuda.memory.memory_summary = torch.cuda.memory_summary = memory_summary


def replace_info() -> None:
    """Replace PyTorch's functions about free memory, for mode segments."""
    native: Any = torch._C
    if hasattr(native, "_accelerator_getMemoryInfo"):
        native._accelerator_getMemoryInfo = memory_info_of_card
    torch.cuda.memory.mem_get_info = torch.cuda.mem_get_info = mem_get_info_of_card
