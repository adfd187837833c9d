# SPDX-License-Identifier: Apache-2.0
"""``control_dependencies``: operations that run before those that a ``with`` block adds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection
from types import TracebackType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._graph import Operation


class ControlDependencies(threading.local):
    """The ``with`` blocks of one thread in one graph, outermost first."""

    def __init__(self) -> None:
        self._stack: list[Controller] = []
        self._outer: list[list[Controller]] = []  # for each entered block, the stack before it

    def current(self) -> list[Operation]:
        """Return the control inputs of all blocks."""
        return [operation for controller in self._stack for operation in controller.control_inputs]

    def of(self, inputs: Collection[Operation]) -> list[Operation]:
        """Return the control inputs of a new operation that reads ``inputs``.

        As in TensorFlow, a block adds none to an operation that reads the result of another operation in the block,
        because that one has waited already.
        """
        found: list[Operation] = []
        for controller in self._stack:
            if not any(each in controller.made for each in inputs):
                found.extend(each for each in controller.control_inputs if each not in inputs)
        return found

    def note(self, operation: Operation) -> None:
        """Record that an operation was added inside the current blocks."""
        for controller in self._stack:
            controller.made.add(operation)

    def enter(self, controller: Controller, clears: bool) -> None:
        """Enter a block. If ``clears`` is true, it disables all outer blocks."""
        self._outer.append(self._stack)
        self._stack = [controller] if clears else [*self._stack, controller]

    def leave(self, controller: Controller) -> None:
        """Leave the innermost block. Raises AssertionError for any other block."""
        if not self._stack or self._stack[-1] is not controller:
            raise AssertionError("Nesting violated: this control_dependencies block is not the innermost one")
        self._stack = self._outer.pop()

    def block(self, operations: list[Operation] | None) -> Controller:
        """Return a context manager for a block. None disables all outer blocks."""
        return Controller(self, operations)


class Controller:
    """The result of ``Graph.control_dependencies``: a context manager, in effect for the thread that enters it."""

    _ending = staticmethod(sys.is_finalizing)

    def __init__(self, dependencies: ControlDependencies, operations: list[Operation] | None) -> None:
        self.control_inputs: list[Operation] = operations or []
        self.made: set[Operation] = set()
        self._dependencies = dependencies
        self._clears = operations is None

    def __enter__(self) -> None:
        self._dependencies.enter(self, self._clears)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ending():
            self._dependencies.leave(self)
