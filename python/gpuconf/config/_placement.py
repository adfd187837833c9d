"""Soft placement: whether an operation may run elsewhere when its device isn't there."""

from __future__ import annotations

from . import _arguments, _switch


def get_soft_device_placement() -> bool:
    """Tell whether soft placement is on; it is by default. Raises ValueError where the configuration contradicts itself."""
    return bool(_switch.get("soft_device_placement"))


def set_soft_device_placement(enabled: bool | None) -> None:
    """Switch soft placement on or off, at any time; ``None`` puts the default back. Raises TypeError for what is no bool."""
    _switch.put("soft_device_placement", _arguments.switch("enabled", enabled))
