# SPDX-License-Identifier: Apache-2.0
"""``tf.keras`` without layers and models: the backend's sessions, settings that programs read and write, and policies.

The settings are stored and have no effect: nothing trains here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from .._typing import Any
from . import _optimizers
from ._names import publish
from ._proto import ConfigProto
from .v1._graph import get_default_graph, get_default_session, reset_default_graph
from .v1._mode import set_random_seed as set_seed
from .v1._session import Session

__version__ = "3.15.1"  # the version of Keras that comes with TensorFlow 2.21

_FLOATS = ("float16", "float64", "bfloat16", "float32")
_FORMATS = ("channels_first", "channels_last")
_settings: dict[str, Any] = {"floatx": "float32", "epsilon": 1e-7, "image_data_format": "channels_last"}


def version() -> str:
    """Return ``__version__``."""
    return __version__


def backend() -> str:
    """Return ``"tensorflow"``."""
    return "tensorflow"


def clear_session(free_memory: bool = True) -> None:
    """Replace the default graph, and collect what Python no longer uses."""
    _settings.pop("policy", None)
    reset_default_graph()
    if free_memory:
        import gc

        gc.collect()


def floatx() -> str:
    """Return the default type of floats, by default ``"float32"``."""
    return str(_settings["floatx"])


def set_floatx(value: str) -> None:
    """Set the default type of floats. Stored but has no effect. Raises ValueError for another word.

    >>> set_floatx("float32")
    """
    if value not in _FLOATS:
        raise ValueError(f"Unknown `floatx` value: {value}. Expected one of {set(_FLOATS)}")
    _settings["floatx"] = str(value)


def epsilon() -> float:
    """Return the small number of Keras, by default 1e-7."""
    return float(_settings["epsilon"])


def set_epsilon(value: float) -> None:
    """Set the small number of Keras. Stored but has no effect."""
    _settings["epsilon"] = value


def image_data_format() -> str:
    """Return the order of an image's dimensions, by default ``"channels_last"``."""
    return str(_settings["image_data_format"])


def set_image_data_format(data_format: str) -> None:
    """Set the order of an image's dimensions. Stored but has no effect. Raises ValueError for another word."""
    word = str(data_format).lower()
    if word not in _FORMATS:
        raise ValueError(
            f"The `data_format` argument must be one of {set(_FORMATS)}. Received: data_format={data_format}"
        )
    _settings["image_data_format"] = word


def _storing(setting: str, value: bool) -> Callable[[], None]:
    """Return a function that stores a switch."""

    def store() -> None:
        """Store it. It has no effect: nothing trains here."""
        _settings[setting] = value

    return store


def _reading(setting: str) -> Callable[[], bool]:
    """Return a function that returns a switch."""

    def read() -> bool:
        """Return what was stored, by default True."""
        return bool(_settings.get(setting, True))

    return read


enable_interactive_logging = _storing("interactive_logging", True)
disable_interactive_logging = _storing("interactive_logging", False)
is_interactive_logging_enabled = _reading("interactive_logging")
enable_traceback_filtering = _storing("traceback_filtering", True)
disable_traceback_filtering = _storing("traceback_filtering", False)
is_traceback_filtering_enabled = _reading("traceback_filtering")
enable_unsafe_deserialization = _storing("unsafe_deserialization", True)


def set_max_epochs(max_epochs: Any) -> None:
    """Store the largest number of epochs."""
    _settings["max_epochs"] = max_epochs


def max_epochs() -> Any:
    """Return what was stored, by default None."""
    return _settings.get("max_epochs")


def set_max_steps_per_epoch(max_steps_per_epoch: Any) -> None:
    """Store the largest number of steps in an epoch."""
    _settings["max_steps_per_epoch"] = max_steps_per_epoch


def max_steps_per_epoch() -> Any:
    """Return what was stored, by default None."""
    return _settings.get("max_steps_per_epoch")


_MIXED = {"mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}
_TYPES = (*_FLOATS, "int8", "int16", "int32", "int64", "uint8", "bool")


class DTypePolicy:
    """The types in which layers compute and keep variables: by default those of ``backend.floatx()``.

    Raises ValueError for an unknown name, and TypeError for anything else.

    >>> DTypePolicy("mixed_float16").compute_dtype
    'float16'
    """

    keras_module = "keras"

    def __init__(self, name: str | None = None) -> None:
        name = floatx() if name is None else name
        if not isinstance(name, str):
            raise TypeError(
                f"'name' must be a string, such as 'mixed_float16'. Received: name={name} (of type {type(name)})"
            )
        if name not in _MIXED and name not in _TYPES:
            raise ValueError(
                f"Cannot convert '{name}' to a mixed precision DTypePolicy. Valid policies include 'mixed_float16', "
                "'mixed_bfloat16', and the name of any float dtype such as 'float32'."
            )
        self._name = name

    @property
    def name(self) -> str:
        """The name, such as ``"mixed_float16"``."""
        return self._name

    @property
    def compute_dtype(self) -> str:
        """The type in which layers compute."""
        return _MIXED.get(self._name, self._name)

    @property
    def variable_dtype(self) -> str:
        """The type of variables."""
        return "float32" if self._name in _MIXED else self._name

    def get_config(self) -> dict[str, Any]:
        """Return the name, as a dict."""
        return {"name": self._name}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DTypePolicy) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f'<DTypePolicy "{self._name}">'


def dtype_policy() -> DTypePolicy:
    """Return the policy that was set, else that of ``backend.floatx()``."""
    policy = _settings.get("policy")
    return policy if isinstance(policy, DTypePolicy) else DTypePolicy(floatx())


def set_dtype_policy(policy: Any) -> None:
    """Set the policy, or that of a name. Stored but has no effect. Raises ValueError for an unknown name."""
    _settings["policy"] = policy if isinstance(policy, DTypePolicy) else DTypePolicy(policy)


class Callback:
    """The base of callbacks, whose methods do nothing."""

    def __init__(self) -> None:
        self.params: Any = None
        self.validation_data: Any = None
        self._model: Any = None

    @property
    def model(self) -> Any:
        """The model that ``set_model`` set."""
        return self._model

    def set_params(self, params: Any) -> None:
        """Keep the parameters."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Keep the model."""
        self._model = model


def _nothing(self: Callback, *_: Any, **__: Any) -> None:
    """Do nothing."""


for _part in ("train", "train_batch", "test", "test_batch", "predict", "predict_batch", "epoch", "batch"):
    for _name in (f"on_{_part}_begin", f"on_{_part}_end"):
        setattr(Callback, _name, _nothing)


def set_random_seed(seed: Any) -> None:
    """Seed Python's, NumPy's and gpuconf's random numbers. Raises ValueError for anything but an integer."""
    if not isinstance(seed, int):
        raise ValueError(f"Expected `seed` argument to be an integer. Received: seed={seed} (of type {type(seed)})")
    import random

    from ..tensors import arrays

    random.seed(seed)
    arrays.numpy().random.seed(seed)
    set_seed(seed)


def serialize_keras_object(obj: Any) -> Any:
    """Return a policy, an optimizer or a schedule as a dict. Raises UnimplementedError for other objects of Keras."""
    return _optimizers.serialize(obj)


def deserialize_keras_object(config: Any, custom_objects: Any = None) -> Any:
    """Return the policy, the optimizer or the schedule of a dict. Raises ValueError for another class."""
    if config["class_name"] in ("DTypePolicy", "Policy"):
        return DTypePolicy(**config["config"])
    if config["class_name"] in _optimizers.SCHEDULES:
        return _optimizers.deserialize_schedule(config, custom_objects)
    return _optimizers.deserialize(config, custom_objects)


# compat.v1.keras.backend: a session for each thread.


class _Kept(threading.local):
    session: Any = None


_kept = _Kept()


def set_session(session: Any) -> None:
    """Make a session the one that :func:`get_session` returns in this thread, unless the thread has a default session.

    >>> import gpuconf.compat.v1 as tf
    >>> tf.keras.backend.set_session(tf.Session(config=tf.ConfigProto(gpu_options=tf.GPUOptions(allow_growth=True))))
    >>> tf.keras.backend.clear_session()
    """
    _kept.session = session


def get_session(op_input_list: Any = ()) -> Any:
    """Return the default session of this thread, else the one that :func:`set_session` set.

    If there is none, or it runs a graph that is not the default graph, opens a new session with soft placement and
    keeps it. ``op_input_list`` is a tensor, or a sequence of tensors: the session must run their graph.
    """
    default = get_default_session()
    if default is not None:
        return default
    values = op_input_list if isinstance(op_input_list, (list, tuple)) else (op_input_list,)
    graph = next((each.graph for each in values if hasattr(each, "graph")), None) or get_default_graph()
    if _kept.session is None or _kept.session.graph is not graph:
        _kept.session = Session(config=ConfigProto(allow_soft_placement=True))
    return _kept.session


def forget_session() -> None:
    """Forget the session that :func:`set_session` set, and replace the default graph.

    Does not close the session: its GPU memory is free once nothing holds it. Raises AssertionError inside
    ``Graph.as_default()``.
    """
    reset_default_graph()
    _kept.session = None


def set_learning_phase(value: Any) -> None:
    """Store whether layers train. It has no effect: there are none here. Raises ValueError for anything but 0 and 1."""
    if value not in (0, 1):
        raise ValueError("Expected learning phase to be 0 or 1.")
    _settings["learning_phase"] = value


def manual_variable_initialization(value: bool) -> None:
    """Store whether the program initializes variables itself. It has no effect: here it always does."""
    _settings["manual_variable_initialization"] = value


publish(__name__)
