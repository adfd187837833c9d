# SPDX-License-Identifier: Apache-2.0
"""How operations run: on another device than the requested one, with inputs on another device, synchronously, and
eagerly.
"""

from __future__ import annotations

from . import _arguments, _switch

_eagerly = False


def get_soft_device_placement() -> bool:
    """Return whether soft placement is enabled, by default ``True``.

    Raises ValueError for an inconsistent configuration.
    """
    return bool(_switch.get("soft_device_placement"))


def set_soft_device_placement(enabled: bool | None) -> None:
    """Enable or disable soft placement, at any time.

    ``None`` restores the default. Raises TypeError for a non-bool value.
    """
    _switch.put("soft_device_placement", _arguments.switch("enabled", enabled))


def get_device_policy() -> str:
    """Return the policy for inputs on another device, by default ``'silent'``.

    >>> get_device_policy()
    'silent'
    """
    return str(_switch.get("device_policy"))


def set_device_policy(device_policy: str | None) -> None:
    """Set the policy: ``'silent'``, ``'silent_for_int32'``, ``'warn'`` or ``'explicit'``. ``None`` means ``'silent'``.

    Raises ValueError for anything else.
    """
    if device_policy is None:
        _switch.put("device_policy", None)
        return
    name = device_policy if isinstance(device_policy, str) else ""
    _switch.put("device_policy", {"name": name, "repr": repr(device_policy)})


def get_synchronous_execution() -> bool:
    """Return whether operations run synchronously, by default ``True``."""
    return bool(_switch.get("synchronous_execution"))


def set_synchronous_execution(enable: bool | None) -> None:
    """Store whether operations run synchronously.

    ``None`` restores the default. Has no effect: gpuconf always waits.
    """
    _switch.put("synchronous_execution", None if enable is None else bool(enable))


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
