# SPDX-License-Identifier: Apache-2.0
"""Soft placement: whether an operation may run on another device if the requested one does not exist."""

from __future__ import annotations

from . import _arguments, _switch


def get_soft_device_placement() -> bool:
    """Return whether soft placement is enabled, by default ``True``. Raises ValueError for an inconsistent configuration."""
    return bool(_switch.get("soft_device_placement"))


def set_soft_device_placement(enabled: bool | None) -> None:
    """Enable or disable soft placement, at any time. ``None`` restores the default. Raises TypeError for a non-bool value."""
    _switch.put("soft_device_placement", _arguments.switch("enabled", enabled))
