# SPDX-License-Identifier: Apache-2.0
"""The cards of the machine, whether this process sees them or not, without CUDA."""

from __future__ import annotations

from .._core import runtime
from .._core.native import core
from .._core.table import Table
from .._typing import Any, NamedTuple


class _CardMemory(NamedTuple):
    kind: str  # "dedicated", "unified" or "coherent"
    total: int | None
    used: int | None
    free: int | None
    source: str | None  # where the numbers come from: "NVML", "/proc/meminfo" or "simulation"


class CardMemory(Table, _CardMemory):
    """The memory of a card or a MIG instance, in bytes; None where unknown. Unified memory is the host's, with all its uses."""

    __slots__ = ()


class _CardProcess(NamedTuple):
    pid: int  # on the host: see Survey.host_pids
    bytes: int | None  # None if the driver does not report it
    instance: str | None  # the UUID of the MIG instance that it uses


class CardProcess(Table, _CardProcess):
    """A process that uses a card, as the driver reports it."""

    __slots__ = ()


class _CardInstance(NamedTuple):
    uuid: str
    name: str
    memory: CardMemory


class CardInstance(Table, _CardInstance):
    """A MIG instance of a card."""

    __slots__ = ()


class _Card(NamedTuple):
    index: int  # type: ignore[assignment]  # its number in nvidia-smi
    uuid: str
    name: str
    pci_bus_id: str
    compute_capability: tuple[int, int]
    mig: str  # "none", "off", "on" or "unknown"
    memory: CardMemory
    processes: tuple[CardProcess, ...]
    processes_error: str | None  # why the processes are unknown
    instances: tuple[CardInstance, ...]
    errors: tuple[str, ...]


class Card(Table, _Card):
    """One card. A text that could not be read is empty; ``errors`` says why."""

    __slots__ = ()


class _Survey(NamedTuple):
    simulated: str | None  # the simulated machine's spec
    why_none: str | None  # why there is no card
    driver: str | None  # its version
    cuda: tuple[int, int] | None  # the newest CUDA version that the driver supports
    host_pids: bool  # this process is in a container: the driver's PIDs are the host's
    cards: tuple[Card, ...]


class Survey(Table, _Survey):
    """All cards of the machine."""

    __slots__ = ()

    @property
    def why_none_shortly(self) -> str | None:
        """Why there is no card, without the files that were looked for."""
        return self.why_none and self.why_none.partition(" (")[0]


def survey() -> Survey:
    """Return all cards of the machine: the simulated one if there is one, else those that NVML reports.

    Creates no CUDA context and takes no device memory. ``CUDA_VISIBLE_DEVICES`` has no effect. A machine without a driver has no
    card, which ``why_none`` explains. Raises ValueError if ``GPUCONF_SIMULATE`` is invalid.
    """
    text = core.pybind_Cards(runtime.environment())
    import json

    found = json.loads(text)
    return Survey(**{**found, "cuda": found["cuda"] and tuple(found["cuda"]), "cards": tuple(map(_card, found["cards"]))})


def _card(found: dict[str, Any]) -> Card:
    return Card(
        **{
            **found,
            "compute_capability": tuple(found["compute_capability"]),
            "memory": CardMemory(**found["memory"]),
            "processes": tuple(CardProcess(**one) for one in found["processes"]),
            "instances": tuple(CardInstance(**{**one, "memory": CardMemory(**one["memory"])}) for one in found["instances"]),
            "errors": tuple(found["errors"]),
        }
    )


class _SimulatedModel(NamedTuple):
    name: str
    product: str  # as a driver reports it
    memory: int  # bytes
    memory_kind: str
    compute_capability: tuple[int, int]


class SimulatedModel(Table, _SimulatedModel):
    """A model that :func:`gpuconf.simulate` knows."""

    __slots__ = ()


def models() -> list[SimulatedModel]:
    """Return the models that can be simulated, newest first."""
    text = core.pybind_Models()
    import json

    return [
        SimulatedModel(name, product, memory, kind, tuple(version)) for name, product, memory, kind, version in json.loads(text)
    ]
