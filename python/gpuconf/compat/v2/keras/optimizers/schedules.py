# SPDX-License-Identifier: Apache-2.0
"""``tf.keras.optimizers.schedules``: the settings of learning rates that change.

They compute nothing: that needs TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..... import errors
from ....._missing import watch
from ....._typing import Any
from .._serial import as_dict

__all__ = [
    "CosineDecay",
    "CosineDecayRestarts",
    "ExponentialDecay",
    "InverseTimeDecay",
    "LearningRateSchedule",
    "PiecewiseConstantDecay",
    "PolynomialDecay",
    "deserialize",
    "serialize",
]


class LearningRateSchedule:
    """The base of schedules. A program's own define ``__call__(step)``."""

    keras_module = "keras.optimizers.schedules"
    _own: Mapping[str, Any] = MappingProxyType({})  # the settings, with their defaults; ... where there is none

    def __init__(self, *args: Any, **settings: Any) -> None:
        if not self._own and (args or settings):
            raise TypeError(f"{type(self).__name__}() takes no arguments")
        known = dict(zip(self._own, args, strict=False))
        wrong = [key for key in settings if key not in self._own or key in known]
        if wrong or len(args) > len(self._own):
            raise TypeError(f"{type(self).__name__}() got an unexpected argument: {(wrong or args)[-1]!r}")
        self._settings = {**self._own, **known, **settings}
        missing = [key for key, value in self._settings.items() if value is ...]
        if missing:
            raise TypeError(f"{type(self).__name__}() is missing {missing[0]!r}")

    def __call__(self, step: Any) -> Any:
        """Raise UnimplementedError: a schedule of Keras computes with TensorFlow."""
        raise errors.UnimplementedError(
            f"{type(self).__name__} of step {step} needs TensorFlow: gpuconf keeps its settings only"
        )

    def get_config(self) -> dict[str, Any]:
        """Return the settings, as a dict."""
        return dict(self._settings)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LearningRateSchedule:
        """Return a schedule with the settings of a dict."""
        return cls(**config)

    def __getattr__(self, name: str) -> Any:
        settings = self.__dict__.get("_settings", {})
        if name in settings:
            return settings[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class CosineDecay(LearningRateSchedule):
    """The settings of a rate that falls along a cosine."""

    _own = MappingProxyType(
        {
            "initial_learning_rate": ...,
            "decay_steps": ...,
            "alpha": 0.0,
            "name": "CosineDecay",
            "warmup_target": None,
            "warmup_steps": 0,
        }
    )


class CosineDecayRestarts(LearningRateSchedule):
    """The settings of a rate that falls along a cosine, again and again."""

    _own = MappingProxyType(
        {
            "initial_learning_rate": ...,
            "first_decay_steps": ...,
            "t_mul": 2.0,
            "m_mul": 1.0,
            "alpha": 0.0,
            "name": "SGDRDecay",
        }
    )


class ExponentialDecay(LearningRateSchedule):
    """The settings of a rate that falls exponentially."""

    _own = MappingProxyType(
        {
            "initial_learning_rate": ...,
            "decay_steps": ...,
            "decay_rate": ...,
            "staircase": False,
            "name": "ExponentialDecay",
        }
    )


class InverseTimeDecay(LearningRateSchedule):
    """The settings of a rate that falls with the inverse of time."""

    _own = MappingProxyType(
        {
            "initial_learning_rate": ...,
            "decay_steps": ...,
            "decay_rate": ...,
            "staircase": False,
            "name": "InverseTimeDecay",
        }
    )


class PiecewiseConstantDecay(LearningRateSchedule):
    """The settings of a rate that is constant between boundaries. Raises ValueError unless there is one more value."""

    _own = MappingProxyType({"boundaries": ..., "values": ..., "name": "PiecewiseConstant"})

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        boundaries, values = self._settings["boundaries"], self._settings["values"]
        if len(boundaries) != len(values) - 1:
            raise ValueError(
                "The length of boundaries should be 1 less than the length of values. Received: "
                f"boundaries={boundaries} of length {len(boundaries)}, and values={values} of length {len(values)}."
            )


class PolynomialDecay(LearningRateSchedule):
    """The settings of a rate that falls along a polynomial."""

    _own = MappingProxyType(
        {
            "initial_learning_rate": ...,
            "decay_steps": ...,
            "end_learning_rate": 0.0001,
            "power": 1.0,
            "cycle": False,
            "name": "PolynomialDecay",
        }
    )


def serialize(learning_rate_schedule: LearningRateSchedule) -> Any:
    """Return a schedule as a dict."""
    return as_dict(learning_rate_schedule)


def deserialize(config: dict[str, Any], custom_objects: Any = None) -> Any:
    """Return the schedule of a dict. Raises ValueError for an unknown class."""
    name = config.get("class_name", "")
    found = (custom_objects or {}).get(name) or (globals().get(name) if name in __all__ else None)
    if found is None:
        raise ValueError(f"Unknown learning rate schedule: {name!r}")
    return found.from_config(config["config"])


def __dir__() -> list[str]:
    return __all__


watch(globals())
