# SPDX-License-Identifier: Apache-2.0
"""``tf.keras.optimizers``: the settings of optimizers and schedules, checked as in Keras. They train nothing here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from .. import errors
from .._core.fork import module_lock
from .._typing import Any
from ._names import publish
from .v1._mode import executing_eagerly

# The parameters of optimizers and of schedules, with their defaults; ... where there is none.
_RATE = {"learning_rate": 0.001}
_BETAS = {**_RATE, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
_REGULARIZATION = ("l1_regularization_strength", "l2_regularization_strength", "l2_shrinkage_regularization_strength")
_OPTIMIZERS: dict[str, dict[str, Any]] = {
    "Adadelta": {**_RATE, "rho": 0.95, "epsilon": 1e-7},
    "Adafactor": {
        **{**_RATE, "beta_2_decay": -0.8, "epsilon_1": 1e-30, "epsilon_2": 0.001},
        **{"clip_threshold": 1.0, "relative_step": True},
    },
    "Adagrad": {**_RATE, "initial_accumulator_value": 0.1, "epsilon": 1e-7},
    "Adam": {**_BETAS, "amsgrad": False},
    "AdamW": {**_RATE, "weight_decay": 0.004, **_BETAS, "amsgrad": False},
    "Adamax": _BETAS,
    "Ftrl": {
        **{**_RATE, "learning_rate_power": -0.5, "initial_accumulator_value": 0.1},
        **{**dict.fromkeys(_REGULARIZATION, 0.0), "beta": 0.0},
    },
    "Lamb": _BETAS,
    "Lion": {**_RATE, "beta_1": 0.9, "beta_2": 0.99},
    "Nadam": _BETAS,
    "RMSprop": {**_RATE, "rho": 0.9, "momentum": 0.0, "epsilon": 1e-7, "centered": False},
    "SGD": {"learning_rate": 0.01, "momentum": 0.0, "nesterov": False},
}
_SHARED = {  # by all optimizers, in the order of Keras
    **dict.fromkeys(("weight_decay", "clipnorm", "clipvalue", "global_clipnorm")),
    **{"use_ema": False, "ema_momentum": 0.99, "ema_overwrite_frequency": None},
    **dict.fromkeys(("loss_scale_factor", "gradient_accumulation_steps")),
}
_WRITTEN = ("weight_decay", "clipnorm", "global_clipnorm", "clipvalue", *list(_SHARED)[4:])  # as get_config has them
_TIMES = {"initial_learning_rate": ..., "decay_steps": ...}
_BY_STEPS = {**_TIMES, "decay_rate": ..., "staircase": False}
_RESTARTS = {"initial_learning_rate": ..., "first_decay_steps": ..., "t_mul": 2.0, "m_mul": 1.0, "alpha": 0.0}
SCHEDULES: dict[str, dict[str, Any]] = {
    "CosineDecay": {**_TIMES, "alpha": 0.0, "name": "CosineDecay", "warmup_target": None, "warmup_steps": 0},
    "CosineDecayRestarts": {**_RESTARTS, "name": "SGDRDecay"},
    "ExponentialDecay": {**_BY_STEPS, "name": "ExponentialDecay"},
    "InverseTimeDecay": {**_BY_STEPS, "name": "InverseTimeDecay"},
    "PiecewiseConstantDecay": {"boundaries": ..., "values": ..., "name": "PiecewiseConstant"},
    "PolynomialDecay": {
        **{**_TIMES, "end_learning_rate": 0.0001, "power": 1.0, "cycle": False},
        "name": "PolynomialDecay",
    },
}

_PLAIN = (str, int, float, bool, type(None))
_TRAINING = frozenset(
    [
        *("add_optimizer_variables", "add_variable", "add_variable_from_reference", "apply", "apply_gradients"),
        *("assign", "assign_add", "assign_sub", "build", "exclude_from_weight_decay", "finalize_variable_values"),
        *("iterations", "load_own_variables", "minimize", "save_own_variables", "scale_loss", "set_weights"),
        *("stateless_apply", "update_step", "variables"),
    ]
)

_lock = module_lock(globals(), "_lock")
_names: dict[str, int] = {}


def serialize(setting: Any) -> Any:
    """Return an optimizer, a schedule or a policy as a dict. Raises UnimplementedError for others of Keras."""
    if isinstance(setting, _PLAIN):
        return setting
    if isinstance(setting, (list, tuple)):
        return [serialize(each) for each in setting]
    if isinstance(setting, dict):
        return {name: serialize(each) for name, each in setting.items()}
    module = getattr(type(setting), "keras_module", "")
    if not module:
        raise errors.UnimplementedError(f"serializing a {type(setting).__name__} of Keras needs TensorFlow")
    name, config = type(setting).__name__, setting.get_config()
    return {"module": module, "class_name": name, "config": config, "registered_name": None}


class _Recorder:
    """Keeps the settings that its constructor takes."""

    _own: Mapping[str, Any] = MappingProxyType({})

    def _record(self, parameters: Mapping[str, Any], args: tuple[Any, ...], settings: dict[str, Any]) -> None:
        """Keep settings, and defaults of the others. Raises TypeError as for a function with these parameters."""
        kind, given = type(self).__name__, dict(zip(parameters, args, strict=False))
        if len(args) > len(parameters):
            raise TypeError(f"{kind}() takes {len(parameters)} settings, but got {len(args)}")
        twice = [key for key in given if key in settings]
        if twice:
            raise TypeError(f"{kind}() got multiple values for argument {twice[0]!r}")
        self._settings = {**parameters, **given, **settings}
        missing = [key for key, value in self._settings.items() if value is ...]
        if missing:
            raise TypeError(f"{kind}() is missing {missing[0]!r}")

    def __getattr__(self, name: str) -> Any:
        settings = self.__dict__.get("_settings", {})
        if name in settings:
            return settings[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class LearningRateSchedule(_Recorder):
    """The base of schedules. A program's own define ``__call__(step)``."""

    keras_module = "keras.optimizers.schedules"

    def __init__(self, *args: Any, **settings: Any) -> None:
        unknown = [key for key in settings if key not in self._own]
        if unknown:
            raise TypeError(f"{type(self).__name__}() got an unexpected argument: {unknown[-1]!r}")
        self._record(self._own, args, settings)
        boundaries, values = self._settings.get("boundaries", ()), self._settings.get("values", (None,))
        if len(boundaries) != len(values) - 1:
            raise ValueError(
                "The length of boundaries should be 1 less than the length of values. Received: "
                f"boundaries={boundaries} of length {len(boundaries)}, and values={values} of length {len(values)}."
            )

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
        from .v2._variable import Variable

        number = float(value)
        self._value: Any = Variable(number, trainable=False, dtype="float32") if executing_eagerly() else number
        return self.value

    @property
    def value(self) -> Any:
        """The number: a tensor where operations run eagerly."""
        return self._value if isinstance(self._value, float) else self._value.value()

    def numpy(self) -> Any:
        """The number, as a NumPy scalar."""
        from ..tensors import arrays

        return arrays.numpy().float32(self._value)

    def __float__(self) -> float:
        return float(self._value)

    def __repr__(self) -> str:
        return f"<Variable path={self.path}, shape=(), dtype=float32, value={float(self)}>"


class Optimizer(_Recorder):
    """The settings of an optimizer. It trains nothing: that needs TensorFlow.

    ``learning_rate`` is a number, a schedule, or a function without arguments. Initializes the runtime, as in
    TensorFlow, because the learning rate is put on the device. Raises ValueError for settings that Keras refuses.
    """

    keras_module = "keras.optimizers"
    _own = MappingProxyType({"learning_rate": ...})
    _kind = "optimizer"

    def __init__(self, *args: Any, name: str | None = None, **settings: Any) -> None:
        parameters = {**self._own, **{key: value for key, value in _SHARED.items() if key not in self._own}}
        settings.pop("decay", None)  # of older versions
        unknown = {key: value for key, value in settings.items() if key not in parameters}
        if unknown:
            raise ValueError(f"Argument(s) not recognized: {unknown}")
        self._record(parameters, args, settings)
        self._check()
        if name is None:  # one that no other optimizer has: "adam", "adam_1"
            with _lock:
                number = _names[self._kind] = _names.get(self._kind, -1) + 1
            name = f"{self._kind}_{number}" if number else self._kind
        self.name: str = name
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
                "Argument `learning_rate` should be float, or an instance of LearningRateSchedule, or a callable (that "
                "takes in the current iteration value and returns the corresponding learning rate value). Received "
                f"instead: {value}"
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
        return super().__getattr__(name)

    def get_config(self) -> dict[str, Any]:
        """Return the settings, as a dict."""
        rate = self._learning_rate
        written = float(rate) if isinstance(rate, LearningRate) else serialize(rate)
        shared = {key: self._settings[key] for key in _WRITTEN}
        own = {key: value for key, value in self._settings.items() if key not in shared}
        return {"name": self.name, "learning_rate": written, **shared, **own}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Optimizer:
        """Return an optimizer with the settings of a dict."""
        del custom_objects
        settings = dict(config)
        if isinstance(settings.get("learning_rate"), dict):
            settings["learning_rate"] = deserialize_schedule(settings["learning_rate"])
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
                "directly on the `inner_optimizer`."
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
            "inner_optimizer": serialize(self.inner_optimizer),
            "initial_scale": self.initial_scale,
            "dynamic_growth_steps": self.dynamic_growth_steps,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> LossScaleOptimizer:
        """Return an optimizer with the settings of a dict."""
        return cls(**{**config, "inner_optimizer": deserialize(config["inner_optimizer"], custom_objects)})


class LegacyOptimizer:
    """What Keras 3 has in place of the optimizers of Keras 2. Raises ImportError."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise ImportError(
            "`keras.optimizers.legacy` is not supported in Keras 3. It needs TensorFlow with the package tf_keras "
            "(Keras 2) and the environment variable TF_USE_LEGACY_KERAS=True"
        )


def _made(name: str, base: type[_Recorder], own: dict[str, Any], doc: str) -> Any:
    """Return the class of an optimizer or a schedule with these parameters."""
    # The word of Keras: rm_sprop, adam_w.
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    body = {"__doc__": doc, "_own": MappingProxyType(own), "_kind": snake, "__module__": __name__}
    made = globals()[name] = type(name, (base,), body)
    return made


_CLASSES: dict[str, type[Optimizer]] = {
    "optimizer": Optimizer,
    "lossscaleoptimizer": LossScaleOptimizer,
    **{
        name.lower(): _made(name, Optimizer, own, f"The settings of {name}. It trains nothing: that needs TensorFlow.")
        for name, own in _OPTIMIZERS.items()
    },
}
_SCHEDULE_CLASSES: dict[str, Any] = {
    "LearningRateSchedule": LearningRateSchedule,
    **{name: _made(name, LearningRateSchedule, own, f"The settings of {name}.") for name, own in SCHEDULES.items()},
}


def deserialize(config: dict[str, Any], custom_objects: Any = None) -> Optimizer:
    """Return the optimizer of a dict. Raises ValueError for an unknown class."""
    name = str(config.get("class_name", ""))
    found: Any = (custom_objects or {}).get(name) or _CLASSES.get(name.lower())
    if found is None:
        raise ValueError(f"Could not interpret optimizer identifier: {config}")
    return found.from_config(config.get("config", {}))  # type: ignore[no-any-return]


def deserialize_schedule(config: dict[str, Any], custom_objects: Any = None) -> Any:
    """Return the schedule of a dict. Raises ValueError for an unknown class."""
    name = config.get("class_name", "")
    found = (custom_objects or {}).get(name) or _SCHEDULE_CLASSES.get(name)
    if found is None:
        raise ValueError(f"Unknown learning rate schedule: {name!r}")
    return found.from_config(config["config"])


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


publish(__name__)
