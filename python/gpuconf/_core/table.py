# SPDX-License-Identifier: Apache-2.0
"""The base class of results that are tables of numbers."""

from __future__ import annotations

from .._typing import Any


class Table:
    """A mixin that adds ``to_dict`` to a named tuple. List it before the named tuple among the bases."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for ``json.dumps``: nested tables become dictionaries, and tuples become
        lists.
        """
        fields: tuple[str, ...] = self._fields  # type: ignore[attr-defined]  # the namedtuple's
        return {name: _plain(getattr(self, name)) for name in fields}


def _plain(value: Any) -> Any:
    if isinstance(value, Table):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return list(map(_plain, value))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
