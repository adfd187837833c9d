# SPDX-License-Identifier: Apache-2.0
"""Messages from pybind/wire. Written by pybind/build/generate.py; DO NOT EDIT."""

from __future__ import annotations

from ..._typing import Any
from ..table import Table


class Chunk(Table):
    """A chunk of a region: a block in use, or free memory."""

    address: int  # of the first byte
    nbytes: int  # its size
    requested: int  # the requested size; 0 for free memory
    in_use: bool  # whether it is a block
    library: str = ""  # as in UsageRow; "" for free memory
    tag: str = ""  # "" for untagged and for free memory

    @classmethod
    def _read(cls, row: Any) -> Chunk:
        return cls(*row)


class Region(Table):
    """A contiguous range that the pool has reserved on the GPU. Its chunks cover it, in order of address."""

    address: int  # of the first byte
    nbytes: int  # its size
    chunks: tuple[Chunk, ...]  # in order of address

    @classmethod
    def _read(cls, row: Any) -> Region:
        row[2] = tuple(map(Chunk._read, row[2]))
        return cls(*row)


class MemoryMap(Table):
    """All regions of a pool, in order of address."""

    device: str  # such as "GPU:0"
    bytes_limit: int  # the pool's hard limit
    regions: tuple[Region, ...]  # in order of address
    oversubscribed_bytes: int  # as in MemoryStats

    @classmethod
    def _read(cls, row: Any) -> MemoryMap:
        row[2] = tuple(map(Region._read, row[2]))
        return cls(*row)
