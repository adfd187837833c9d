# SPDX-License-Identifier: Apache-2.0
"""The policy for inputs on another device, and synchronous execution."""

from __future__ import annotations

from . import _switch


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
    """Store whether operations run synchronously. ``None`` restores the default. Has no effect: gpuconf always waits."""
    _switch.put("synchronous_execution", None if enable is None else bool(enable))
