# SPDX-License-Identifier: Apache-2.0
"""The part of ``tf.debugging`` that concerns devices, the placement log, and the switch of tracebacks, which is
stored.
"""

from __future__ import annotations

from ._core.built_in_errors import raise_built_in
from ._missing import watch
from .config import _execution

__all__ = [
    "disable_traceback_filtering",
    "enable_traceback_filtering",
    "get_log_device_placement",
    "is_traceback_filtering_enabled",
    "set_log_device_placement",
]

_filtering = True


def get_log_device_placement() -> bool:
    """Return whether placements are logged, by default ``False``.

    Raises ValueError for an inconsistent configuration.
    """
    return bool(_execution.get("log_device_placement"))


def set_log_device_placement(enabled: bool) -> None:
    """Enable or disable the placement log, at any time. Raises TypeError for a non-bool value."""
    _execution.put("log_device_placement", _execution.switch("enabled", enabled))


def enable_traceback_filtering() -> None:
    """Store that tracebacks leave out the library, which is the default. It has no effect."""
    global _filtering
    _filtering = True


def disable_traceback_filtering() -> None:
    """Store that tracebacks show the library. It has no effect: they always do."""
    global _filtering
    _filtering = False


def is_traceback_filtering_enabled() -> bool:
    """Return what was stored, by default True."""
    return _filtering


raise_built_in(__name__, __all__)

watch(globals())
