"""``tensorflow.python.client.device_lib``: the devices of this process."""

from __future__ import annotations

from ....._core import runtime
from ....._core.devices import VisibleDevice
from .....machine.visible import visible_devices
from ....v1._config_proto import ConfigProto
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
    session = Session(graph=Graph(), config=session_config)
    try:
        rows = session.list_devices()
    finally:
        session.close()
    ordinals = list(runtime.ordinals())
    cards = visible_devices() if any(row.device_type == "GPU" for row in rows) else []
    listed = []
    for row in rows:
        name = row.name[row.name.index("/device:") :]
        listed.append(
            DeviceAttributes(
                name=name,
                device_type=row.device_type,
                memory_limit=row.memory_limit_bytes,
                locality=DeviceLocality(),
                incarnation=row.incarnation & (1 << 63) - 1,
                xla_global_id=-1,
            )
        )
        if row.device_type == "GPU":
            _describe(listed[-1], cards[ordinals[int(name.rpartition(":")[2])]])
    return listed


def _describe(device: DeviceAttributes, card: VisibleDevice) -> None:
    """Add what is known of the card of a logical GPU."""
    node = _numa_node(card.pci_bus_id)
    device.locality.bus_id, device.locality.numa_node = node + 1, node
    device.locality.links.CopyFrom(LocalLinks())
    device.locality.MergeFrom(DeviceLocality(links=LocalLinks()))
    major, minor = card.compute_capability
    device.physical_device_desc = (
        f"device: {card.cuda_ordinal}, name: {card.name}, pci bus id: {card.pci_bus_id}, compute capability: {major}.{minor}"
    )


def _numa_node(pci_bus_id: str) -> int:
    """Return the NUMA node of a PCI device, 0 if the system does not tell one."""
    if runtime.simulated():
        return 0
    try:
        with open(f"/sys/bus/pci/devices/{pci_bus_id.lower()}/numa_node", encoding="ascii") as file:
            return max(int(file.read()), 0)
    except (OSError, ValueError):
        return 0


def __dir__() -> list[str]:
    return __all__
