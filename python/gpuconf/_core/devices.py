# SPDX-License-Identifier: Apache-2.0
"""The value types of ``tf.config``: plain named tuples, which are equal if their fields are equal."""

from __future__ import annotations

from collections.abc import Iterable

from .._typing import Any, NamedTuple
from . import html
from .generated import visible as wire


class _PhysicalDevice(NamedTuple):
    name: str
    device_type: str


class PhysicalDevice(html.InLists, _PhysicalDevice):
    """A physical device, as returned by ``list_physical_devices``.

    A device constructed by hand is equivalent to a listed one:

    >>> PhysicalDevice("/physical_device:GPU:0", "GPU")
    PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')
    """

    __module__ = "gpuconf.config"

    def _repr_html_(self) -> str:
        return html.shown(html.line(html.bold("PhysicalDevice"), html.code(self.name), self.device_type))


class _LogicalDevice(NamedTuple):
    name: str
    device_type: str


class LogicalDevice(html.InLists, _LogicalDevice):
    """A device for memory and operations, as returned by ``list_logical_devices``.

    >>> LogicalDevice("/device:GPU:0", "GPU").name
    '/device:GPU:0'
    """

    __module__ = "gpuconf.config"

    def _repr_html_(self) -> str:
        return html.shown(html.line(html.bold("LogicalDevice"), html.code(self.name), self.device_type))


class _LogicalDeviceConfiguration(NamedTuple):
    memory_limit: float | None = None
    experimental_priority: int | None = None
    experimental_device_ordinal: int | None = None


class LogicalDeviceConfiguration(_LogicalDeviceConfiguration):
    """The configuration of one logical device, for ``set_logical_device_configuration``.

    ``memory_limit`` is a hard limit in MiB, truncated to an integer. ``experimental_priority`` is a CUDA stream
    priority (lower numbers are higher priority). ``experimental_device_ordinal`` orders the logical devices. The
    constructor does not check the values.

    >>> LogicalDeviceConfiguration(memory_limit=5)
    LogicalDeviceConfiguration(memory_limit=5, experimental_priority=None, experimental_device_ordinal=None)
    """

    __module__ = "gpuconf.config"


class ConfiguredLimit(LogicalDeviceConfiguration):
    """A limit of ``configure``, which counts to the byte, where TensorFlow's call truncates ``memory_limit`` to whole
    MiB.
    """

    limit_bytes: int | None = None  # None in what _replace returns

    @classmethod
    def of(cls, limit_bytes: int) -> ConfiguredLimit:
        """Return the configuration of a logical device with a limit in bytes."""
        mib, rest = divmod(limit_bytes, 1 << 20)
        configuration = cls(mib + rest / (1 << 20) if rest else mib)
        configuration.limit_bytes = limit_bytes
        return configuration

    def __repr__(self) -> str:
        return repr(LogicalDeviceConfiguration(*self))


def exact_limit(configuration: Any) -> int | None:
    """Return the bytes of a limit that counts to the byte, None for one that TensorFlow's rule reads."""
    return configuration.limit_bytes if isinstance(configuration, ConfiguredLimit) else None


def limit_of(configuration: LogicalDeviceConfiguration) -> int:
    """Return the limit of a logical device in bytes, 0 for none."""
    if (exact := exact_limit(configuration)) is not None:
        return exact
    import struct

    (rounded,) = struct.unpack("f", struct.pack("f", configuration.memory_limit or 0))  # as TensorFlow's message has it
    return int(rounded) << 20


def memory_limit_of(configuration: LogicalDeviceConfiguration) -> float | None:
    """Return what TensorFlow is to have as ``memory_limit``, which it rounds: no more than the limit."""
    exact = exact_limit(configuration)
    return configuration.memory_limit if exact is None else exact >> 20


class VisibleDevice(html.InLists, wire.VisibleDevice):
    """One GPU, with all its names."""

    __module__ = "gpuconf"

    __slots__ = ()

    def _repr_html_(self) -> str:
        return html.shown(visible_table([self]))


def _memory(device: VisibleDevice) -> html.Html:
    kind = "" if device.memory_kind == "dedicated" else f" {device.memory_kind}"
    return html.Html(html.size(device.total_memory) + kind)


def visible_table(devices: Iterable[VisibleDevice]) -> html.Html:
    """Return GPUs as an HTML table, with the columns of ``gpuconf devices``."""
    rows = [
        (
            device.cuda_ordinal,
            device.name,
            _memory(device),
            ".".join(map(str, device.compute_capability)),
            html.code(device.pci_bus_id),
            "-" if device.nvml_index is None else device.nvml_index,
            html.code(device.uuid),
            html.code(device.physical_device) if device.physical_device else "ignored",
        )
        for device in devices
    ]
    return html.table(("CUDA", "name", "memory", "capability", "PCI bus", "NVML", "UUID", "device"), rows, left=8)
