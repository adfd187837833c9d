# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's logger, for programs and for the warnings of the TensorFlow-shaped modules: ``compat.v1.logging``."""

from __future__ import annotations

import logging
import sys

from .._core import runtime, texts
from .._core.fork import module_lock
from .._typing import Any
from ._names import publish

_lock = module_lock(globals(), "_lock")
_configured = False


def get_logger() -> logging.Logger:
    """Return TensorFlow's logger, which is named ``"tensorflow"``.

    As in TensorFlow, the first call adds a handler that writes to ``sys.stderr``, unless the root logger has handlers
    already. In an interactive interpreter it writes to ``sys.stdout``, from level INFO on.

    >>> get_logger().name
    'tensorflow'
    """
    global _configured
    with _lock:
        logger = logging.getLogger("tensorflow")
        if not _configured:
            if not logging.getLogger().handlers and not logger.handlers:
                interactive = hasattr(sys, "ps1") or sys.flags.interactive
                if interactive:
                    logger.setLevel(logging.INFO)
                handler = logging.StreamHandler(sys.stdout if interactive else sys.stderr)
                handler.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
                logger.addHandler(handler)
            _configured = True
        return logger


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
    """Return how often the line of the program that calls gpuconf did so before."""
    frame = runtime.calling_frame()
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


publish(__name__)
