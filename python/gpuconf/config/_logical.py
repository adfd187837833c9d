# SPDX-License-Identifier: Apache-2.0
"""Logical devices: partitions of a physical device, each with a hard memory limit."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

from .._core import notices, runtime, texts
from .._core.devices import LogicalDeviceConfiguration, PhysicalDevice, exact_limit
from .._core.message import dumps
from .._core.native import core
from .._typing import Any
from . import _arguments

# The objects that were set, by position. The getter returns the same objects.
_objects: dict[int, Any] = {}
runtime.on_forget(_objects.clear)


def get_logical_device_configuration(device: PhysicalDevice) -> Any:
    """Return the configurations set with ``set_logical_device_configuration``, or ``None``.

    Raises ValueError for an unknown device.
    """
    position, text = runtime.position(device)
    return _objects.get(position) if core.pybind_LogicalConfigured(position, text) else None


def set_logical_device_configuration(
    device: PhysicalDevice, logical_devices: Sequence[LogicalDeviceConfiguration]
) -> None:
    """Split a physical device into logical devices, one for each LogicalDeviceConfiguration in the list.

    A GPU configuration requires ``memory_limit``, a hard limit in MiB; a CPU configuration must not have one. The
    values are copied: later changes to the list have no effect.

    Raises ValueError for an unknown device, a missing or forbidden field, or a limit that is negative, infinite or NaN;
    TypeError for a field that is not a number or a ``logical_devices`` that is not iterable; AttributeError, as
    TensorFlow does, for an entry that is not a configuration; RuntimeError if the runtime is initialized and the
    configuration would change.
    """
    position, text = runtime.position(device)
    if position >= 0:
        device.device_type  # noqa: B018 - a plain tuple can equal a device; this raises AttributeError
    try:
        sent = _canonical(logical_devices)
    except Exception:
        _complain_of_the_device_first(device, position, text, logical_devices)
        raise
    if position in _objects and tuple is not _kind(_objects[position]) is not _kind(logical_devices) is not tuple:
        # A set never equals a list. Go distinguishes only lists from tuples, so a tuple stands for the different value
        # here.
        core.pybind_SetLogicalConfiguration(position, text, sent.replace('"tuple": false', '"tuple": true', 1))
        _objects.pop(position, None)
    core.pybind_SetLogicalConfiguration(position, text, sent)
    if position not in _objects or not _means(_objects[position], sent):
        _objects[position] = logical_devices
    runtime.configured()
    _warn_of_no_memory(device, logical_devices)


def _warn_of_no_memory(device: PhysicalDevice, configurations: Any) -> None:
    """Log limits that TensorFlow rounds to nothing: they look like a part of the GPU or a number of GiB."""
    for one in configurations:
        limit = float(one.memory_limit or 0)
        if 0 < limit < 1:
            meant = f"gpuconf.configure(limit='{limit * 100:g}%'), or for {limit:g} GiB memory_limit={limit * 1024:g}"
            text = f"memory_limit={limit:g} on {device.name} is less than 1 MiB, so the logical device has no memory"
            notices.log("warning", f"{text}: memory_limit is a number of MiB. Did you mean {meant}?")


def show(position: int, configurations: Any) -> None:
    """Make the getter return ``configurations``, which the core has configured on its own."""
    _objects[position] = configurations


def _complain_of_the_device_first(device: PhysicalDevice, position: int, text: str, configurations: Any) -> None:
    """Raise errors that do not depend on the field values: an unknown device, a CPU with a limit, a GPU without one."""
    core.pybind_LogicalConfigured(position, text)
    read: list[tuple[Any, Any, Any]] = []
    with contextlib.suppress(Exception):
        read.extend(
            (one.memory_limit, one.experimental_priority, one.experimental_device_ordinal) for one in configurations
        )
    cpu = device.device_type == "CPU"
    if any(any(field is not None for field in fields) if cpu else fields[0] is None for fields in read):
        items = [[None if field is None else 0 for field in fields] for fields in read]
        core.pybind_SetLogicalConfiguration(position, text, dumps({"tuple": False, "items": items}))


def _kind(configurations: Any) -> type:
    return next((kind for kind in (list, tuple) if isinstance(configurations, kind)), type(configurations))


def _means(configurations: Any, sent: str) -> bool:
    """Whether a list still has the value that was sent. The caller may have changed it since."""
    try:
        return _canonical(configurations) == sent
    except Exception:
        return False


def set_virtual_device_configuration(
    device: PhysicalDevice, virtual_devices: Any = ..., *, logical_devices: Any = ...
) -> None:
    """The old name of ``set_logical_device_configuration``. Accepts either name for the second argument."""
    if (virtual_devices is ...) == (logical_devices is ...):
        raise TypeError("set_virtual_device_configuration() takes exactly one of virtual_devices and logical_devices")
    set_logical_device_configuration(device, logical_devices if virtual_devices is ... else virtual_devices)


def _fields(one: Any, configurations: Any) -> tuple[Any, Any, Any]:
    try:
        return one.memory_limit, one.experimental_priority, one.experimental_device_ordinal
    except AttributeError as error:
        limit = one if isinstance(one, (int, float)) else "..."
        remedy = f"LogicalDeviceConfiguration(memory_limit={limit})"
        if isinstance(configurations, LogicalDeviceConfiguration):  # a tuple itself
            remedy = f"a list, [{remedy}]"
        raise AttributeError(f"{error}; use {remedy}") from None


def _canonical(configurations: Any) -> str:
    """A configuration list as JSON for Go. Distinguishes a list from a tuple, as TensorFlow's comparison does."""
    if not hasattr(configurations, "__len__"):
        try:
            iter(configurations)
        except TypeError as error:
            limit = configurations if isinstance(configurations, (int, float)) else "..."
            raise TypeError(f"{error}; use a list, [LogicalDeviceConfiguration(memory_limit={limit})]") from None
        raise TypeError(
            f"logical_devices must be a list, but got {type(configurations).__name__}: {texts.shown(configurations)}"
        )
    items = [
        [
            _limit(one, limit),
            _arguments.integer("experimental_priority", priority),
            _arguments.integer("experimental_device_ordinal", ordinal),
        ]
        for one in configurations
        for limit, priority, ordinal in [_fields(one, configurations)]
    ]
    return dumps({"tuple": isinstance(configurations, tuple), "items": items})


def _limit(configuration: Any, memory_limit: Any) -> float | str | None:
    """A limit for JSON: a number of MiB, or the text of a number of bytes."""
    exact = exact_limit(configuration)
    return _number("memory_limit", memory_limit) if exact is None else f"{exact} bytes"


def _number(field: str, value: Any) -> float | str | None:
    """A limit for JSON: a float, or a string for infinity and NaN, which JSON lacks."""
    if value is None:
        return None
    try:
        number = float(value) if not isinstance(value, (str, bytes)) else None
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, OverflowError):
            return "inf" if value > 0 else "-inf"
        number = None
    if number is None:
        raise TypeError(f"{field} must be a number of MiB, but got {type(value).__name__}: {texts.shown(value)}")
    return number if math.isfinite(number) else str(number)
