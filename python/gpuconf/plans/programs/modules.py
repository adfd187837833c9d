# SPDX-License-Identifier: Apache-2.0
"""Which module of a model memory belongs to: that whose forward pass allocated it, or that has the parameter."""

from __future__ import annotations

import weakref
from array import array
from bisect import bisect_right
from collections.abc import Iterable

from ..._typing import Any

_MOST_CALLS = 4_000_000  # changes of the module that runs


class Modules:
    """The modules of a process, by their paths in the first model, such as ``blocks.7.attn``.

    In further models the class of the model comes before.
    """

    def __init__(self) -> None:
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._has_model = False
        self._owners: dict[int, str] = {}  # by the number of a parameter
        self._stack: list[str] = []
        self._times = array("q")
        self._running = array("l")  # at that time on, the number of a path
        self._numbers: dict[str, int] = {}

    def enter(self, module: Any, time: int) -> None:
        """Note the begin of a module's forward pass."""
        if not self._stack and module not in self._names:
            self._add(module)
        name = self._names.get(module) or (self._stack[-1] if self._stack else type(module).__name__)
        self._stack.append(name)
        self._note(name, time)

    def leave(self, time: int) -> None:
        """Note its end."""
        if self._stack:
            self._stack.pop()
        self._note(self._stack[-1] if self._stack else "", time)

    def _add(self, model: Any) -> None:
        kind = type(model).__name__
        start = f"{kind}." if self._has_model else ""
        self._has_model = self._has_model or any(True for _ in model.parameters())
        for path, module in model.named_modules():
            name = self._names.setdefault(module, f"{start}{path}" if path else kind)
            for parameter in module._parameters.values():
                self._owners.setdefault(id(parameter), name)

    def _note(self, name: str, time: int) -> None:
        if len(self._times) < _MOST_CALLS:
            self._times.append(time)
            self._running.append(self._numbers.setdefault(name, len(self._numbers)))

    def of_parameter(self, parameter: Any) -> str:
        """Return the module that has a parameter, "" if that is unknown."""
        return self._owners.get(id(parameter), "")

    def of_module(self, module: Any) -> str:
        """Return the path of a module, "" if that is unknown."""
        return self._names.get(module, "")

    def name(self, events: Iterable[dict[str, Any]]) -> None:
        """Write into each allocation that has no module yet the one that ran then."""
        paths = list(self._numbers)
        for event in events:
            if event["action"] == "alloc" and "module" not in event:
                number = bisect_right(self._times, event["time_us"]) - 1
                event["module"] = paths[self._running[number]] if number >= 0 else ""
