# SPDX-License-Identifier: Apache-2.0
"""Physical and logical devices, and which of them are visible."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence

from .. import errors
from .._core import message, runtime, texts
from .._core.built_in_errors import raising_built_in
from .._core.devices import LogicalDevice, LogicalDeviceConfiguration, PhysicalDevice, exact_limit
from .._core.message import dumps, loads, log
from .._core.native import core, refuse_in_child
from .._typing import Any
from . import _execution


def _of_type(devices: list[Any], device_type: str | None) -> list[Any]:
    """Return the devices of a type, all for None. Warns of ``'gpu'`` and ``'GPU:0'``, which match no device in
    TensorFlow either.
    """
    meant = device_type.partition(":")[0].upper() if isinstance(device_type, str) else None
    if isinstance(device_type, str) and meant in ("GPU", "CPU") and meant != device_type:
        import warnings

        rule = "have no number" if device_type.isupper() else "are case-sensitive"
        text = f"device types {rule}, and {device_type!r} matches no device. Did you mean {meant!r}?"
        warnings.warn(text, stacklevel=4)  # the public function is wrapped
    return [d for d in devices if device_type is None or d.device_type == device_type]


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Return the physical devices: the CPU, then the GPUs that this process can see.

    Does not initialize the runtime or create a CUDA context. ``CUDA_VISIBLE_DEVICES`` selects the GPUs, which are
    numbered from 0. ``device_type`` is case-sensitive: ``'gpu'`` matches no device.

    >>> [d.name for d in list_physical_devices("GPU")]
    ['/physical_device:GPU:0', '/physical_device:GPU:1']
    """
    return _of_type(runtime.physical_devices(), device_type)


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """Return the logical devices, which hold memory and run operations. Initializes the runtime.

    An inconsistent configuration raises before any memory is reserved: ``ValueError`` if memory growth differs
    between GPUs, ``NotFoundError`` if no CPU is visible, and so on.

    >>> [d.name for d in list_logical_devices()]
    ['/device:CPU:0', '/device:GPU:0', '/device:GPU:1']
    """
    return _of_type(runtime.logical_devices("list_logical_devices"), device_type)


def experimental_list_devices() -> list[str]:
    """Return the full names of the logical devices. Initializes the runtime. A name of TensorFlow 2.0 to 2.2.

    >>> experimental_list_devices()[-1]
    '/job:localhost/replica:0/task:0/device:GPU:1'
    """
    return [runtime.full_name(d.name) for d in runtime.logical_devices("experimental_list_devices")]


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Return the physical devices that the runtime uses, in the order in which they were set."""
    physical = runtime.physical_devices()
    return _of_type([physical[position] for position in loads(core.pybind_VisibleDevices())], device_type)


def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Set the physical devices that the runtime may use.

    ``devices`` is a device or a list of devices. With ``device_type``, only devices of that type are replaced. Without
    it, all are, including the CPU; a runtime without a CPU cannot be initialized.

    Raises ValueError for a device that is unknown or not of ``device_type``, and RuntimeError if the runtime is
    initialized and the list would change.
    """
    chosen: Sequence[Any] = devices if isinstance(devices, list) else [devices]
    runtime.physical_devices()
    references = [runtime.position(device) for device in chosen]
    if device_type is not None:
        _look_at_types(chosen, references, device_type)
    # As in TensorFlow, which compares with ==, a device_type that is not a string matches no device.
    wanted = device_type if isinstance(device_type, str) else repr(device_type)
    core.pybind_SetVisibleDevices(dumps(references), texts.check_text("device_type", wanted), device_type is not None)
    runtime.configured()


def _look_at_types(devices: Sequence[Any], references: list[tuple[int, str]], device_type: object) -> None:
    """Raise AttributeError if the first invalid entry is a plain tuple that equals a device."""
    for device, (position, _) in zip(devices, references, strict=True):
        if position < 0 or device.device_type != device_type:
            return


def get_device_details(device: PhysicalDevice) -> dict[str, Any]:
    """Return ``device_name`` and ``compute_capability``, such as ``(9, 0)``, of a physical GPU.

    Returns ``{}`` for the CPU.

    Raises ValueError if ``device`` is not a PhysicalDevice, or not one that ``list_physical_devices`` returned.
    """
    refuse_in_child()
    if not isinstance(device, PhysicalDevice):
        raise ValueError(f"device must be a tf.config.PhysicalDevice, but got: {device}")
    if not runtime.enumerated() or runtime.position(device)[0] < 0:
        raise ValueError(
            f"The PhysicalDevice must be one obtained from calling `tf.config.list_physical_devices`, but got: {device}"
        )
    details = runtime.details(runtime.position(device)[0])
    if details is None:
        return {}
    return {"compute_capability": (details.major, details.minor), "device_name": details.device_name}


# Memory growth: whether a GPU's pool reserves its whole limit at once or grows as needed.

_UNSET = -(2**63)  # the core's value for "never set"

# The number passed to the core and the caller's own value, by position. True and 1 are the same setting, but the getter
# returns the value that was set.
_values: dict[int, tuple[int, bool | int]] = {}
runtime.on_forget(_values.clear)


def get_memory_growth(device: PhysicalDevice) -> Any:
    """Return whether memory growth is enabled for a GPU, or ``None`` if it was never set.

    Raises ValueError for an unknown device and KeyError for a device that is not a GPU.
    """
    growth = growth_as_set(device)
    configured = runtime.current.overrides.get("GPUCONF_GROWTH")
    if configured is not None and (growth is not None or core.pybind_LogicalConfigured(*runtime.position(device))):
        return configured == "true"
    return growth


def growth_as_set(device: PhysicalDevice) -> Any:
    """Return what set_memory_growth has set. gpuconf.configure takes precedence, also on a GPU with a limit."""
    position, text = runtime.position(device)
    try:
        value = core.pybind_MemoryGrowth(position, text)
    except errors.NotFoundError:
        raise KeyError(device) from None
    if value == _UNSET:
        return None
    _, own = _values.get(position, (value, bool(value)))
    return own


def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """Let a GPU's pool grow as needed instead of reserving its whole limit at the first allocation.

    A pool keeps the memory that it has reserved. Growth cannot be set for a GPU that has logical devices configured. It
    must be the same for all visible GPUs, which is checked when the runtime is initialized.

    Raises ValueError for an unknown device, a device with logical devices configured, or a device that is not a GPU;
    TypeError if ``enable`` is neither a bool nor an int; RuntimeError if the runtime is initialized and the value would
    change.
    """
    position, text = runtime.position(device)
    if position >= 0 and not isinstance(device, PhysicalDevice) and not core.pybind_LogicalConfigured(position, text):
        device.device_type  # noqa: B018 - a plain tuple can equal a device; this raises AttributeError
    bad = "" if isinstance(enable, int) else type(enable).__name__
    number = 0 if bad else int(enable)
    if not -(2**63) < number < 2**63:
        bad, number = "int with more than 64 bits", 0
    core.pybind_SetMemoryGrowth(position, text, number, bad)
    # Compare the numbers, not the values: a caller's __eq__ could raise, and the setting is already made.
    if position not in _values or _values[position][0] != number:
        _values[position] = number, enable
    runtime.configured()


# Current and peak memory use of a logical device.


def _ask(question: Callable[[str], Any], device: str) -> Any:
    """Check that ``device`` is a string, and ask the core.

    All errors have Python's classes, as those of TensorFlow's binding.
    """
    text = device if type(device) is str and device.isascii() and "\0" not in device else texts.device_text(device)
    return question(text)


_ask = raising_built_in(_ask, everything=True)


def get_memory_info(device: str) -> dict[str, int]:
    """Return the current and peak memory use of a logical GPU in bytes: ``{'current': ..., 'peak': ...}``.

    Counts allocated blocks, in multiples of 256 bytes, not the memory that the pool has reserved. Initializes the
    runtime. ``device`` is a string such as ``'GPU:0'``, ``'/gpu:0'`` or ``'/device:GPU:0'``. It is case-sensitive.

    Raises ValueError for a name that is malformed (``'GPU'``), matches no device or more than one, or names a CPU.

    >>> get_memory_info("GPU:0")
    {'current': 0, 'peak': 0}
    """
    runtime.logical_devices("get_memory_info")  # before the device is looked at, as in TensorFlow
    current, _, peak = _ask(core.pybind_MemoryInfo, device).partition(" ")
    return {"current": int(current), "peak": int(peak)}


def get_memory_usage(device: str) -> int:
    """Return the current memory use of a logical GPU in bytes.

    Deprecated: use ``get_memory_info(device)['current']``.
    """
    log("warning", "get_memory_usage is deprecated: use get_memory_info(device)['current']")
    runtime.logical_devices("get_memory_usage")  # first, so that later errors name this function
    return get_memory_info(device)["current"]


def reset_memory_stats(device: str) -> None:
    """Reset the peak memory use of a logical GPU to its current use. Raises as ``get_memory_info`` does."""
    runtime.logical_devices("reset_memory_stats")
    _ask(core.pybind_ResetMemoryStats, device)


# Logical devices: partitions of a physical device, each with a hard memory limit.

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
        core.pybind_SetLogicalConfiguration(position, text, sent.replace("false", "true", 1))
        _objects.pop(position, None)
    core.pybind_SetLogicalConfiguration(position, text, sent)
    if position not in _objects or not _means(_objects[position], sent):
        _objects[position] = logical_devices
    runtime.configured()
    _warn_of_no_memory(device, logical_devices)


def _warn_of_no_memory(device: PhysicalDevice, configurations: Any) -> None:
    """Log limits that TensorFlow rounds to nothing: they look like a part of the GPU or a number of GiB."""
    for configuration in configurations:
        limit = float(configuration.memory_limit or 0)
        if 0 < limit < 1:
            meant = f"gpuconf.configure(limit='{limit * 100:g}%'), or for {limit:g} GiB memory_limit={limit * 1024:g}"
            text = f"memory_limit={limit:g} on {device.name} is less than 1 MiB, so the logical device has no memory"
            message.log("warning", f"{text}: memory_limit is a number of MiB. Did you mean {meant}?")


def show(position: int, configurations: Any) -> None:
    """Make the getter return ``configurations``, which the core has configured on its own."""
    _objects[position] = configurations


def _complain_of_the_device_first(device: PhysicalDevice, position: int, text: str, configurations: Any) -> None:
    """Raise errors that do not depend on the field values: an unknown device, a CPU with a limit, a GPU without one."""
    core.pybind_LogicalConfigured(position, text)
    read: list[tuple[Any, Any, Any]] = []
    with contextlib.suppress(Exception):
        read.extend(
            (entry.memory_limit, entry.experimental_priority, entry.experimental_device_ordinal)
            for entry in configurations
        )
    cpu = device.device_type == "CPU"
    if any(any(field is not None for field in fields) if cpu else fields[0] is None for fields in read):
        items = [[None if field is None else 0 for field in fields] for fields in read]
        core.pybind_SetLogicalConfiguration(position, text, dumps((False, items)))


def _kind(configurations: Any) -> type:
    return next((kind for kind in (list, tuple) if isinstance(configurations, kind)), type(configurations))


def _means(configurations: Any, sent: str) -> bool:
    """Report whether a list still has the value that was sent. The caller may have changed it since."""
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


def _fields(entry: Any, configurations: Any) -> tuple[Any, Any, Any]:
    try:
        return entry.memory_limit, entry.experimental_priority, entry.experimental_device_ordinal
    except AttributeError as error:
        limit = entry if isinstance(entry, (int, float)) else "..."
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
        raise TypeError(f"logical_devices must be a list, but got {texts.given(configurations)}")
    items = [
        [
            _limit(configuration, limit),
            _execution.integer("experimental_priority", priority),
            _execution.integer("experimental_device_ordinal", ordinal),
        ]
        for configuration in configurations
        for limit, priority, ordinal in [_fields(configuration, configurations)]
    ]
    return dumps((isinstance(configurations, tuple), items))


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
        raise TypeError(f"{field} must be a number of MiB, but got {texts.given(value)}")
    return number if math.isfinite(number) else str(number)
