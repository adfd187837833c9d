# SPDX-License-Identifier: Apache-2.0
"""Collectors for prometheus_client."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter

from .. import errors
from .._core import message, texts
from .._core.generated.ledger import ClaimRow
from .._typing import Any
from ..leases.view import Place, Share, View, view
from ._pools import FIGURES, read_pools

_POOL = ("gpu", "uuid", "pci_bus_id", "logical_device", "pid")
_CARD = ("gpu", "uuid", "pci_bus_id")
_MIB = 1 << 20


def register(registry: Any = None) -> ProcessCollector:
    """Add this process's pools to a ``prometheus_client`` registry, by default the default one. Returns the collector.

    Each scrape reads the pools, so nothing runs in between. Raises MissingPackageError if prometheus-client is not
    installed, and ValueError, as prometheus_client does, if the registry has the collector already.

    >>> import prometheus_client
    >>> registry = prometheus_client.CollectorRegistry()
    >>> collector = gpuconf.metrics.register(registry)
    >>> buffer = gpuconf.memory.allocate("1MiB", "GPU:0")
    >>> b'gpuconf_memory_in_use_bytes{gpu="0",library="gpuconf"' in prometheus_client.generate_latest(registry)
    True
    >>> buffer.free()
    """
    if registry is not None and not hasattr(registry, "register"):
        got = texts.given(registry)
        raise errors.InvalidTypeError(f"registry must be a prometheus_client.CollectorRegistry, but got {got}")
    collector = ProcessCollector()
    (client().REGISTRY if registry is None else registry).register(collector)
    return collector


def client() -> Any:
    """Return the module prometheus_client."""
    try:
        import prometheus_client
    except ImportError as error:
        raise texts.missing("metrics need", "prometheus-client", "prometheus", error) from None
    return prometheus_client


# All metrics; "gpuconf_" comes before the name.
_METRICS = {
    "memory_in_use_bytes": "Memory in live blocks of gpuconf's pools.",
    **{name: text for name, (text, _) in FIGURES.items()},
    "gpus": "GPUs of the machine; a divided card counts as its MIG instances.",
    "gpu_info": "Labels of a GPU that do not change; always 1.",
    "gpu_memory_total_bytes": "The GPU's memory.",
    "gpu_memory_used_bytes": "Memory that all processes use; with unified memory, this includes the host's use.",
    "gpu_memory_free_bytes": "Free memory.",
    "gpu_leased_bytes": "Memory that live leases hold.",
    "process_memory_used_bytes": "Device memory of a process, as the driver counts it.",
    "lease_bytes": "Memory that a lease holds on a GPU, or waits for. The processes of a lease share it.",
    "lease_parked_bytes": "Host memory that the program of a lease is parked in, or will be.",
    "lease_swaps_total": "How often the program's memory has left the GPU and come back.",
    "lease_waited_seconds_total": "The time for which the program has waited to come back.",
    "DCGM_FI_DEV_FB_FREE": "Free frame buffer in MiB.",
    "DCGM_FI_DEV_FB_USED": "Used frame buffer in MiB.",
}


class _Families:
    """The metrics of one scrape, in the order of their first sample."""

    def __init__(self) -> None:
        client()
        from prometheus_client import core

        self._core = core
        self._found: dict[str, Any] = {}

    def add(self, name: str, labels: dict[str, str], value: float | None) -> None:
        """Add a sample of a metric of _METRICS, unless there is no value."""
        if value is not None:
            self.family(name, labels).add_metric(list(labels.values()), value)

    def family(self, name: str, labels: Iterable[str] = ()) -> Any:
        """Return a metric of _METRICS."""
        if name not in self._found:
            kind = self._core.CounterMetricFamily if name.endswith("_total") else self._core.GaugeMetricFamily
            full = name if name.startswith("DCGM_") else f"gpuconf_{name}"
            self._found[name] = kind(full, _METRICS[name], labels=list(labels))
        return self._found[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found.values())


class ProcessCollector:
    """The pools of this process: used, reserved, peak, limit and free memory, allocations, failures, fragmentation."""

    __module__ = "gpuconf.metrics"

    def collect(self) -> Iterable[Any]:
        """Return the metrics. Called by ``prometheus_client`` at each scrape."""
        families = _Families()
        for pool in read_pools():
            labels = {name: getattr(pool, name) for name in _POOL}
            shares = [(row.library, row.tag, row.bytes_in_use) for row in pool.usage] or [("", "", 0)]
            for library, tag, count in shares:
                by_library = {"gpu": pool.gpu, "library": library, "tag": tag, **labels}
                families.add("memory_in_use_bytes", by_library, count)
            for name, (_, where) in FIGURES.items():
                families.add(name, labels, attrgetter(where)(pool))
        return families

    def describe(self) -> Iterable[Any]:
        """Return the metrics without samples: a registry refuses a second collector by their names."""
        families = _Families()
        for name in ("memory_in_use_bytes", *FIGURES):
            families.family(name)
        return families


class MachineCollector:
    """All cards of the machine, idle ones too, with the processes and leases on them.

    ``dcgm_names`` adds memory by the names of NVIDIA's DCGM exporter, in MiB, for dashboards made for it.
    """

    __module__ = "gpuconf.metrics"

    def __init__(self, dcgm_names: bool = False) -> None:
        self._dcgm_names = dcgm_names
        self._report: Callable[[str], None] = lambda text: message.log("warning", text)
        self._reported: str | None = None

    def collect(self) -> Iterable[Any]:
        """Return the metrics. Called by ``prometheus_client`` at each scrape."""
        current = view()
        if current.ledger_error and current.ledger_error != self._reported:  # once, and not at each scrape
            self._report(f"the ledger cannot be read: {current.ledger_error}")
        self._reported = current.ledger_error
        families = _Families()
        families.add("gpus", {}, len(current.places))
        for place in current.places:
            _card(families, place, current)
            for share in place.shares:
                _share(families, place, share)
            for share in {share.claim: share for share in place.shares if share.lease is not None}.values():
                _lease(families, place, share)
            if self._dcgm_names:
                _dcgm(families, place)
        for claim in current.claims:
            _turns(families, claim)
        return families

    def describe(self) -> Iterable[Any]:
        """Return no metric, so that registering the collector does not query the driver."""
        return []


def _card(families: _Families, place: Place, machine: View) -> None:
    labels = {name: getattr(place, name) for name in _CARD}
    memory = place.memory
    about = {**labels, "name": place.name, "memory_kind": memory.kind, "driver": machine.survey.driver or ""}
    families.add("gpu_info", about, 1)
    families.add("gpu_memory_total_bytes", labels, memory.total)
    families.add("gpu_memory_used_bytes", labels, memory.used)
    families.add("gpu_memory_free_bytes", labels, memory.free)
    # What is leased is unknown if the ledger cannot be read: 0 would be an answer.
    families.add("gpu_leased_bytes", labels, None if machine.ledger_error else place.leased)


def _share(families: _Families, place: Place, share: Share) -> None:
    labels = {name: getattr(place, name) for name in _CARD}
    process = {
        **labels,
        "pid": str(share.pid),
        "user": share.user or "",
        "process_name": _name_of(share),
        "lease": share.claim,
    }
    families.add("process_memory_used_bytes", process, share.bytes)
    for pool in share.pools:
        own = {**labels, "logical_device": pool.device, "pid": str(share.pid)}
        unknown = pool.in_use - sum(pool.libraries.values())
        shares = [*pool.libraries.items()] + ([("", unknown)] if unknown or not pool.libraries else [])
        for library, count in shares:
            by_library = {"gpu": place.gpu, "library": library, "tag": "", **own}
            families.add("memory_in_use_bytes", by_library, count)
        for name in ("reserved", "peak", "limit"):
            families.add(f"memory_{name}_bytes", own, getattr(pool, name))


def _lease(families: _Families, place: Place, share: Share) -> None:
    state = next((one for one in ("waiting", "parked") if one in share.notes), "granted")
    about = {name: getattr(place, name) for name in _CARD}
    about.update(lease=share.claim, name=share.name, job=share.job, state=state)
    about.update(user=share.user or "", pid=str(share.lease_pid))
    families.add("lease_bytes", about, share.lease)


def _turns(families: _Families, claim: ClaimRow) -> None:
    if not (claim.turns or claim.host or claim.swaps):  # it never gives way
        return
    about = {"lease": claim.id, "name": claim.name, "job": claim.job, "pid": str(claim.pid)}
    families.add("lease_parked_bytes", about, claim.host)
    families.add("lease_swaps_total", about, claim.swaps)
    families.add("lease_waited_seconds_total", about, claim.waited)


def _name_of(share: Share) -> str:
    """Return the program's name, without its arguments: they may contain secrets, and each new text is a new series."""
    return (share.command or "").partition(" ")[0].rpartition("/")[2]


def _dcgm(families: _Families, place: Place) -> None:
    number = place.gpu.partition(".")[0]
    labels = {
        "gpu": number,
        "UUID": place.uuid,
        "pci_bus_id": place.pci_bus_id,
        "device": f"nvidia{number}",
        "modelName": place.name,
        "hostname": socket.gethostname(),
    }
    for name, value in (("FREE", place.memory.free), ("USED", place.memory.used)):
        families.add(f"DCGM_FI_DEV_FB_{name}", labels, None if value is None else value // _MIB)
