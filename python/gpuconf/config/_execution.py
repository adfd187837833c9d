# SPDX-License-Identifier: Apache-2.0
"""The switches of operations: soft placement, the policy for inputs on another device, and how operations run."""

from __future__ import annotations

import operator

from .. import errors
from .._core import runtime, texts
from .._core.message import dumps, loads
from .._core.native import core
from .._typing import Any

# Settings whose getters do not depend on anything else. The others evaluate the whole configuration, which lists the
# devices.
_QUIET = ("device_policy", "synchronous_execution")


def get(name: str) -> Any:
    """Return the value of a setting. Some getters evaluate the whole configuration and raise if it is invalid."""
    if name not in _QUIET:
        runtime.physical_devices()
    text = core.pybind_Setting(name)
    return loads(text)


def put(name: str, value: Any) -> None:
    """Change a setting. None restores the default. Does not list devices: the environment may still select them."""
    set_setting = core.pybind_SetSetting
    set_setting(name, dumps(value))


# Switches for TensorFlow's kernels and compiler. They store a value, do nothing, or raise UnimplementedError.

_tensor_float_32 = True
_deterministic = False


@runtime.on_forget
def _forget_switches() -> None:
    global _tensor_float_32, _deterministic
    _tensor_float_32, _deterministic = True, False


def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Store whether TensorFloat-32 may be used. Has no effect: gpuconf always computes in full precision.

    Raises TypeError for what has no truth value of its own, such as a list or a str, as TensorFlow's native code does.
    """
    global _tensor_float_32
    try:
        wanted = bool(enabled) if hasattr(type(enabled), "__bool__") else None
    except ValueError:  # of an array
        wanted = None
    if wanted is None:
        raise errors.InvalidTypeError(
            "enable(): incompatible function arguments. The following argument types are supported: (arg0: bool) -> "
            f"None. Invoked with: {texts.bounded_repr(enabled)}"
        )
    _tensor_float_32 = wanted


def tensor_float_32_execution_enabled() -> bool:
    """Return the value that ``enable_tensor_float_32_execution`` set, by default ``True``.

    >>> tensor_float_32_execution_enabled()
    True
    """
    return _tensor_float_32


def enable_op_determinism() -> None:
    """Let random numbers need a seed. gpuconf's operations are always deterministic."""
    global _deterministic
    _deterministic = True


def disable_op_determinism() -> None:
    """Let random numbers need no seed again."""
    global _deterministic
    _deterministic = False


def is_op_determinism_enabled() -> bool:
    """Return whether ``enable_op_determinism`` was called."""
    return _deterministic


def enable_mlir_bridge() -> None:
    """Not available: raises UnimplementedError."""
    raise errors.UnimplementedError("enable_mlir_bridge controls TensorFlow's TPU compiler; gpuconf has no compiler")


def disable_mlir_bridge() -> None:
    """Not available: raises UnimplementedError."""
    raise errors.UnimplementedError("disable_mlir_bridge controls TensorFlow's TPU compiler; gpuconf has no compiler")


_eagerly = False


def get_soft_device_placement() -> bool:
    """Return whether soft placement is enabled, by default ``True``.

    Raises ValueError for an inconsistent configuration.
    """
    return bool(get("soft_device_placement"))


def set_soft_device_placement(enabled: bool | None) -> None:
    """Enable or disable soft placement, at any time.

    ``None`` restores the default. Raises TypeError for a non-bool value.
    """
    put("soft_device_placement", switch("enabled", enabled))


def get_device_policy() -> str:
    """Return the policy for inputs on another device, by default ``'silent'``.

    >>> get_device_policy()
    'silent'
    """
    return str(get("device_policy"))


def set_device_policy(device_policy: str | None) -> None:
    """Set the policy: ``'silent'``, ``'silent_for_int32'``, ``'warn'`` or ``'explicit'``. ``None`` means ``'silent'``.

    Raises ValueError for anything else.
    """
    if device_policy is None:
        put("device_policy", None)
        return
    name = device_policy if isinstance(device_policy, str) else ""
    put("device_policy", {"name": name, "repr": repr(device_policy)})


def get_synchronous_execution() -> bool:
    """Return whether operations run synchronously, by default ``True``."""
    return bool(get("synchronous_execution"))


def set_synchronous_execution(enable: bool | None) -> None:
    """Store whether operations run synchronously.

    ``None`` restores the default. Has no effect: gpuconf always waits.
    """
    put("synchronous_execution", None if enable is None else bool(enable))


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Store the switch. Has no effect: gpuconf has no traced functions and always runs eagerly."""
    global _eagerly
    _eagerly = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Return the value that ``run_functions_eagerly`` set, by default ``False``.

    >>> functions_run_eagerly()
    False
    """
    return _eagerly


experimental_run_functions_eagerly = run_functions_eagerly
experimental_functions_run_eagerly = functions_run_eagerly


# Validates arguments as protobuf does. TensorFlow fails when the runtime starts; gpuconf raises at once.


def integer(what: str, value: Any) -> int | None:
    """Return a 32-bit integer, or None. Rejects bool; accepts integers of other libraries."""
    if value is None:
        return None
    number = _index(value)
    if number is None or isinstance(value, bool):
        raise TypeError(f"{what} must be an integer, but got {texts.given(value)}")
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{what} must fit in 32 bits, but got {value}")
    return number


def switch(what: str, value: Any) -> bool | None:
    """Return a bool, or None. An integer of 64 bits counts as a bool."""
    if value is None:
        return None
    number = _index(value)
    if number is None or not -(2**63) <= number < 2**63:
        raise TypeError(f"{what} must be True or False, but got {texts.given(value)}")
    return number != 0


def _index(value: Any) -> int | None:
    try:
        return operator.index(value)
    except TypeError:
        return None
