# SPDX-License-Identifier: Apache-2.0
"""Device scopes of a graph. Unlike those of ``gpuconf.device``, they do not fill in missing fields with CPU:0."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from types import TracebackType

from ..._core import texts
from ..._core.built_in_errors import raise_built_in_class
from ..._core.device_spec import name_of
from ..._core.message import dumps
from ..._core.native import core
from ..._typing import Any

Scope = str | Callable[[Any], Any] | None


class Scopes(threading.local):
    """The scopes of one thread in one graph, outermost first."""

    def __init__(self) -> None:
        # Each scope with the merged request of it and all outer scopes, or None if one of them is a function.
        self._stack: list[tuple[Scope, str | None]] = []

    def scope(self, argument: Any) -> _Scope:
        """Return a context manager for a string, a function or None."""
        return _Scope(self, argument)

    def enter(self, scope: Scope) -> None:
        """Enter a scope. Raises ValueError for a malformed string."""
        if callable(scope):
            self._stack.append((scope, None))
            return
        if scope is None:
            self._stack.append((None, ""))
            return
        inside = _request("", scope)  # rejects malformed strings, also inside a function scope
        outer = self._stack[-1][1] if self._stack else ""
        self._stack.append((scope, None if outer is None else _request(inside, outer) if outer else inside))

    def leave(self, scope: Scope) -> None:
        """Leave a scope."""
        if not self._stack or self._stack[-1][0] is not scope:
            raise RuntimeError("Exiting device scope without proper scope nesting.")
        self._stack.pop()

    def request(self, kind: str, name: str, graph: Any, inputs: Sequence[Any]) -> str:
        """Return the requested device of a new operation in these scopes."""
        if not self._stack:
            return ""
        known = self._stack[-1][1]
        if known is not None:
            return known
        operation = _NewOperation(kind, name or kind, graph, inputs)
        for scope, _ in reversed(self._stack):
            if scope is None:
                break
            if callable(scope):
                operation.device = _request(_answer(scope, operation), "")
            else:
                operation.device = _request(operation.device, scope)
        return operation.device


class _NewOperation:
    """The operation under construction, as passed to a device function. Its name is not yet unique."""

    def __init__(self, kind: str, name: str, graph: Any, inputs: Sequence[Any]) -> None:
        self.type = kind
        self.name = name
        self.graph = graph
        self.inputs = tuple(inputs)
        self.device = ""

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}, under construction>"


def _answer(function: Any, operation: _NewOperation) -> str:
    result = function(operation)
    if result is None:
        return ""
    return texts.check_text("a device function's result", name_of(result))


# (inner request, outer scope) -> merged request.
_requests: dict[tuple[str, str], str] = {}


def _request(own: str, scope: str) -> str:
    """Merge a device string with an outer scope. Raises ValueError if either is malformed."""
    key = (own, scope)
    merged = _requests.get(key)
    if merged is None:
        merged = core.pybind_RequestDevice(own, dumps([scope]))
        if len(_requests) < 4096:
            _requests[key] = merged
    return merged


class _Scope:
    """The context manager that ``Graph.device`` and ``device`` return."""

    _ending = staticmethod(sys.is_finalizing)

    def __init__(self, scopes: Scopes, argument: Any) -> None:
        if argument is not None and not callable(argument):
            argument = texts.check_text("device name", name_of(argument))
        self._scopes = scopes
        self._argument = argument

    def __enter__(self) -> None:
        self._scopes.enter(self._argument)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ending():
            self._scopes.leave(self._argument)


raise_built_in_class(_Scope, everything=True)
