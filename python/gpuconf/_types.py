"""The value types of ``tf.config``: plain tuples with names, equal when their fields are."""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class PhysicalDevice(namedtuple("PhysicalDevice", ["name", "device_type"])):
    """A device of the machine, as ``list_physical_devices`` names it.

    A device built by hand is as good as a listed one:

    >>> PhysicalDevice("/physical_device:GPU:0", "GPU")
    PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')
    """

    __slots__ = ()

    name: str
    device_type: str


class LogicalDevice(namedtuple("LogicalDevice", ["name", "device_type"])):
    """A device that memory and operations can be put on, as ``list_logical_devices`` names it.

    >>> LogicalDevice("/device:GPU:0", "GPU").name
    '/device:GPU:0'
    """

    __slots__ = ()

    name: str
    device_type: str


class LogicalDeviceConfiguration(
    namedtuple(
        "LogicalDeviceConfiguration",
        ["memory_limit", "experimental_priority", "experimental_device_ordinal"],
        defaults=[None, None, None],
    )
):
    """What one logical device shall be; for ``set_logical_device_configuration``.

    ``memory_limit`` is in MiB and a hard limit; a fraction is cut off. ``experimental_priority`` is a CUDA stream priority
    (numerically low is urgent). ``experimental_device_ordinal`` orders the logical devices. Nothing is
    checked here.

    >>> LogicalDeviceConfiguration(memory_limit=5)
    LogicalDeviceConfiguration(memory_limit=5, experimental_priority=None, experimental_device_ordinal=None)
    """

    __slots__ = ()

    memory_limit: Any
    experimental_priority: Any
    experimental_device_ordinal: Any
