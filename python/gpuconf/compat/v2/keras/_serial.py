# SPDX-License-Identifier: Apache-2.0
"""Settings of Keras as a dict, in the form in which Keras writes them."""

from __future__ import annotations

from .... import errors
from ...._typing import Any

_PLAIN = (str, int, float, bool, type(None))


def as_dict(setting: Any) -> Any:
    """Return the name of a setting's class and its values. Raises UnimplementedError for what gpuconf does not have."""
    if isinstance(setting, _PLAIN):
        return setting
    if isinstance(setting, (list, tuple)):
        return [as_dict(each) for each in setting]
    if isinstance(setting, dict):
        return {name: as_dict(each) for name, each in setting.items()}
    module = getattr(type(setting), "keras_module", "")
    if not module:
        raise errors.UnimplementedError(f"serializing a {type(setting).__name__} of Keras needs TensorFlow")
    return {
        "module": module,
        "class_name": type(setting).__name__,
        "config": setting.get_config(),
        "registered_name": None,
    }
