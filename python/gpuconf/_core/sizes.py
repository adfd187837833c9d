# SPDX-License-Identifier: Apache-2.0
"""Sizes in bytes, as a number or as text: ``1073741824``, ``"1GiB"``, ``"500MB"``."""

from __future__ import annotations

import operator

from .. import errors
from .._typing import Any
from . import texts
from .size_text import size_of


def size(what: str, value: Any, total: int | None = None) -> int:
    """Return the bytes of a size argument, which may be negative. ``what`` is the argument's name.

    Percentages are relative to ``total``, and invalid without it. Raises InvalidTypeError for a value that is neither
    an int nor text, and InvalidArgumentError for text that is not a size.
    """
    if isinstance(value, str):
        return _parsed(what, value, total)
    try:
        return operator.index(value)
    except TypeError:
        text = f"{what} must be a number of bytes or text such as '6GiB', but got {texts.given(value)}"
        raise errors.InvalidTypeError(text) from None


def whole(what: str, value: Any, hint: str = "") -> int:
    """Return an int argument. Raises InvalidTypeError for anything else, with the hint."""
    try:
        return operator.index(value)
    except TypeError:
        text = f"{what} must be an int, but got {texts.given(value)}{hint}"
        raise errors.InvalidTypeError(text) from None


def limit_bytes(limit: Any, total: int | None = None, what: str = "limit") -> int:
    """Return the bytes of a limit. Percentages are relative to ``total``. ``what`` is the argument's name."""
    if isinstance(limit, bool):
        raise errors.InvalidTypeError(f"{what} must be a number of bytes or text such as '6GiB', but got bool: {limit}")
    try:
        wanted = size(what, limit, total)
    except errors.InvalidTypeError as error:
        raise errors.InvalidTypeError(f"{error}{number_hint(limit)}") from None
    if not 1 << 20 <= wanted < 2**63:
        given = repr(limit) if isinstance(limit, str) else shown(wanted)
        text = f"{what} must be at least 1 MiB and less than 2**63 bytes, but got {given}"
        raise errors.InvalidArgumentError(text + unit_hint(limit, wanted))
    return wanted


def unit_hint(given: Any, number: int) -> str:
    """Return what a number that is too small for bytes probably means. One with another unit means what it says."""
    if not 0 < number < 1 << 20 or (isinstance(given, str) and not given.upper().rstrip("B ").strip().isdigit()):
        return ""
    return f"; did you mean '{number}{'GiB' if number < 256 else 'MiB'}'?"


def number_hint(value: Any) -> str:
    """Return what a float probably means."""
    if not isinstance(value, float) or not 0 < value < 1 << 20:
        return ""
    return f"; did you mean '{value * 100:g}%'?" if value <= 1 else f"; did you mean '{value:g}GiB'?"


def _parsed(what: str, text: str, total: int | None) -> int:
    try:
        return size_of(text, total)
    except ValueError as error:
        raise errors.InvalidArgumentError(f"{what} {texts.shown(text)} {error}") from None


def shown(number: int) -> str:
    """Return a number as text for a message. Python does not print very long numbers."""
    return str(number) if number.bit_length() <= 128 else f"a number of {number.bit_length()} bits"
