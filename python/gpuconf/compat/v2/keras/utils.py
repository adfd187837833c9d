# SPDX-License-Identifier: Apache-2.0
"""``tf.keras.utils``: the seed, and settings as dicts."""

from __future__ import annotations

from ...._missing import watch
from ...._typing import Any
from . import mixed_precision, optimizers
from ._serial import as_dict
from .backend import clear_session
from .config import disable_interactive_logging, enable_interactive_logging, is_interactive_logging_enabled

__all__ = [
    "clear_session",
    "deserialize_keras_object",
    "disable_interactive_logging",
    "enable_interactive_logging",
    "is_interactive_logging_enabled",
    "serialize_keras_object",
    "set_random_seed",
]


def set_random_seed(seed: Any) -> None:
    """Seed Python's, NumPy's and gpuconf's random numbers. Raises ValueError for anything but an integer."""
    if not isinstance(seed, int):
        raise ValueError(f"Expected `seed` argument to be an integer. Received: seed={seed} (of type {type(seed)})")
    import random

    from ....tensors import arrays
    from ...v1._seed import set_random_seed as set_seed

    random.seed(seed)
    arrays.numpy().random.seed(seed)
    set_seed(seed)


def serialize_keras_object(obj: Any) -> Any:
    """Return a policy, an optimizer or a schedule as a dict. Raises UnimplementedError for other objects of Keras."""
    return as_dict(obj)


def deserialize_keras_object(config: Any, custom_objects: Any = None) -> Any:
    """Return the policy, the optimizer or the schedule of a dict. Raises ValueError for another class."""
    if config["class_name"] in ("DTypePolicy", "Policy"):
        return mixed_precision.DTypePolicy(**config["config"])
    if config["class_name"] in optimizers.schedules.__all__:
        return optimizers.schedules.deserialize(config, custom_objects)
    return optimizers.deserialize(config, custom_objects)


def __dir__() -> list[str]:
    return __all__


watch(globals())
