# SPDX-License-Identifier: Apache-2.0
"""Validates arguments as protobuf does. TensorFlow fails when the runtime starts; gpuconf raises at once."""

from __future__ import annotations

import operator

from .._core import texts
from .._typing import Any


def integer(what: str, value: Any) -> int | None:
    """Return a 32-bit integer, or None. Rejects bool; accepts integers of other libraries."""
    if value is None:
        return None
    number = _index(value)
    if number is None or isinstance(value, bool):
        raise TypeError(f"{what} must be an integer, but got {type(value).__name__}: {texts.shown(value)}")
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{what} must fit in 32 bits, but got {value}")
    return number


def switch(what: str, value: Any) -> bool | None:
    """Return a bool, or None. An integer counts as a bool."""
    if value is None:
        return None
    number = _index(value)
    if number is None:
        raise TypeError(f"{what} must be True or False, but got {type(value).__name__}: {texts.shown(value)}")
    return number != 0


def _index(value: Any) -> int | None:
    try:
        return operator.index(value)
    except TypeError:
        return None
