# SPDX-License-Identifier: Apache-2.0
"""The messages that ``list_local_devices`` returns."""

from __future__ import annotations

from ...._proto.message import Message, define
from ...._proto.table import DEVICE_ATTRIBUTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableSequence


class InterconnectLink(Message):
    """A link to another device."""

    __slots__ = ()

    if TYPE_CHECKING:
        device_id: int
        type: str
        strength: int


class LocalLinks(Message):
    """The links of a device. gpuconf reports none."""

    __slots__ = ()

    if TYPE_CHECKING:
        link: MutableSequence[InterconnectLink]


class DeviceLocality(Message):
    """Where a device is: its NUMA node, and the number of its bus, which is one more."""

    __slots__ = ()

    if TYPE_CHECKING:
        bus_id: int
        numa_node: int
        links: LocalLinks


class DeviceAttributes(Message):
    """A device of this process.

    ``name`` is such as ``"/device:GPU:0"``, ``device_type`` is ``"CPU"`` or ``"GPU"``, and ``memory_limit`` is in
    bytes. ``physical_device_desc`` names the GPU, its PCI bus id and its compute capability. ``incarnation`` is a
    random number, different in each list.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        name: str
        device_type: str
        memory_limit: int
        locality: DeviceLocality
        incarnation: int
        physical_device_desc: str
        xla_global_id: int


define(
    DEVICE_ATTRIBUTES,
    {},
    {each.__name__: each for each in (InterconnectLink, LocalLinks, DeviceLocality, DeviceAttributes)},
)
