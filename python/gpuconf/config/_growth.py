"""Memory growth: whether a GPU's pool takes its whole limit at once or grows as needed."""

from __future__ import annotations

from .. import errors
from .._core import runtime
from .._core.devices import PhysicalDevice
from .._core.native import core
from .._typing import Any

_UNSET = -(2**63)  # what the core says for "never set"

# What the core was told and the caller's own value, by position: True and 1 are one setting, but the getter gives back what
# was set.
_values: dict[int, tuple[int, bool | int]] = {}
runtime.on_forget(_values.clear)


class _NoGrowthError(errors.NotFoundError, KeyError):
    """KeyError for a device that can't grow, as TensorFlow raises it."""


def get_memory_growth(device: PhysicalDevice) -> Any:
    """Tell whether memory growth is on for a GPU; ``None`` if it was never set.

    Raises ValueError for an unknown device and KeyError for one that is no GPU.
    """
    position, text = runtime.position(device)
    try:
        value = core.pybind_MemoryGrowth(position, text)
    except errors.NotFoundError:
        raise _NoGrowthError(device) from None
    if value == _UNSET:
        return None
    _, own = _values.get(position, (value, bool(value)))
    return own


def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """Let a GPU's pool grow as needed instead of taking its whole limit at the first allocation.

    Memory that a pool has taken stays with it. Growth can't be set for a GPU with logical devices configured, and must
    be the same for all visible GPUs, which is checked when the runtime is initialised.

    Raises ValueError for an unknown device, a device with logical devices configured, or one that is no GPU; TypeError
    for a value that is neither bool nor int; RuntimeError where the runtime is initialised and the value would change.
    """
    position, text = runtime.position(device)
    if position >= 0 and not isinstance(device, PhysicalDevice) and not core.pybind_LogicalConfigured(position, text):
        device.device_type  # noqa: B018 - a plain tuple can equal a device, and is none
    bad = "" if isinstance(enable, int) else type(enable).__name__
    number = 0 if bad else int(enable)
    if not -(2**63) < number < 2**63:
        bad, number = "int with more than 64 bits", 0
    core.pybind_SetMemoryGrowth(position, text, number, bad)
    # The numbers are compared, not the values: what a class of the caller's makes of == comes too late to fail.
    if position not in _values or _values[position][0] != number:
        _values[position] = number, enable
