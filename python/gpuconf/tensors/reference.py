# SPDX-License-Identifier: Apache-2.0
"""What ``ref()`` of a tensor or a variable returns."""

from __future__ import annotations

from .._typing import Any


class Reference:
    """A tensor or a variable as a key of a dict or an element of a set: references to the same object are equal.

    >>> x = gpuconf.constant(1.0)
    >>> {x.ref(): "x"}[x.ref()]
    'x'
    >>> del x
    """

    __slots__ = ("_wrapped",)

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def deref(self) -> Any:
        """Return the tensor or variable."""
        return self._wrapped

    def __eq__(self, other: object) -> bool:
        if other is None:
            return False
        if not isinstance(other, Reference):
            raise TypeError("Cannot compare wrapped object with unwrapped object")
        return self._wrapped is other._wrapped

    def __hash__(self) -> int:
        return id(self._wrapped)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._wrapped!r}>"
