# SPDX-License-Identifier: Apache-2.0
"""``tf.TensorShape``: the sizes of a tensor, with None for those that are not known."""

from __future__ import annotations

import operator
from collections.abc import Iterator

from .._typing import Any
from ._names import publish

_v2 = True  # shapes print as in TensorFlow 2: compat.v1.disable_v2_behavior changes it


class TensorShape:
    """The sizes of a tensor.

    Equals a tuple or a list of the same sizes. ``None`` as ``dims``: not even their number is known.
    """

    __slots__ = ("_sizes",)

    def __init__(self, dims: Any = None) -> None:
        if dims is None or isinstance(dims, TensorShape):
            self._sizes: tuple[int | None, ...] | None = None if dims is None else dims._sizes
            return
        try:
            self._sizes = (operator.index(dims),)
        except TypeError:
            self._sizes = tuple(None if size is None else operator.index(size) for size in dims)

    @property
    def rank(self) -> int | None:
        """The number of dimensions, None if it is not known."""
        return None if self._sizes is None else len(self._sizes)

    @property
    def ndims(self) -> int | None:
        """The number of dimensions, None if it is not known."""
        return self.rank

    @property
    def dims(self) -> list[int | None] | None:
        """The sizes as a list, None if their number is not known."""
        return None if self._sizes is None else list(self._sizes)

    def as_list(self) -> list[int | None]:
        """Return the sizes as a list. Raises ValueError if their number is not known."""
        if self._sizes is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self._sizes)

    def is_fully_defined(self) -> bool:
        """Return whether every size is known."""
        return self._sizes is not None and None not in self._sizes

    def num_elements(self) -> int | None:
        """Return the number of elements, None if it is not known."""
        import math

        return math.prod(self._known()) if self.is_fully_defined() else None

    def _known(self) -> tuple[Any, ...]:
        if self._sizes is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return self._sizes

    def __len__(self) -> int:
        return len(self._known())

    def __iter__(self) -> Iterator[Any]:
        if self._sizes is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter(self._sizes)

    def __getitem__(self, key: Any) -> Any:
        found = self._known()[key]
        return TensorShape(found) if isinstance(key, slice) else found

    def __bool__(self) -> bool:
        return self._sizes is not None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TensorShape):
            return self._sizes == other._sizes
        if other is None or isinstance(other, (tuple, list)):
            return self._sizes == (None if other is None else tuple(other))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._sizes)

    def __add__(self, other: Any) -> TensorShape:
        return TensorShape((*self._known(), *TensorShape(other)._known()))

    def __reduce__(self) -> Any:
        return TensorShape, (self._sizes,)

    def __repr__(self) -> str:
        if self._sizes is None or _v2:
            return f"TensorShape({None if self._sizes is None else list(self._sizes)})"
        return f"TensorShape([{', '.join(f'Dimension({size})' for size in self._sizes)}])"

    def __str__(self) -> str:
        if self._sizes is None:
            return "<unknown>"
        unknown = "None" if _v2 else "?"
        text = ", ".join(unknown if size is None else str(size) for size in self._sizes)
        return f"({text},)" if len(self._sizes) == 1 else f"({text})"


def set_v2_shapes(enabled: bool) -> None:
    """Choose whether an unknown size prints as ``None``, and not as ``?``, for the whole program."""
    global _v2
    _v2 = enabled


publish(__name__)
