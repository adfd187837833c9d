"""What gpuconf has to say beside results and errors, into the logger ``gpuconf``. The core itself never prints.

As a library's should, the logger has a handler that does nothing: a program that configures logging sees the notices, and
standard error stays quiet in all others.
"""

from __future__ import annotations

from .native import core

_LEVELS = {"info": 20, "warning": 30, "error": 40}


def publish() -> None:
    """Fetch the queued notices and log them. Called after the calls that can leave some."""
    told = core.pybind_DrainNotices()
    if told == "[]":
        return
    import json

    for level, text in json.loads(told):
        log(level, text)


def log(level: str, text: str) -> None:
    """Log one notice: ``"info"``, ``"warning"`` or ``"error"``."""
    import logging

    logger = logging.getLogger("gpuconf")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.log(_LEVELS[level], "%s", text)
