# SPDX-License-Identifier: Apache-2.0
"""Enums as Protocol Buffers have them: ``OptimizerOptions.Level``."""

from __future__ import annotations

from ..._typing import Any


class Enum:
    """The names and numbers of an enum."""

    def __init__(self, full_name: str, members: dict[str, int]) -> None:
        self._full_name = full_name
        self._members = members
        self._names: dict[int, str] = {}
        for name, number in members.items():
            self._names.setdefault(number, name)

    @property
    def _name(self) -> str:
        return self._full_name.rpartition(".")[2]

    def Name(self, number: int) -> str:  # noqa: N802 - Protocol Buffers' name
        """Return the name of a number. Raises ValueError if it has none, and TypeError if it is not an int."""
        if not isinstance(number, int):
            raise TypeError(f"Enum value for {self._name} must be an int, but got {type(number)} {number!r}.")
        if number not in self._names:
            raise ValueError(f"Enum {self._name} has no name defined for value {number!r}")
        return self._names[number]

    def Value(self, name: str | None) -> int:  # noqa: N802
        """Return the number of a name. Raises ValueError for an unknown one."""
        if not isinstance(name, str) or name not in self._members:
            raise ValueError(f"Enum {self._name} has no value defined for name {name!r}")
        return self._members[name]

    def keys(self) -> list[str]:
        """Return the names."""
        return list(self._members)

    def values(self) -> list[int]:
        """Return the numbers."""
        return list(self._members.values())

    def items(self) -> list[tuple[str, int]]:
        """Return names and numbers."""
        return list(self._members.items())

    def labelled(self, label: str) -> int:
        """Return the number that a field with this label gets. Raises ValueError for an unknown one."""
        if label not in self._members:
            raise ValueError(f'unknown enum label "{label}" ({self._name} has {", ".join(self._members)})')
        return self._members[label]

    def shown(self, number: int) -> str:
        """Return a number's name, or the number if it has none."""
        return self._names.get(number, str(number))

    def __getattr__(self, name: str) -> Any:
        members = self.__dict__.get("_members", {})  # empty while a copy is made
        if name in members:
            return members[name]
        raise AttributeError(
            f"Enum {self.__dict__.get('_full_name', '').rpartition('.')[2]} has no value defined for name {name!r}"
        )

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._members]

    def __repr__(self) -> str:
        return f"<Enum {self._full_name}>"
