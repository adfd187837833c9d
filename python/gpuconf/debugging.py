"""``tf.debugging``, as far as it is about devices: the placement log."""

from __future__ import annotations

from .config import _arguments, _switch

__all__ = ["get_log_device_placement", "set_log_device_placement"]


def get_log_device_placement() -> bool:
    """Tell whether placements are logged; not by default. Raises ValueError where the configuration contradicts itself."""
    return bool(_switch.get("log_device_placement"))


def set_log_device_placement(enabled: bool) -> None:
    """Switch the placement log on or off, at any time. Raises TypeError for what is no bool."""
    _switch.put("log_device_placement", _arguments.switch("enabled", enabled))


def __dir__() -> list[str]:
    return __all__
