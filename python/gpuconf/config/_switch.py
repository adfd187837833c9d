# SPDX-License-Identifier: Apache-2.0
"""Settings by name. The core stores them and applies TensorFlow's rules."""

from __future__ import annotations

from .._core import runtime
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
