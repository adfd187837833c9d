# SPDX-License-Identifier: Apache-2.0
"""Go's messages, from pybind/wire. Written by pybind/build/generate.py; DO NOT EDIT."""

from __future__ import annotations

from ..._typing import Any, NamedTuple
from ..table import Table


class _UsageRow(NamedTuple):
    library: str  # "torch", "cupy", "numba", "gpuconf" for buffers and tensors, "c" for gpuconf_malloc
    tag: str  # "" for untagged memory
    bytes_in_use: int  # total size of the live blocks, each a multiple of 256
    peak_bytes_in_use: int  # the maximum of bytes_in_use since the last reset_memory_stats
    live_blocks: int  # allocations not yet freed


class UsageRow(Table, _UsageRow):
    """The memory of one library under one tag."""

    __slots__ = ()

    @classmethod
    def _read(cls, row: Any) -> UsageRow:
        return cls(*row)


class _Usage(NamedTuple):
    bytes_in_use: int  # as in MemoryStats
    peak_bytes_in_use: int  # as in MemoryStats, or of a measurement
    live_blocks: int  # allocations not yet freed
    rows: tuple[UsageRow, ...]  # one for each library and tag


class Usage(Table, _Usage):
    """The memory in use on one logical GPU, by library and tag.

    The rows add up to it, but for the peaks, which may have been reached at different times.
    """

    __slots__ = ()

    @classmethod
    def _read(cls, row: Any) -> Usage:
        row[3] = tuple(map(UsageRow._read, row[3]))
        return cls(*row)


class _DeviceUsage(NamedTuple):
    device: str  # such as "GPU:0"
    usage: Usage  # what is in use


class DeviceUsage(Table, _DeviceUsage):
    """The memory in use on a device that a text names."""

    __slots__ = ()

    @classmethod
    def _read(cls, row: Any) -> DeviceUsage:
        row[1] = Usage._read(row[1])
        return cls(*row)


class _PeakStart(NamedTuple):
    gpu: int  # the GPU's number
    id: int  # identifies the measurement until it ends
    before: Usage  # what was in use


class PeakStart(Table, _PeakStart):
    """The start of a measurement of the peak on one logical GPU."""

    __slots__ = ()

    @classmethod
    def _read(cls, row: Any) -> PeakStart:
        row[2] = Usage._read(row[2])
        return cls(*row)
