# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.platform.tf_logging``: the functions of ``compat.v1.logging``."""

from __future__ import annotations

from ....._missing import watch
from ....v1.logging import (
    DEBUG,
    ERROR,
    FATAL,
    INFO,
    WARN,
    debug,
    error,
    fatal,
    get_verbosity,
    info,
    log,
    set_verbosity,
    warn,
    warning,
)

__all__ = [
    "DEBUG",
    "ERROR",
    "FATAL",
    "INFO",
    "WARN",
    "debug",
    "error",
    "fatal",
    "get_verbosity",
    "info",
    "log",
    "set_verbosity",
    "warn",
    "warning",
]


def __dir__() -> list[str]:
    return __all__


watch(globals())
