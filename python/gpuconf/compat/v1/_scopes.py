# SPDX-License-Identifier: Apache-2.0
"""Scopes that apply to the operations that a thread adds to a graph: devices, names, control inputs, variables."""

from __future__ import annotations

import enum
import re
import threading
from collections.abc import Callable, Collection, Sequence

from ..._core import texts
from ..._core.block import Block
from ..._core.built_in_errors import raise_built_in_class
from ..._core.device_spec import name_of
from ..._core.native import core
from ..._typing import Any
from .._names import publish

Scope = str | Callable[[Any], Any] | None


class Scopes(threading.local):
    """The scopes of one thread in one graph, outermost first."""

    def __init__(self) -> None:
        # Each scope with the merged request of it and all outer scopes, or None if one of them is a function.
        self.stack: list[tuple[Scope, str | None]] = []

    def request(self, kind: str, name: str, graph: Any, inputs: Sequence[Any]) -> str:
        """Return the requested device of a new operation in these scopes."""
        if not self.stack:
            return ""
        known = self.stack[-1][1]
        if known is not None:
            return known
        operation = _NewOperation(kind, (name or kind).removesuffix("/"), graph, inputs)
        for scope, _ in reversed(self.stack):
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
        merged = core.pybind_RequestDevice(own, scope)
        if len(_requests) < 4096:
            _requests[key] = merged
    return merged


class DeviceScope(Block):
    """The context manager that ``Graph.device`` and ``device`` return, of a string, a function or None.

    Entering it raises ValueError for a malformed string.
    """

    def __init__(self, scopes: Scopes, argument: Any) -> None:
        if argument is not None and not callable(argument):
            argument = texts.check_text("device name", name_of(argument))
        self._scopes = scopes
        self._argument: Scope = argument

    def __enter__(self) -> None:
        scope, stack = self._argument, self._scopes.stack
        if callable(scope):
            stack.append((scope, None))
        elif scope is None:
            stack.append((None, ""))
        else:
            inside = _request("", scope)  # rejects malformed strings, also inside a function scope
            outer = stack[-1][1] if stack else ""
            stack.append((scope, None if outer is None else _request(inside, outer) if outer else inside))

    def _leave(self, *_: object) -> None:
        stack = self._scopes.stack
        if not stack or stack[-1][0] is not self._argument:
            raise RuntimeError("Exiting device scope without proper scope nesting.")
        stack.pop()


raise_built_in_class(DeviceScope, everything=True)


_FIRST = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
_INNER = re.compile(r"^[A-Za-z0-9_.\\/>-]*$")


class NameScopes:
    """The name scopes of one graph. Each thread has its own, and the names in use are those of all."""

    def __init__(self) -> None:
        self._here = _Here()
        self._operations: set[str] = set()  # lower case, as names are not case-sensitive
        self._scopes: set[str] = set()
        self._numbers: dict[str, int] = {}  # by name: the smaller ones are in use

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

    def own(self, name: str) -> str:
        """Return the unique name of an operation as a scope, in which its constants are."""
        return name if name.endswith("/") else f"{self.unique(name)}/"

    def unique(self, name: str, mark_as_used: bool = True) -> str:
        """Return a name in the current scope that is not in use."""
        found = self._free(f"{self.current}/{name}" if self.current else name)
        if mark_as_used:
            self._scopes.add(found.lower())
        return found

    def _free(self, name: str) -> str:
        number = self._numbers.get(name.lower(), 0)
        while (found := f"{name}_{number}" if number else name).lower() in self._operations or (
            found.lower() in self._scopes
        ):
            number += 1
        self._numbers[name.lower()] = number
        return found

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


class NameScope(Block):
    """The context manager that ``Graph.name_scope`` returns, of a name or None."""

    def __init__(self, scopes: NameScopes, name: Any) -> None:
        self._scopes = scopes
        self._name = name

    def __enter__(self) -> str:
        return self._scopes.enter(self._name)

    def _leave(self, *_: object) -> None:
        self._scopes.leave()


TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._graph import Operation


class ControlDependencies(threading.local):
    """The ``with`` blocks of one thread in one graph, outermost first."""

    def __init__(self) -> None:
        self.stack: list[Controller] = []
        self.outer: list[list[Controller]] = []  # for each entered block, the stack before it

    def current(self) -> list[Operation]:
        """Return the control inputs of all blocks."""
        return [operation for controller in self.stack for operation in controller.control_inputs]

    def of(self, inputs: Collection[Operation]) -> list[Operation]:
        """Return the control inputs of a new operation that reads ``inputs``.

        As in TensorFlow, a block adds none to an operation that reads the result of another operation in the block,
        because that one has waited already.
        """
        found: list[Operation] = []
        for controller in self.stack:
            if not any(each in controller.made for each in inputs):
                found.extend(each for each in controller.control_inputs if each not in inputs)
        return found

    def note(self, operation: Operation) -> None:
        """Record that an operation was added inside the current blocks."""
        for controller in self.stack:
            controller.made.add(operation)


class Controller(Block):
    """The result of ``Graph.control_dependencies``: a context manager, in effect for the thread that enters it.

    With None in place of operations it disables all outer blocks.
    """

    def __init__(self, dependencies: ControlDependencies, operations: list[Operation] | None) -> None:
        self.control_inputs: list[Operation] = operations or []
        self.made: set[Operation] = set()
        self._dependencies = dependencies
        self._clears = operations is None

    def __enter__(self) -> None:
        within = self._dependencies
        within.outer.append(within.stack)
        within.stack = [self] if self._clears else [*within.stack, self]

    def _leave(self, *_: object) -> None:
        within = self._dependencies
        if not within.stack or within.stack[-1] is not self:
            raise AssertionError("Nesting violated: this control_dependencies block is not the innermost one")
        within.stack = within.outer.pop()


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


publish(__name__)
