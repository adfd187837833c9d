# SPDX-License-Identifier: Apache-2.0
"""``tf.keras.config``: the settings of ``backend`` under their newer names, and switches that are stored."""

from __future__ import annotations

from ...._missing import watch
from ...._typing import Any
from .backend import (
    backend,
    epsilon,
    floatx,
    image_data_format,
    set_epsilon,
    set_floatx,
    set_image_data_format,
    settings,
)
from .mixed_precision import dtype_policy, set_dtype_policy

__all__ = [
    "backend",
    "disable_interactive_logging",
    "disable_traceback_filtering",
    "dtype_policy",
    "enable_interactive_logging",
    "enable_traceback_filtering",
    "enable_unsafe_deserialization",
    "epsilon",
    "floatx",
    "image_data_format",
    "is_interactive_logging_enabled",
    "is_traceback_filtering_enabled",
    "max_epochs",
    "max_steps_per_epoch",
    "set_dtype_policy",
    "set_epsilon",
    "set_floatx",
    "set_image_data_format",
    "set_max_epochs",
    "set_max_steps_per_epoch",
]


def enable_interactive_logging() -> None:
    """Store that progress goes to standard output, which is the default. It has no effect: nothing trains here."""
    settings["interactive_logging"] = True


def disable_interactive_logging() -> None:
    """Store that progress goes to a log. It has no effect: nothing trains here."""
    settings["interactive_logging"] = False


def is_interactive_logging_enabled() -> bool:
    """Return what was stored, by default True."""
    return bool(settings.get("interactive_logging", True))


def enable_traceback_filtering() -> None:
    """Store that tracebacks leave out Keras, which is the default. It has no effect."""
    settings["traceback_filtering"] = True


def disable_traceback_filtering() -> None:
    """Store that tracebacks show Keras. It has no effect."""
    settings["traceback_filtering"] = False


def is_traceback_filtering_enabled() -> bool:
    """Return what was stored, by default True."""
    return bool(settings.get("traceback_filtering", True))


def enable_unsafe_deserialization() -> None:
    """Has no effect: nothing here loads models."""


def set_max_epochs(max_epochs: Any) -> None:
    """Store the largest number of epochs. It has no effect: nothing trains here."""
    settings["max_epochs"] = max_epochs


def max_epochs() -> Any:
    """Return what was stored, by default None."""
    return settings.get("max_epochs")


def set_max_steps_per_epoch(max_steps_per_epoch: Any) -> None:
    """Store the largest number of steps in an epoch. It has no effect: nothing trains here."""
    settings["max_steps_per_epoch"] = max_steps_per_epoch


def max_steps_per_epoch() -> Any:
    """Return what was stored, by default None."""
    return settings.get("max_steps_per_epoch")


def __dir__() -> list[str]:
    return __all__


watch(globals())
