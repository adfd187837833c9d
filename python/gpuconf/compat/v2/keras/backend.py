# SPDX-License-Identifier: Apache-2.0
"""``tf.keras.backend``: settings that are stored, and ``clear_session``."""

from __future__ import annotations

from ...._missing import watch
from ...v1._graph import reset_default_graph

__all__ = [
    "backend",
    "clear_session",
    "epsilon",
    "floatx",
    "image_data_format",
    "set_epsilon",
    "set_floatx",
    "set_image_data_format",
]

_FLOATS = ("float16", "float64", "bfloat16", "float32")
_FORMATS = ("channels_first", "channels_last")

settings: dict[str, object] = {"floatx": "float32", "epsilon": 1e-7, "image_data_format": "channels_last"}


def backend() -> str:
    """Return ``"tensorflow"``."""
    return "tensorflow"


def clear_session(free_memory: bool = True) -> None:
    """Replace the default graph, and collect what Python no longer uses."""
    settings.pop("policy", None)
    reset_default_graph()
    if free_memory:
        import gc

        gc.collect()


def floatx() -> str:
    """Return the default type of floats, by default ``"float32"``."""
    return str(settings["floatx"])


def set_floatx(value: str) -> None:
    """Set the default type of floats. Stored but has no effect. Raises ValueError for another word.

    >>> set_floatx("float32")
    """
    if value not in _FLOATS:
        raise ValueError(f"Unknown `floatx` value: {value}. Expected one of {set(_FLOATS)}")
    settings["floatx"] = str(value)


def epsilon() -> float:
    """Return the small number of Keras, by default 1e-7."""
    return float(settings["epsilon"])  # type: ignore[arg-type]


def set_epsilon(value: float) -> None:
    """Set the small number of Keras. Stored but has no effect."""
    settings["epsilon"] = value


def image_data_format() -> str:
    """Return the order of an image's dimensions, by default ``"channels_last"``."""
    return str(settings["image_data_format"])


def set_image_data_format(data_format: str) -> None:
    """Set the order of an image's dimensions. Stored but has no effect. Raises ValueError for another word."""
    word = str(data_format).lower()
    if word not in _FORMATS:
        raise ValueError(
            f"The `data_format` argument must be one of {set(_FORMATS)}. Received: data_format={data_format}"
        )
    settings["image_data_format"] = word


def __dir__() -> list[str]:
    return __all__


watch(globals())
