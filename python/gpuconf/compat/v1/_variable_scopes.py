# SPDX-License-Identifier: Apache-2.0
"""Variable scopes of a graph: the names before those of ``get_variable``, and whether it returns existing variables."""

from __future__ import annotations

import enum
import threading

from ..._typing import Any


class _ReuseMode(enum.Enum):
    """What the argument ``reuse`` can be beside True, False and None."""

    AUTO_REUSE = 1


AUTO_REUSE = _ReuseMode.AUTO_REUSE


class VariableScope:
    """A scope: what it sets applies inside it, except where an inner one sets something else."""

    def __init__(
        self, name: str, original_name_scope: str = "", reuse: Any = False, initializer: Any = None, dtype: Any = None
    ) -> None:
        self.name = name
        self.original_name_scope = original_name_scope
        self.reuse: Any = reuse
        self.initializer: Any = initializer
        self.dtype = dtype

    def reuse_variables(self) -> None:
        """Let ``get_variable`` return existing variables from here on."""
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Set what initializes variables that are added without an initializer."""
        self.initializer = initializer

    def full(self, name: str) -> str:
        """Return the whole name of a variable."""
        return f"{self.name}/{name}" if self.name else name


class VariableScopes(threading.local):
    """The scope of one thread in one graph."""

    def __init__(self) -> None:
        self.current: VariableScope = VariableScope("")
        self.counts: dict[str, int] = {}  # how often a scope was entered since its parent was

    def unique(self, prefix: str) -> str:
        """Return a name that has not been entered in the current scope: ``prefix``, or ``prefix_1`` and so on."""
        found, number = prefix, 0
        while self.counts.get(self.current.full(found)):
            number += 1
            found = f"{prefix}_{number}"
        return found
