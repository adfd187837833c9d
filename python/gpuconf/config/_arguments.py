"""Arguments as protobuf takes them: TensorFlow fails when the runtime starts, gpuconf refuses them at once."""

from __future__ import annotations

import operator

from .. import errors
from .._core import texts
from .._typing import Any


def integer(what: str, value: Any) -> int | None:
    """An integer of 32 bits, or None. A bool is none, a number of another library is one."""
    if value is None:
        return None
    number = _index(value)
    if number is None or isinstance(value, bool):
        raise errors.InvalidTypeError(f"{what} must be an integer, but got {type(value).__name__}: {texts.shown(value)}")
    if not -(2**31) <= number < 2**31:
        raise errors.InvalidArgumentError(f"{what} must fit in 32 bits, but got {value}")
    return number


def switch(what: str, value: Any) -> bool | None:
    """A bool, or an integer that stands for one, or None."""
    if value is None:
        return None
    number = _index(value)
    if number is None:
        raise errors.InvalidTypeError(f"{what} must be True or False, but got {type(value).__name__}: {texts.shown(value)}")
    return number != 0


def _index(value: Any) -> int | None:
    try:
        return operator.index(value)
    except TypeError:
        return None
