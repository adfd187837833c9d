# SPDX-License-Identifier: Apache-2.0
"""Blocks that survive the end of Python."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # see fork.py

    from typing_extensions import Self
else:
    Self = object  # for typing.get_type_hints


def refuse_copy(self: object, _protocol: object) -> tuple[object, ...]:
    """Be the ``__reduce_ex__`` of what ends something when its block ends."""
    from .. import errors

    raise errors.InvalidTypeError(f"a {type(self).__name__} cannot be copied or pickled: a copy's end would be its end")


class Block:
    """What a ``with`` statement leaves by ``_leave``; while Python ends, not at all: see Buffer._ending."""

    __slots__ = ()

    _ending = staticmethod(sys.is_finalizing)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._ending():
            return
        self._leave(kind, error, trace)

    def _leave(self, kind: Any, error: Any, trace: Any, /) -> None:
        raise NotImplementedError


class Entered(Block):
    """A block that the name after ``as`` stands for."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self
