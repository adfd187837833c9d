# SPDX-License-Identifier: Apache-2.0
"""Classes whose instances are created by functions, not by calling the class."""

from __future__ import annotations

from .. import errors
from .._typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")


class Made(type):
    """The metaclass of such a class.

    Calling the class raises an error that names the functions (``_made_by``); they call ``make``.

    Instances constructed from arbitrary arguments would fail later, in methods that cannot report the cause.
    """

    _made_by: str

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise errors.InvalidTypeError(f"{cls.__name__} objects cannot be created directly: {cls._made_by}")


def make(cls: type[T], *arguments: Any) -> T:
    """Create an instance of such a class."""
    made: T = type.__call__(cls, *arguments)
    return made
