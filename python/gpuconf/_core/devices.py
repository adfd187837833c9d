"""The value types of ``tf.config``: plain tuples with names, equal when their fields are."""

from __future__ import annotations

from collections import namedtuple

from .table import Table


class PhysicalDevice(namedtuple("PhysicalDevice", ["name", "device_type"])):
    """A device of the machine, as ``list_physical_devices`` names it.

    A device built by hand is as good as a listed one:

    >>> PhysicalDevice("/physical_device:GPU:0", "GPU")
    PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')
    """

    __slots__ = ()

    name: str
    device_type: str

    def __new__(cls, name: str, device_type: str) -> PhysicalDevice:
        return super().__new__(cls, name, device_type)


class LogicalDevice(namedtuple("LogicalDevice", ["name", "device_type"])):
    """A device that memory and operations can be put on, as ``list_logical_devices`` names it.

    >>> LogicalDevice("/device:GPU:0", "GPU").name
    '/device:GPU:0'
    """

    __slots__ = ()

    name: str
    device_type: str

    def __new__(cls, name: str, device_type: str) -> LogicalDevice:
        return super().__new__(cls, name, device_type)


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

    memory_limit: float | None
    experimental_priority: int | None
    experimental_device_ordinal: int | None

    def __new__(
        cls,
        memory_limit: float | None = None,
        experimental_priority: int | None = None,
        experimental_device_ordinal: int | None = None,
    ) -> LogicalDeviceConfiguration:
        return super().__new__(cls, memory_limit, experimental_priority, experimental_device_ordinal)


class VisibleDevice(
    Table,
    namedtuple(
        "VisibleDevice",
        ["cuda_ordinal", "physical_device", "name", "uuid", "pci_bus_id", "nvml_index", "compute_capability", "total_memory"],
    ),
):
    """One GPU, by every name it has."""

    __slots__ = ()

    cuda_ordinal: int  # what CUDA and PyTorch call it, after CUDA_VISIBLE_DEVICES
    physical_device: str | None  # its name in list_physical_devices(); None where it is too weak to be there
    name: str
    uuid: str  # "GPU-...", or "MIG-..." for a MIG instance; good in CUDA_VISIBLE_DEVICES
    pci_bus_id: str
    nvml_index: int | None  # what nvidia-smi calls it; None where NVML doesn't tell, as for simulated GPUs
    compute_capability: tuple[int, int]
    total_memory: int  # bytes
