# SPDX-License-Identifier: Apache-2.0
"""Statistics of one logical GPU's pool."""

from __future__ import annotations

from .._core import html
from .._core.device_argument import Device
from .._core.native import core
from .._core.scope import gpu_text
from .._core.table import Table
from .._typing import NamedTuple


class _MemoryStats(NamedTuple):
    num_allocs: int  # allocations since the last reset_memory_stats
    live_blocks: int  # allocations not yet freed
    bytes_in_use: int  # total size of the live blocks, each rounded up to a multiple of 256
    requested_bytes_in_use: int  # total requested size of the live blocks
    peak_bytes_in_use: int  # the maximum of bytes_in_use since the last reset_memory_stats
    largest_alloc_size: int  # the largest block since the last reset_memory_stats
    bytes_limit: int  # the hard limit
    bytes_reserved: int  # memory that the pool has reserved on the GPU
    peak_bytes_reserved: int
    largest_free_block_bytes: int  # the largest contiguous free block in the reserved memory
    stitches: int  # times that fragmented free memory was remapped to be contiguous for a request that no free block could serve
    stitched_bytes: int  # bytes remapped by these
    captured_bytes: int  # freed memory that captured CUDA graphs keep until they are destroyed
    oversubscribed_bytes: int  # unified memory: by how much bytes_in_use of all pools on the GPU exceeds the GPU's memory
    # Older pickles lack the rest.
    budget_limit_bytes: int = 0  # what the guard of `gpuconf run` lets the job's processes have of the GPU; 0 without the guard
    budget_pool_bytes: int = 0  # of it, what gpuconf's pools have reserved, in all processes of the job
    budget_outside_bytes: int = (
        0  # of it, what is allocated otherwise: by libraries past the pools, and by the job's other programs
    )
    budget_free_bytes: int = 0  # what is left of it


class MemoryStats(Table, html.InLists, _MemoryStats):
    """Statistics of a pool. Sizes are in bytes; names are those of TensorFlow's ``AllocatorStats`` where it has them."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        counts = ("num_allocs", "live_blocks", "stitches")
        fields = self.to_dict().items()
        rows = [(html.code(name), f"{value:,}" if name in counts else html.size(value)) for name, value in fields]
        bar = html.memory_bar(self.bytes_in_use, self.peak_bytes_in_use, self.bytes_reserved, self.bytes_limit)
        return html.shown(html.titled("MemoryStats", bar, html.table((), rows)))


def stats(device: Device | None = None) -> MemoryStats:
    """Return the statistics of a logical GPU's pool. Initializes the runtime.

    ``device`` and its default are as for :func:`allocate`. Raises ValueError for a device that is not exactly one logical GPU,
    and TypeError for an object that is not a device.

    ``oversubscribed_bytes`` describes the physical GPU, so logical GPUs that share one report the same number. At least that many
    bytes of the blocks in use are in host memory. It is 0 for pools without unified memory.

    The ``budget`` fields describe the job on the physical GPU: ``budget_limit_bytes`` is the sum of the other three. They are 0
    in a process that does not run under the guard of ``gpuconf run --memory``.

    >>> stats("GPU:0").bytes_limit
    84011909120
    """
    text = core.pybind_MemoryStats(gpu_text(device, "memory.stats"))
    import json

    return MemoryStats(**json.loads(text))
