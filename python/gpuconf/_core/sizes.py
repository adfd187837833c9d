# SPDX-License-Identifier: Apache-2.0
"""Sizes in bytes, as a number or as text: ``1073741824``, ``"1GiB"``, ``"500MB"``."""

from __future__ import annotations

import operator

from .. import errors
from .._typing import Any
from . import texts

_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_DIGITS = "0123456789"  # str.isdecimal and int() accept the digits of all scripts
_MOST = 2**63 - 1  # the largest int that the core accepts


def size(what: str, value: Any, total: int | None = None) -> int:
    """Return the bytes of a size argument, which may be negative. ``what`` is the argument's name.

    Percentages are relative to ``total``, and invalid without it. Raises InvalidTypeError for a value that is neither an int nor
    text, and InvalidArgumentError for text that is not a size.
    """
    if isinstance(value, str):
        return _parsed(what, value, total)
    try:
        return operator.index(value)
    except TypeError:
        text = f"{what} must be a number of bytes or text such as '6GiB', but got {type(value).__name__}: {texts.shown(value)}"
        raise errors.InvalidTypeError(text) from None


def limit_bytes(limit: Any, total: int | None = None) -> int:
    """Return the bytes of a limit, rounded down to whole MiB. Percentages are relative to ``total``."""
    if isinstance(limit, bool):
        raise errors.InvalidTypeError(f"limit must be a number of bytes or text such as '6GiB', but got bool: {limit}")
    wanted = size("limit", limit, total)
    if not 1 << 20 <= wanted < 2**63:
        given = repr(limit) if isinstance(limit, str) else shown(wanted)
        raise errors.InvalidArgumentError(f"limit must be at least 1 MiB and less than 2**63 bytes, but got {given}")
    return wanted >> 20 << 20


def _parsed(what: str, text: str, total: int | None) -> int:
    stripped = text.strip()
    unit = stripped.lstrip(_DIGITS + ".")
    whole, _, fraction = stripped[: len(stripped) - len(unit)].partition(".")
    unit = unit.strip().upper()
    # Some non-ASCII letters, such as the dotless i, have an ASCII capital letter.
    if not text.isascii() or not whole + fraction or "." in fraction or not (unit in _UNITS or unit == "%"):
        examples = "'500MB', '6GiB'" if total is None else "'500MB', '6GiB' or '50%'"
        raise errors.InvalidArgumentError(f"{what} {texts.shown(text)} is not a size: write bytes, {examples}")
    if unit == "%" and total is None:
        raise errors.InvalidArgumentError(f"{what} {texts.shown(text)} is a percentage, which needs a GPU; use bytes or '6GiB'")
    whole, fraction = whole.lstrip("0")[:30], fraction[:30]  # Python does not parse numbers with more than a few thousand digits
    number: int = int(whole + fraction or "0")
    scale: int = 10 ** len(fraction)
    if unit == "%":
        if not 0 < number <= 100 * scale:
            raise errors.InvalidArgumentError(f"{what} must be more than 0% and at most 100%, but got {texts.shown(text)}")
        return number * (total or 0) // (100 * scale)
    found = number * _UNITS[unit] // scale
    if found > _MOST:
        raise errors.InvalidArgumentError(f"{what} {texts.shown(text)} is too large: at most 2**63 - 1 bytes")
    return found


def shown(number: int) -> str:
    """Return a number as text for a message. Python does not print very long numbers."""
    return str(number) if number.bit_length() <= 128 else f"a number of {number.bit_length()} bits"
