# SPDX-License-Identifier: Apache-2.0
"""Messages from pybind/wire. Written by pybind/build/generate.py; DO NOT EDIT."""

from __future__ import annotations

from ..._typing import Any
from ..table import Table


class CardMemory(Table):
    """The memory of a card or a MIG instance; None where unknown. Unified memory is the host's, with all its uses."""

    kind: str  # "dedicated", "unified" or "coherent"
    total: int | None  # all of it
    used: int | None  # what is in use, by whichever program
    free: int | None  # what is left
    source: str | None  # where the numbers come from: "NVML", "/proc/meminfo" or "simulation"

    @classmethod
    def _read(cls, row: Any) -> CardMemory:
        return cls(*row)


class CardProcess(Table):
    """A process that uses a card, as the driver reports it."""

    pid: int  # on the host: see Survey.host_pids
    bytes: int | None  # None if the driver does not report it
    instance: str | None  # the UUID of the MIG instance that it uses

    @classmethod
    def _read(cls, row: Any) -> CardProcess:
        return cls(*row)


class CardInstance(Table):
    """A MIG instance of a card."""

    uuid: str  # "MIG-..."
    name: str  # its profile, such as "3g.20gb"
    memory: CardMemory  # its own

    @classmethod
    def _read(cls, row: Any) -> CardInstance:
        row[2] = CardMemory._read(row[2])
        return cls(*row)


class Card(Table):
    """One card of the machine. A text that could not be read is empty; errors says why."""

    # its number in nvidia-smi
    index: int  # type: ignore[assignment]  # hides tuple's
    uuid: str  # "GPU-..."
    name: str  # the product
    pci_bus_id: str  # as the driver writes it
    compute_capability: tuple[int, int]  # major and minor
    mig: str  # "none", "off", "on" or "unknown"
    memory: CardMemory  # its own
    processes: tuple[CardProcess, ...]  # those that use it
    processes_error: str | None  # why the processes are unknown
    instances: tuple[CardInstance, ...]  # its MIG instances
    errors: tuple[str, ...]  # what could not be read, and why

    @classmethod
    def _read(cls, row: Any) -> Card:
        row[4] = tuple(row[4])
        row[6] = CardMemory._read(row[6])
        row[7] = tuple(map(CardProcess._read, row[7]))
        row[9] = tuple(map(CardInstance._read, row[9]))
        row[10] = tuple(row[10])
        return cls(*row)


class Survey(Table):
    """All cards of the machine."""

    simulated: str | None  # the simulated machine's spec
    why_none: str | None  # why there is no card
    driver: str | None  # its version
    cuda: tuple[int, int] | None  # the newest CUDA version that the driver supports
    host_pids: bool  # this process is in a container: the driver's PIDs are the host's
    cards: tuple[Card, ...]  # in nvidia-smi's order

    @classmethod
    def _read(cls, row: Any) -> Survey:
        row[3] = row[3] and tuple(row[3])
        row[5] = tuple(map(Card._read, row[5]))
        return cls(*row)


class SimulatedModel(Table):
    """A model that gpuconf.simulate knows."""

    name: str  # in a spec
    product: str  # as a driver reports it
    memory: int  # bytes
    memory_kind: str  # as in CardMemory
    compute_capability: tuple[int, int]  # major and minor

    @classmethod
    def _read(cls, row: Any) -> SimulatedModel:
        row[4] = tuple(row[4])
        return cls(*row)
