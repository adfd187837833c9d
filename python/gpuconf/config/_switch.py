"""One setting by name: kept in the core, where TensorFlow's rules for it are."""

from __future__ import annotations

from .. import _runtime
from .._native import core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def get(name: str) -> Any:
    """The value of a setting. Some getters evaluate the whole configuration and raise what is wrong with it."""
    import json

    _runtime.physical_devices()
    return json.loads(core.pybind_Setting(name))


def put(name: str, value: Any) -> None:
    """Change a setting; None puts it back to its default."""
    import json

    _runtime.physical_devices()
    core.pybind_SetSetting(name, json.dumps(value))
