"""The books of one logical GPU's pool."""

from __future__ import annotations

from collections import namedtuple

from .._core.device_argument import Device
from .._core.native import core
from .._core.scope import gpu_text
from .._core.table import Table


class MemoryStats(
    Table,
    namedtuple(
        "MemoryStats",
        [
            "num_allocs",
            "live_blocks",
            "bytes_in_use",
            "requested_bytes_in_use",
            "peak_bytes_in_use",
            "largest_alloc_size",
            "bytes_limit",
            "bytes_reserved",
            "peak_bytes_reserved",
            "largest_free_block_bytes",
            "stitches",
            "stitched_bytes",
            "captured_bytes",
            "oversubscribed_bytes",
        ],
    ),
):
    """The numbers of a pool; sizes in bytes, named as in TensorFlow's ``AllocatorStats`` where that has them."""

    __slots__ = ()

    num_allocs: int  # allocations since the last reset_memory_stats
    live_blocks: int  # allocations that were not freed yet
    bytes_in_use: int  # the sizes of the live blocks, in steps of 256
    requested_bytes_in_use: int  # what was asked for them
    peak_bytes_in_use: int  # the most that bytes_in_use was since the last reset_memory_stats
    largest_alloc_size: int  # the largest block since the last reset_memory_stats
    bytes_limit: int  # the hard limit
    bytes_reserved: int  # what the pool has taken from the GPU
    peak_bytes_reserved: int
    largest_free_block_bytes: int  # the largest free piece of what is reserved
    stitches: int  # times that free memory was moved together for a request that no free piece served
    stitched_bytes: int  # what was moved then
    captured_bytes: int  # what was freed of captured CUDA graphs, which keep it until they are gone
    oversubscribed_bytes: int  # unified memory: by how much bytes_in_use of all pools on the GPU exceeds the GPU's memory


def stats(device: Device | None = None) -> MemoryStats:
    """Return all numbers of a logical GPU's pool. Initializes the runtime.

    ``device`` and its default are as for :func:`allocate`. Raises ValueError for a device that is not exactly one logical GPU,
    and TypeError for an object that names no device.

    ``oversubscribed_bytes`` is about the physical GPU, so logical GPUs that share one show the same number. At least that many
    bytes of the blocks in use are not on the GPU. It is 0 for pools without unified memory.

    >>> stats("GPU:0").bytes_limit
    84011909120
    """
    text = core.pybind_MemoryStats(gpu_text(device, "memory.stats"))
    import json

    return MemoryStats(**json.loads(text))
