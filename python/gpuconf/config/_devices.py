# SPDX-License-Identifier: Apache-2.0
"""Physical and logical devices, and which of them are visible."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import runtime, texts
from .._core.devices import LogicalDevice, PhysicalDevice
from .._core.message import dumps
from .._core.native import core, refuse_in_child
from .._typing import Any


def _of_type(devices: list[Any], device_type: str | None) -> list[Any]:
    """Return the devices of a type, all for None. Warns of ``'gpu'``, which matches no device in TensorFlow either."""
    if isinstance(device_type, str) and device_type.upper() in ("GPU", "CPU") and not device_type.isupper():
        import warnings

        text = (
            f"device types are case-sensitive, and {device_type!r} matches no device. Did you mean "
            f"{device_type.upper()!r}?"
        )
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
    encoded = core.pybind_VisibleDevices()
    visible = [physical[int(i)] for i in encoded.split(",")] if encoded else []
    return _of_type(visible, device_type)


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
