# SPDX-License-Identifier: Apache-2.0
"""Messages from pybind/wire. Written by pybind/build/generate.py; DO NOT EDIT."""

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
