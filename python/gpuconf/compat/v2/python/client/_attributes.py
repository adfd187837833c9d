"""The messages that ``list_local_devices`` returns."""

from __future__ import annotations

from ....v1._proto import Message, Repeated, Scalar, Sub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableSequence

_INT32, _INT64, _STRING = Scalar("int32"), Scalar("int64"), Scalar("string")


class InterconnectLink(Message):
    """A link to another device."""

    FIELDS = {"device_id": _INT32, "type": _STRING, "strength": _INT32}  # noqa: RUF012

    if TYPE_CHECKING:
        device_id: int
        type: str
        strength: int


class LocalLinks(Message):
    """The links of a device. gpuconf reports none."""

    FIELDS = {"link": Repeated(Sub(InterconnectLink))}  # noqa: RUF012

    if TYPE_CHECKING:
        link: MutableSequence[InterconnectLink]


class DeviceLocality(Message):
    """Where a device is: its NUMA node, and the number of its bus, which is one more."""

    FIELDS = {"bus_id": _INT32, "numa_node": _INT32, "links": Sub(LocalLinks)}  # noqa: RUF012

    if TYPE_CHECKING:
        bus_id: int
        numa_node: int
        links: LocalLinks


class DeviceAttributes(Message):
    """A device of this process.

    ``name`` is such as ``"/device:GPU:0"``, ``device_type`` is ``"CPU"`` or ``"GPU"``, and ``memory_limit`` is in bytes.
    ``physical_device_desc`` names the GPU, its PCI bus id and its compute capability. ``incarnation`` is a random number, different
    in each list.
    """

    FIELDS = {  # noqa: RUF012
        "name": _STRING,
        "device_type": _STRING,
        "memory_limit": _INT64,
        "locality": Sub(DeviceLocality),
        "incarnation": _INT64,
        "physical_device_desc": _STRING,
        "xla_global_id": _INT64,
    }

    if TYPE_CHECKING:
        name: str
        device_type: str
        memory_limit: int
        locality: DeviceLocality
        incarnation: int
        physical_device_desc: str
        xla_global_id: int
