# SPDX-License-Identifier: Apache-2.0
"""The messages between Python and the core: JSON, read and written without the module json.

Importing json, with re and enum, takes a sixth of the time of a process's first call. These are the functions in C
behind it. Falls back to `json` if the C scanner is missing. Messages have the types of JSON only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from .._typing import Any
from .native import core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

__all__ = ["dumps", "loads"]


def _not_json(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not a type of JSON")


class _Rules:
    """The rules of reading, as ``json.JSONDecoder()`` has them."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def _functions() -> tuple[Callable[[str], Any], Callable[[Any], str]]:
    try:
        from _json import encode_basestring_ascii, make_encoder, make_scanner

        scan = make_scanner(_Rules)  # type: ignore[arg-type]  # any object with these attributes
        chunks = make_encoder(None, _not_json, encode_basestring_ascii, None, ": ", ", ", False, False, True)
    except (ImportError, AttributeError, TypeError):
        from json import dumps, loads

        return loads, dumps
    return lambda text: scan(text, 0)[0], lambda values: "".join(chunks(values, 0))


loads, dumps = _functions()


# Notices, logged to the logger ``gpuconf``. The core itself never prints.
#
# As is usual for a library, the logger has a NullHandler: programs that configure logging see the warnings and errors,
# and other programs print nothing to standard error. Notices of level info are for programs that ask for them: those
# that give the logger ``gpuconf`` a level or a handler. A program's own log is not for them.

_LEVELS = {"info": 20, "warning": 30, "error": 40}


def publish() -> None:
    """Fetch the queued notices and log them. Called after core calls that can queue notices."""
    encoded = core.pybind_DrainNotices()
    if encoded == "[]":
        return
    for level, text in loads(encoded):
        log(level, text)


def log(level: str, text: str) -> None:
    """Log one notice: ``"info"``, ``"warning"`` or ``"error"``. A ``"mistake"`` of the caller is a UserWarning."""
    if level == "mistake":
        warn(text)
        return
    if "logging" not in sys.modules:
        return  # no handler can be there, and importing it takes longer than loading the core
    import logging

    logger = logging.getLogger("gpuconf")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    asked = logger.level or any(not isinstance(each, logging.NullHandler) for each in logger.handlers)
    if level == "info" and not asked:
        return
    logger.log(_LEVELS[level], "%s", text)


def warn(text: str) -> None:
    """Warn the line that called, of a mistake that is no error: programs without logging must see it, too."""
    import warnings

    frame = calling_frame()
    warnings.warn_explicit(text, UserWarning, frame.f_code.co_filename, frame.f_lineno)


def calling_frame() -> FrameType:
    """Return the frame outside gpuconf that called into it."""
    # Not made absolute: that fails in a deleted working directory.
    package = os.path.dirname(os.path.dirname(__file__)) + os.sep
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
    return frame
