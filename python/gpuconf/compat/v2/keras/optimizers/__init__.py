# SPDX-License-Identifier: Apache-2.0
"""``tf.keras.optimizers``: the settings of optimizers, for programs that set them beside a GPU's.

They train nothing here.
"""

from __future__ import annotations

from ....._missing import watch
from ....._typing import Any
from .._serial import as_dict
from . import schedules
from ._optimizer import LossScaleOptimizer, Optimizer, made

__all__ = [
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Ftrl",
    "Lamb",
    "Lion",
    "LossScaleOptimizer",
    "Nadam",
    "Optimizer",
    "RMSprop",
    "deserialize",
    "get",
    "legacy",
    "schedules",
    "serialize",
]

_RATE = {"learning_rate": 0.001}
_BETAS = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}

Adadelta: type[Optimizer] = made("Adadelta", {**_RATE, "rho": 0.95, "epsilon": 1e-7})
Adafactor: type[Optimizer] = made(
    "Adafactor",
    {
        **_RATE,
        "beta_2_decay": -0.8,
        "epsilon_1": 1e-30,
        "epsilon_2": 0.001,
        "clip_threshold": 1.0,
        "relative_step": True,
    },
)
Adagrad: type[Optimizer] = made("Adagrad", {**_RATE, "initial_accumulator_value": 0.1, "epsilon": 1e-7})
Adam: type[Optimizer] = made("Adam", {**_RATE, **_BETAS, "amsgrad": False})
AdamW: type[Optimizer] = made("AdamW", {**_RATE, "weight_decay": 0.004, **_BETAS, "amsgrad": False})
Adamax: type[Optimizer] = made("Adamax", {**_RATE, **_BETAS})
Ftrl: type[Optimizer] = made(
    "Ftrl",
    {
        **_RATE,
        "learning_rate_power": -0.5,
        "initial_accumulator_value": 0.1,
        "l1_regularization_strength": 0.0,
        "l2_regularization_strength": 0.0,
        "l2_shrinkage_regularization_strength": 0.0,
        "beta": 0.0,
    },
)
Lamb: type[Optimizer] = made("Lamb", {**_RATE, **_BETAS})
Lion: type[Optimizer] = made("Lion", {**_RATE, "beta_1": 0.9, "beta_2": 0.99})
Nadam: type[Optimizer] = made("Nadam", {**_RATE, **_BETAS})
RMSprop: type[Optimizer] = made("RMSprop", {**_RATE, "rho": 0.9, "momentum": 0.0, "epsilon": 1e-7, "centered": False})
SGD: type[Optimizer] = made("SGD", {"learning_rate": 0.01, "momentum": 0.0, "nesterov": False})

_CLASSES = {
    name.lower(): found for name, found in list(globals().items()) if isinstance(found, type) and name in __all__
}

from . import legacy  # noqa: E402 - it has the names above


def serialize(optimizer: Optimizer) -> Any:
    """Return an optimizer as a dict."""
    return as_dict(optimizer)


def deserialize(config: dict[str, Any], custom_objects: Any = None) -> Optimizer:
    """Return the optimizer of a dict. Raises ValueError for an unknown class."""
    name = str(config.get("class_name", ""))
    found: Any = (custom_objects or {}).get(name) or _CLASSES.get(name.lower())
    if found is None:
        raise ValueError(f"Could not interpret optimizer identifier: {config}")
    return found.from_config(config.get("config", {}))  # type: ignore[no-any-return]


def get(identifier: Any) -> Any:
    """Return the optimizer of a name or a dict, and an optimizer as it is. Raises ValueError for anything else.

    >>> get("adam").get_config()["beta_1"]
    0.9
    """
    if identifier is None or isinstance(identifier, Optimizer):
        return identifier
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str) and identifier.lower() in _CLASSES:
        return deserialize({"class_name": identifier})
    raise ValueError(f"Could not interpret optimizer identifier: {identifier}")


def __dir__() -> list[str]:
    return __all__


watch(globals())
