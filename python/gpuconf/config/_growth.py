# SPDX-License-Identifier: Apache-2.0
"""Memory growth: whether a GPU's pool reserves its whole limit at once or grows as needed."""

from __future__ import annotations

from .. import errors
from .._core import runtime
from .._core.devices import PhysicalDevice
from .._core.native import core
from .._typing import Any

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
