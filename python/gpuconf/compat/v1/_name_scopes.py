# SPDX-License-Identifier: Apache-2.0
"""Name scopes of a graph, which stand before the names of its operations."""

from __future__ import annotations

import re
import sys
import threading

from ..._typing import Any

_FIRST = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
_INNER = re.compile(r"^[A-Za-z0-9_.\\/>-]*$")


class NameScopes:
    """The name scopes of one graph. Each thread has its own, and the names in use are those of all."""

    def __init__(self) -> None:
        self._here = _Here()
        self._operations: set[str] = set()  # lower case, as names are not case-sensitive
        self._scopes: set[str] = set()

    @property
    def current(self) -> str:
        """The current scope, without the slash; ``""`` outside of all."""
        return self._here.name

    def note(self, name: str) -> None:
        """Mark the name of an operation as used."""
        self._operations.add(name.lower())

    def full(self, name: str) -> str:
        """Return the name to request for an operation: the core adds a number if an operation has it, not if a scope
        has it.
        """
        if name.endswith("/"):
            return name
        inner = f"{self.current}/{name}" if self.current else name
        return self._free(inner) + "/" if inner.lower() in self._scopes else inner

    def unique(self, name: str, mark_as_used: bool = True) -> str:
        """Return a name in the current scope that is not in use."""
        found = self._free(f"{self.current}/{name}" if self.current else name)
        if mark_as_used:
            self._scopes.add(found.lower())
        return found

    def _free(self, name: str) -> str:
        found, number = name, 0
        while found.lower() in self._operations or found.lower() in self._scopes:
            number += 1
            found = f"{name}_{number}"
        return found

    def scope(self, name: Any) -> _Scope:
        """Return a context manager for a name, or None."""
        return _Scope(self, name)

    def enter(self, name: Any) -> str:
        """Enter a scope, and return its name with a slash.

        Raises ValueError for a bad name, and TypeError for no string.
        """
        if name and not (_INNER if self.current else _FIRST).match(name):
            what, rule = ("", _INNER) if self.current else ("root ", _FIRST)
            text = (
                f"'{name}' is not a valid {what}scope name. A {what}scope name has to match the following pattern: "
                f"{rule.pattern}"
            )
            raise ValueError(text)
        before = self.current
        self._here.name = name[:-1] if name and name.endswith("/") else self.unique(name) if name else ""
        self._here.outer.append(before)
        return f"{self.current}/" if self.current else ""

    def leave(self) -> None:
        """Leave the innermost scope."""
        self._here.name = self._here.outer.pop()


class _Here(threading.local):
    """The scope of one thread."""

    def __init__(self) -> None:
        self.name = ""
        self.outer: list[str] = []


class _Scope:
    """The context manager that ``Graph.name_scope`` returns."""

    _ending = staticmethod(sys.is_finalizing)

    def __init__(self, scopes: NameScopes, name: Any) -> None:
        self._scopes = scopes
        self._name = name

    def __enter__(self) -> str:
        return self._scopes.enter(self._name)

    def __exit__(self, *_: object) -> None:
        if not self._ending():
            self._scopes.leave()
