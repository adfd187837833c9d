# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v1.logging``: TensorFlow's logger under its old names."""

from __future__ import annotations

import sys

from ..._core import texts
from ..._missing import watch
from ..._typing import Any
from .._logger import get_logger

__all__ = [
    "DEBUG",
    "ERROR",
    "FATAL",
    "INFO",
    "WARN",
    "TaskLevelStatusMessage",
    "debug",
    "error",
    "fatal",
    "flush",
    "get_verbosity",
    "info",
    "log",
    "log_every_n",
    "log_first_n",
    "log_if",
    "set_verbosity",
    "vlog",
    "warn",
    "warning",
]

DEBUG, INFO, WARN, ERROR, FATAL = 10, 20, 30, 40, 50

_times: dict[tuple[str, int], int] = {}  # how often log_every_n and log_first_n were called, by line


def log(level: int, msg: object, *args: Any, **kwargs: Any) -> None:
    """Log a message at a level."""
    get_logger().log(level, msg, *args, **kwargs)


def debug(msg: object, *args: Any, **kwargs: Any) -> None:
    """Log a message at level DEBUG."""
    get_logger().debug(msg, *args, **kwargs)


def info(msg: object, *args: Any, **kwargs: Any) -> None:
    """Log a message at level INFO."""
    get_logger().info(msg, *args, **kwargs)


def warning(msg: object, *args: Any, **kwargs: Any) -> None:
    """Log a message at level WARN."""
    get_logger().warning(msg, *args, **kwargs)


def error(msg: object, *args: Any, **kwargs: Any) -> None:
    """Log a message at level ERROR."""
    get_logger().error(msg, *args, **kwargs)


def fatal(msg: object, *args: Any, **kwargs: Any) -> None:
    """Log a message at level FATAL. Does not end the program."""
    get_logger().fatal(msg, *args, **kwargs)


warn = warning
vlog = log


def TaskLevelStatusMessage(msg: object) -> None:  # noqa: N802 - TensorFlow's name
    """Log a message at level ERROR."""
    error(msg)


def flush() -> None:
    """Not available, as in TensorFlow: raises NotImplementedError."""
    raise NotImplementedError


def log_if(level: int, msg: object, condition: object, *args: Any) -> None:
    """Log a message if a condition is true."""
    if condition:
        log(level, msg, *args)


def log_every_n(level: int, msg: object, n: int, *args: Any) -> None:
    """Log the first of every ``n`` calls of a line of the program."""
    log_if(level, msg, not _count() % n, *args)


def log_first_n(level: int, msg: object, n: int, *args: Any) -> None:
    """Log the first ``n`` calls of a line of the program."""
    log_if(level, msg, _count() < n, *args)


def _count() -> int:
    """Return how often the line that called the caller did so before."""
    frame = sys._getframe(2)
    line = frame.f_code.co_filename, frame.f_lineno
    _times[line] = _times.get(line, -1) + 1
    return _times[line]


def get_verbosity() -> int:
    """Return the level of the logger, by default WARN.

    >>> import gpuconf.compat.v1 as tf
    >>> tf.logging.get_verbosity() == tf.logging.WARN
    True
    """
    return get_logger().getEffectiveLevel()


def set_verbosity(v: int | str) -> None:
    """Set the level of the logger, such as ``ERROR``. Raises TypeError or ValueError for what is not a level."""
    if not isinstance(v, (int, str)):
        raise TypeError(f"Level not an integer or a valid string: {texts.bounded_repr(v)}")
    try:
        get_logger().setLevel(v)
    except ValueError as error:
        raise ValueError(str(error)) from None


def __dir__() -> list[str]:
    return __all__


watch(globals())
