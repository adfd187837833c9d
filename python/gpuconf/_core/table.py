"""What results that are tables of numbers have in common."""

from __future__ import annotations

from .._typing import Any


class Table:
    """A named tuple with ``to_dict``. Named first among the bases, before the ``namedtuple``."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, ready for ``json.dumps``: tables within it are dictionaries too, and tuples are lists."""
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
