# SPDX-License-Identifier: Apache-2.0
"""Messages from pybind/wire and gocore/machine/gpu and gocore/pool/bfc and gocore/devices/devmgr.

Written by pybind/build/generate.py; DO NOT EDIT.
"""

from __future__ import annotations

from ..._typing import Any
from ..table import Table


class UsageRow(Table):
    """The memory of one library under one tag."""

    library: str  # "torch", "cupy", "numba", "gpuconf" for buffers and tensors, "c" for gpuconf_malloc
    tag: str  # "" for untagged memory
    bytes_in_use: int  # total size of the live blocks, each a multiple of 256
    peak_bytes_in_use: int  # the maximum of bytes_in_use since the last reset_memory_stats
    live_blocks: int  # allocations not yet freed

    @classmethod
    def _read(cls, row: Any) -> UsageRow:
        return cls(*row)


class Usage(Table):
    """The memory in use on one logical GPU, by library and tag.

    The rows add up to it, but for the peaks, which may have been reached at different times.
    """

    bytes_in_use: int  # as in MemoryStats
    peak_bytes_in_use: int  # as in MemoryStats, or of a measurement
    live_blocks: int  # allocations not yet freed
    rows: tuple[UsageRow, ...]  # one for each library and tag

    @classmethod
    def _read(cls, row: Any) -> Usage:
        row[3] = tuple(map(UsageRow._read, row[3]))
        return cls(*row)


class MemoryStats(Table):
    """The statistics of a pool. Names are those of TensorFlow's AllocatorStats where it has them."""

    num_allocs: int  # allocations since the last reset_memory_stats
    live_blocks: int  # allocations not yet freed
    bytes_in_use: int  # size of the live blocks, in multiples of 256
    requested_bytes_in_use: int  # total requested size of the live blocks
    peak_bytes_in_use: int  # the maximum of bytes_in_use since reset_memory_stats
    largest_alloc_size: int  # the largest block since the last reset_memory_stats
    bytes_limit: int  # the hard limit
    bytes_reserved: int  # memory that the pool has reserved on the GPU
    peak_bytes_reserved: int  # the maximum of bytes_reserved
    largest_free_block_bytes: int  # the largest contiguous free block in the reserved memory
    # Times that fragmented free memory was remapped to be contiguous for a request that no free block could serve
    stitches: int
    stitched_bytes: int  # bytes remapped by these
    captured_bytes: int  # freed memory that captured CUDA graphs keep until they are destroyed
    # Unified memory: by how much bytes_in_use of all pools on the GPU exceeds the GPU's memory
    oversubscribed_bytes: int
    # What the guard of `gpuconf run` lets the job's processes have of the GPU; 0 without the guard
    budget_limit_bytes: int = 0
    budget_pool_bytes: int = 0  # Of it, what gpuconf's pools have reserved, in all processes of the job
    # Of it, what is allocated otherwise: by libraries past the pools, and by the job's other programs
    budget_outside_bytes: int = 0
    budget_free_bytes: int = 0  # what is left of it

    @classmethod
    def _read(cls, row: Any) -> MemoryStats:
        return cls(*row)


class MemoryTotals(Table):
    """The counters of a pool that PyTorch's statistics need besides MemoryStats."""

    allocs: int  # allocations since the pool was made
    allocated_bytes: int  # the sum of their sizes
    regions: int  # of reserved memory
    recent_peak_bytes_reserved: int  # since the last reset_memory_stats
    ooms: int  # requests that failed for lack of memory

    @classmethod
    def _read(cls, row: Any) -> MemoryTotals:
        return cls(*row)


class DeviceUsage(Table):
    """The memory in use on a device that a text names."""

    device: str  # such as "GPU:0"
    usage: Usage  # what is in use

    @classmethod
    def _read(cls, row: Any) -> DeviceUsage:
        row[1] = Usage._read(row[1])
        return cls(*row)


class PeakStart(Table):
    """The start of a measurement of the peak on one logical GPU."""

    gpu: int  # the GPU's number
    id: int  # identifies the measurement until it ends
    before: Usage  # what was in use

    @classmethod
    def _read(cls, row: Any) -> PeakStart:
        row[2] = Usage._read(row[2])
        return cls(*row)
