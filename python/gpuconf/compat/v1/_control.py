"""``control_dependencies``: operations that must run before those that are made in a ``with`` block."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection
from types import TracebackType

from ... import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._graph import Operation


class ControlDependencies(threading.local):
    """One thread's blocks in one graph, the outermost first."""

    def __init__(self) -> None:
        self._stack: list[Controller] = []
        self._outer: list[list[Controller]] = []  # by block that was entered: the stack before it

    def current(self) -> list[Operation]:
        """The operations of all blocks."""
        return [operation for controller in self._stack for operation in controller.control_inputs]

    def of(self, inputs: Collection[Operation]) -> list[Operation]:
        """The control inputs of a new operation that reads ``inputs``.

        As in TensorFlow, a block adds nothing to an operation that reads what was made inside the block: that has waited already.
        """
        found: list[Operation] = []
        for controller in self._stack:
            if not any(each in controller.made for each in inputs):
                found.extend(each for each in controller.control_inputs if each not in inputs)
        return found

    def note(self, operation: Operation) -> None:
        """Remember that an operation was made inside the blocks."""
        for controller in self._stack:
            controller.made.add(operation)

    def enter(self, controller: Controller, clears: bool) -> None:
        """Go into a block. One that clears puts all outer ones out of force."""
        self._outer.append(self._stack)
        self._stack = [controller] if clears else [*self._stack, controller]

    def leave(self, controller: Controller) -> None:
        """Come out of the innermost block. Raises AssertionError for another one."""
        if not self._stack or self._stack[-1] is not controller:
            raise errors.NestingError("Nesting violated: this control_dependencies block is not the one that was entered last")
        self._stack = self._outer.pop()

    def block(self, operations: list[Operation] | None) -> Controller:
        """A ``with`` block; None puts all outer ones out of force."""
        return Controller(self, operations)


class Controller:
    """What ``Graph.control_dependencies`` returns: a context manager for the thread that enters it."""

    _ending = staticmethod(sys.is_finalizing)

    def __init__(self, dependencies: ControlDependencies, operations: list[Operation] | None) -> None:
        self.control_inputs = operations or []
        self.made: set[Operation] = set()
        self._dependencies = dependencies
        self._clears = operations is None

    def __enter__(self) -> None:
        self._dependencies.enter(self, self._clears)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._ending():
            self._dependencies.leave(self)
