# SPDX-License-Identifier: Apache-2.0
"""The base of optimizers: their settings, checked as in Keras, and the learning rate on the device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from ....._core.fork import module_lock
from ....._typing import Any
from ....v1._mode import executing_eagerly
from .._serial import as_dict
from .schedules import LearningRateSchedule

# The settings of every optimizer, in the order of Keras.
_SHARED = {
    "weight_decay": None,
    "clipnorm": None,
    "clipvalue": None,
    "global_clipnorm": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
}
# The order in which get_config has them.
_WRITTEN = ("weight_decay", "clipnorm", "global_clipnorm", "clipvalue", *list(_SHARED)[4:])
_TRAINING = frozenset(
    [
        "add_optimizer_variables",
        "add_variable",
        "add_variable_from_reference",
        "apply",
        "apply_gradients",
        "assign",
        "assign_add",
        "assign_sub",
        "build",
        "exclude_from_weight_decay",
        "finalize_variable_values",
        "iterations",
        "load_own_variables",
        "minimize",
        "save_own_variables",
        "scale_loss",
        "set_weights",
        "stateless_apply",
        "update_step",
        "variables",
    ]
)

_lock = module_lock(globals(), "_lock")
_names: dict[str, int] = {}


def named(kind: str) -> str:
    """Return a name that no other optimizer has: ``"adam"``, ``"adam_1"``."""
    with _lock:
        number = _names[kind] = _names.get(kind, -1) + 1
    return f"{kind}_{number}" if number else kind


class LearningRate:
    """The learning rate of an optimizer: a number on the device, where operations run eagerly."""

    dtype = "float32"
    shape = ()

    def __init__(self, value: float, path: str) -> None:
        self.path = path
        self.name = "learning_rate"
        self.assign(value)

    def assign(self, value: Any) -> Any:
        """Replace the number, and return it."""
        from ..._variable import Variable

        number = float(value)
        self._value: Any = Variable(number, trainable=False, dtype="float32") if executing_eagerly() else number
        return self.value

    @property
    def value(self) -> Any:
        """The number: a tensor where operations run eagerly."""
        return self._value if isinstance(self._value, float) else self._value.value()

    def numpy(self) -> Any:
        """The number, as a NumPy scalar."""
        from .....tensors import arrays

        return arrays.numpy().float32(self._value)

    def __float__(self) -> float:
        return float(self._value)

    def __repr__(self) -> str:
        return f"<Variable path={self.path}, shape=(), dtype=float32, value={float(self)}>"


class Optimizer:
    """The settings of an optimizer. It trains nothing: that needs TensorFlow.

    ``learning_rate`` is a number, a schedule, or a function without arguments. Initializes the runtime, as in
    TensorFlow, because the learning rate is put on the device. Raises ValueError for settings that Keras refuses.
    """

    keras_module = "keras.optimizers"
    _own: Mapping[str, Any] = MappingProxyType({"learning_rate": ...})  # the settings of the class, with their defaults
    _kind = "optimizer"

    def __init__(self, *args: Any, name: str | None = None, **settings: Any) -> None:
        known = {**self._own, **{key: value for key, value in _SHARED.items() if key not in self._own}}
        if len(args) > len(known):
            raise TypeError(f"{type(self).__name__}() takes {len(known)} settings, but got {len(args)}")
        twice = [key for key, _ in zip(known, args, strict=False) if key in settings]
        if twice:
            raise TypeError(f"{type(self).__name__}() got multiple values for argument {twice[0]!r}")
        settings.pop("decay", None)  # of older versions
        unknown = {key: value for key, value in settings.items() if key not in known}
        if unknown:
            raise ValueError(f"Argument(s) not recognized: {unknown}")
        self._settings = {**known, **dict(zip(known, args, strict=False)), **settings}
        if self._settings["learning_rate"] is ...:
            raise TypeError(f"{type(self).__name__}() is missing 'learning_rate'")
        self._check()
        self.name: str = named(self._kind) if name is None else name
        self._learning_rate = self._rate(self._settings.pop("learning_rate"))

    def _check(self) -> None:
        """Refuse what Keras refuses."""
        clips = {key: self._settings[key] for key in ("clipnorm", "clipvalue", "global_clipnorm")}
        if sum(value is not None for value in clips.values()) > 1:
            given = ", ".join(f"{key}={value}" for key, value in clips.items())
            raise ValueError(f"Only one of `clipnorm`, `clipvalue` and `global_clipnorm` can be set. Received: {given}")
        steps = self._settings["gradient_accumulation_steps"]
        if steps is not None and steps < 2:
            raise ValueError(
                f"`gradient_accumulation_steps` must be an integer >= 2. Received: gradient_accumulation_steps={steps}"
            )
        if self._settings["use_ema"] and not 0 <= self._settings["ema_momentum"] <= 1:
            raise ValueError(
                f"`ema_momentum` must be in the range [0, 1]. Received: ema_momentum={self._settings['ema_momentum']}"
            )
        momentum = self._settings.get("momentum")
        if self._kind == "sgd" and isinstance(momentum, (int, float)) and not 0 <= momentum <= 1:
            raise ValueError("`momentum` must be a float between [0, 1].")

    def _rate(self, value: Any) -> Any:
        if isinstance(value, LearningRateSchedule):
            return value
        if callable(value) and not hasattr(value, "numpy"):
            return value
        if isinstance(value, str) or not hasattr(value, "__float__"):
            raise ValueError(
                "Argument `learning_rate` should be float, or an instance of LearningRateSchedule, or a callable "
                "(that takes in "
                "the current iteration value and returns the corresponding learning rate value). Received instead: "
                f"{value}"
            )
        return LearningRate(float(value), f"{self.name}/learning_rate")

    @property
    def learning_rate(self) -> Any:
        """The learning rate: a LearningRate, or what the function, or the schedule for step 0, returns.

        Raises UnimplementedError for the schedules of Keras.
        """
        rate = self._learning_rate
        if isinstance(rate, LearningRateSchedule):
            return rate(0)
        return rate() if callable(rate) else rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if isinstance(self._learning_rate, LearningRate) and not callable(value):
            self._learning_rate.assign(value)
        else:
            self._learning_rate = self._rate(value)

    def __getattr__(self, name: str) -> Any:
        if name in _TRAINING:
            raise AttributeError(
                f"{type(self).__name__}.{name} needs TensorFlow: gpuconf keeps the settings of an optimizer only"
            )
        settings = self.__dict__.get("_settings", {})
        if name in settings:
            return settings[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_config(self) -> dict[str, Any]:
        """Return the settings, as a dict."""
        rate = self._learning_rate
        written = float(rate) if isinstance(rate, LearningRate) else as_dict(rate)
        shared = {key: self._settings[key] for key in _WRITTEN}
        own = {key: value for key, value in self._settings.items() if key not in shared}
        return {"name": self.name, "learning_rate": written, **shared, **own}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Optimizer:
        """Return an optimizer with the settings of a dict."""
        del custom_objects
        settings = dict(config)
        if isinstance(settings.get("learning_rate"), dict):
            from .schedules import deserialize

            settings["learning_rate"] = deserialize(settings["learning_rate"])
        return cls(**settings)


class LossScaleOptimizer(Optimizer):
    """The settings of an optimizer that scales the loss, for ``mixed_float16``.

    It trains nothing: that needs TensorFlow.

    Raises ValueError for ``dynamic=False``, as Keras does.
    """

    _kind = "loss_scale_optimizer"

    def __init__(
        self,
        inner_optimizer: Any,
        initial_scale: float = 2.0**15,
        dynamic_growth_steps: int = 2000,
        name: str | None = None,
        **settings: Any,
    ) -> None:
        if not settings.pop("dynamic", True):
            raise ValueError(
                "LossScaleOptimizer no longer supports `dynamic=False`. Instead, simply set `loss_scale_factor` "
                "directly on the "
                "`inner_optimizer`."
            )
        super().__init__(0.0, name=name, loss_scale_factor=inner_optimizer.loss_scale_factor, **settings)
        self.inner_optimizer = inner_optimizer
        self.initial_scale = initial_scale
        self.dynamic_growth_steps = dynamic_growth_steps

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the inner optimizer."""
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        self.inner_optimizer.learning_rate = value

    def get_config(self) -> dict[str, Any]:
        """Return the settings, as a dict."""
        return {
            "name": self.name,
            "inner_optimizer": as_dict(self.inner_optimizer),
            "initial_scale": self.initial_scale,
            "dynamic_growth_steps": self.dynamic_growth_steps,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> LossScaleOptimizer:
        """Return an optimizer with the settings of a dict."""
        from . import deserialize

        return cls(**{**config, "inner_optimizer": deserialize(config["inner_optimizer"], custom_objects)})


class LegacyOptimizer:
    """What Keras 3 has in place of the optimizers of Keras 2. Raises ImportError."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise ImportError(
            "`keras.optimizers.legacy` is not supported in Keras 3. It needs TensorFlow with the package tf_keras "
            "(Keras 2) and "
            "the environment variable TF_USE_LEGACY_KERAS=True"
        )


def made(kind: str, own: dict[str, Any]) -> type[Optimizer]:
    """Return the class of an optimizer with these settings of its own."""
    # The word of Keras: rm_sprop, adam_w.
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind).lower()
    about = f"The settings of {kind}. It trains nothing: that needs TensorFlow."
    return type(kind, (Optimizer,), {"__doc__": about, "_own": own, "_kind": snake, "__module__": __package__})
