"""One setting by name: kept in the core, where TensorFlow's rules for it are."""

from __future__ import annotations

from .._core import runtime
from .._core.native import core
from .._typing import Any

# Settings whose getters look at nothing else. The others evaluate the whole configuration, for which devices are listed.
_QUIET = ("device_policy", "synchronous_execution")


def get(name: str) -> Any:
    """The value of a setting. Some getters evaluate the whole configuration and raise what is wrong with it."""
    if name not in _QUIET:
        runtime.physical_devices()
    text = core.pybind_Setting(name)
    import json

    return json.loads(text)


def put(name: str, value: Any) -> None:
    """Change a setting; None puts it back to its default. Lists no devices: the environment may still choose them."""
    set_setting = core.pybind_SetSetting
    import json

    set_setting(name, json.dumps(value))
