# SPDX-License-Identifier: Apache-2.0
"""Notices, logged to the logger ``gpuconf``. The core itself never prints.

As is usual for a library, the logger has a NullHandler: programs that configure logging see the notices, and other
programs print nothing to standard error.
"""

from __future__ import annotations

import sys

from .message import loads
from .native import core

_LEVELS = {"info": 20, "warning": 30, "error": 40}


def publish() -> None:
    """Fetch the queued notices and log them. Called after core calls that can queue notices."""
    encoded = core.pybind_DrainNotices()
    if encoded == "[]":
        return
    for level, text in loads(encoded):
        log(level, text)


def log(level: str, text: str) -> None:
    """Log one notice: ``"info"``, ``"warning"`` or ``"error"``."""
    if "logging" not in sys.modules:
        return  # no handler can be there, and importing it takes longer than loading the core
    import logging

    logger = logging.getLogger("gpuconf")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.log(_LEVELS[level], "%s", text)
