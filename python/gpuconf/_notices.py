"""What the core has to say, into the logger ``gpuconf``. The core itself never prints."""

from __future__ import annotations

from ._native import core

_LEVELS = {"info": 20, "warning": 30, "error": 40}


def publish() -> None:
    """Fetch the queued notices and log them. Called after the calls that can leave some."""
    told = core.pybind_DrainNotices()
    if told == "[]":
        return
    import json
    import logging

    logger = logging.getLogger("gpuconf")
    for level, text in json.loads(told):
        logger.log(_LEVELS[level], "%s", text)
