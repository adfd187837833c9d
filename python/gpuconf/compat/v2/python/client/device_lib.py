# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.client.device_lib``: the devices of this process."""

from __future__ import annotations

from ....._core import runtime
from ....._core.built_in_errors import raise_built_in
from ....._core.devices import VisibleDevice
from .....machine.cards import visible_devices
from ....v1._config_proto import ConfigProto
from ....v1._device_attributes import DeviceAttributes as SessionDevice
from ....v1._graph import Graph
from ....v1._session import Session
from ._attributes import DeviceAttributes, DeviceLocality, LocalLinks

__all__ = ["list_local_devices"]


def list_local_devices(session_config: ConfigProto | None = None) -> list[DeviceAttributes]:
    """Return the logical devices of this process, the CPU first, as messages.

    Makes the GPUs ready as a ``compat.v1.Session`` with this ConfigProto does, and raises the same errors. Settings of
    ``gpuconf.config`` apply where the ConfigProto does not set them.

    >>> from gpuconf.compat.v2.python.client import device_lib
    >>> [(d.name, d.memory_limit) for d in device_lib.list_local_devices() if d.device_type == "GPU"]
    [('/device:GPU:0', 84011909120), ('/device:GPU:1', 84011909120)]
    """
    with runtime.unchanged():  # no reset comes between the session and the cards
        session = Session(graph=Graph(), config=ConfigProto() if session_config is None else session_config)
        try:
            rows = session.list_devices()
        finally:
            session.close()
        cards = visible_devices() if any(row.device_type == "GPU" for row in rows) else []
        return [_attributes(row, cards) for row in rows]


def _attributes(row: SessionDevice, cards: list[VisibleDevice]) -> DeviceAttributes:
    name = row.name[row.name.index("/device:") :]
    locality, description = DeviceLocality(), ""
    if row.device_type == "GPU":
        card = cards[runtime.ordinals()[int(name.rpartition(":")[2])]]
        node = _numa_node(card.pci_bus_id)
        locality = DeviceLocality(bus_id=node + 1, numa_node=node, links=LocalLinks())
        description = (
            f"device: {card.cuda_ordinal}, name: {card.name}, pci bus id: {card.pci_bus_id}, "
            f"compute capability: {'.'.join(map(str, card.compute_capability))}"
        )
    return DeviceAttributes(
        name=name,
        device_type=row.device_type,
        memory_limit=row.memory_limit_bytes,
        locality=locality,
        incarnation=row.incarnation & (1 << 64) - 1,
        physical_device_desc=description,
        xla_global_id=-1,
    )


def _numa_node(pci_bus_id: str) -> int:
    """Return the NUMA node of a PCI device, or 0 if it is not known."""
    if runtime.simulated():
        return 0
    try:
        with open(f"/sys/bus/pci/devices/{pci_bus_id.lower()}/numa_node", encoding="ascii") as file:
            return max(int(file.read()), 0)
    except (OSError, ValueError):
        return 0


raise_built_in(__name__, __all__, everything=True)


def __dir__() -> list[str]:
    return __all__
