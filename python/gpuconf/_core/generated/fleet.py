# SPDX-License-Identifier: Apache-2.0
"""Messages from pybind/wire and gocore/machine/models. Written by pybind/build/generate.py; DO NOT EDIT."""

from __future__ import annotations

from ..._typing import Any
from ..table import Table


class Hardware(Table):
    """What a compiler asks about a model, and what the size of a kernel's grid and of its workspace depend on.

    0 is unknown.
    """

    lanes: int  # of single precision, of a multiprocessor
    shared: int  # bytes of a multiprocessor's shared memory
    shared_block: int  # of them, what a block may have that opts in
    registers: int  # of a multiprocessor
    threads: int  # of a multiprocessor
    multiprocessors: int  # of the card
    clock_mhz: int  # boost clock
    memory_mhz: int  # which transfers twice in a cycle
    bus_bits: int  # width of the memory bus
    l2: int  # bytes

    @classmethod
    def _read(cls, row: Any) -> Hardware:
        return cls(*row)


class FleetBatch(Table):
    """Equal cards of a fleet."""

    gpu: str  # the model, as for gpuconf.simulate
    # how many cards
    count: int  # type: ignore[assignment]  # hides tuple's
    memory: int  # of each card, in bytes
    leasable: int  # the most that one process can lease of a card, in bytes
    context: int  # what a lease takes besides, in bytes, for the CUDA context of its process
    product: str  # as a driver reports it
    virtual: bool  # whether it has virtual memory management
    compute: tuple[int, int]  # its compute capability
    hardware: Hardware  # what workspaces depend on

    @classmethod
    def _read(cls, row: Any) -> FleetBatch:
        row[7] = tuple(row[7])
        row[8] = Hardware._read(row[8])
        return cls(*row)
