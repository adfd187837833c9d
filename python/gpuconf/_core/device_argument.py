# SPDX-License-Identifier: Apache-2.0
"""Resolution of ``device`` arguments: a string, a DeviceSpec, a LogicalDevice, or a GPU that is exactly one logical
GPU.
"""

from __future__ import annotations

from .. import errors
from . import runtime, texts
from .device_spec import DeviceSpec
from .devices import LogicalDevice, PhysicalDevice, VisibleDevice

_PHYSICAL = "/physical_device:GPU:"  # as in the limits of gpuconf.configure's result

Device = str | DeviceSpec | LogicalDevice | PhysicalDevice | VisibleDevice


def text_of(device: object) -> str:
    """Return the string that names the device. The runtime must be initialized.

    Raises InvalidTypeError for an object of another type, and InvalidArgumentError for a string that cannot be passed
    to the core or a GPU that is not exactly one logical GPU.
    """
    if isinstance(device, LogicalDevice):
        device = device.name
    elif isinstance(device, (PhysicalDevice, VisibleDevice)):
        return _only_logical_gpu(device)
    elif isinstance(device, str) and device.startswith(_PHYSICAL):
        return _only_logical_gpu(PhysicalDevice(device, "GPU"))
    return texts.device_text(device)


def _only_logical_gpu(device: PhysicalDevice | VisibleDevice) -> str:
    runtime.logical_devices("device")
    kind, name = type(device).__name__, _name_of(device)
    if name is None:
        raise errors.InvalidArgumentError(f"{texts.shown(device)} is not a GPU of this process. {_there()}")
    ordinal = int(name.rpartition(":")[2])
    numbers = [number for number, at in enumerate(runtime.ordinals()) if at == ordinal]
    if len(numbers) != 1:
        split = ", ".join(f"GPU:{number}" for number in numbers)
        what = f"is split into {len(numbers)} logical GPUs ({split}); name one of them" if numbers else "is not visible"
        raise errors.InvalidArgumentError(f"the {kind} {name!r} {what}. {_there()}")
    return runtime.logical_gpu(numbers[0]).name


def _name_of(device: PhysicalDevice | VisibleDevice) -> str | None:
    """Return the name in the list of physical devices, or None if it is not a GPU there: a CPU, or a device of another
    machine.
    """
    name = device.name if isinstance(device, PhysicalDevice) else device.physical_device
    position, _ = runtime.position((name, "GPU"))
    if position < 0 or (isinstance(device, PhysicalDevice) and device.device_type != "GPU"):
        return None
    details = runtime.details(position)
    if isinstance(device, VisibleDevice) and details is not None and details.uuid != device.uuid:
        return None  # a GPU of an earlier simulation, at the same position
    return name


def _there() -> str:
    gpus = ", ".join(f"GPU:{number}" for number in range(len(runtime.ordinals())))
    return f"The logical GPUs are {gpus}" if gpus else "There is no logical GPU"
