# SPDX-License-Identifier: Apache-2.0
"""``tf.name_scope``."""

from __future__ import annotations

import sys
import threading

from ..._typing import Any
from ..v1._graph import get_default_graph
from ..v1._mode import executing_eagerly


class _Here(threading.local):
    """The scopes of one thread where operations run eagerly, outermost first, each with the outer ones and a slash."""

    def __init__(self) -> None:
        self.entered: list[str] = []


_here = _Here()


def in_scope(name: str) -> str:
    """Return the name of a variable in the scope of this thread, where operations run eagerly."""
    return f"{_here.entered[-1]}{name}" if _here.entered else name


class name_scope:  # noqa: N801 - TensorFlow's name
    """Put a name before those of the operations that a ``with`` block adds to a graph; see ``Graph.name_scope``.

    Where operations run eagerly, it names variables. Raises ValueError for a name that is not a str.

    >>> import gpuconf.compat.v2 as tf
    >>> with tf.name_scope("layer"):
    ...     tf.Variable(1.0, name="weight").name
    'layer/weight:0'
    """

    _ending = staticmethod(sys.is_finalizing)

    def __init__(self, name: Any) -> None:
        if not isinstance(name, str):
            raise ValueError("name for name_scope must be a string.")
        self._name = name
        self._in_graph: list[Any] = []  # for each time it is entered, the scope of a graph, or None

    @property
    def name(self) -> str:
        """The requested name."""
        return self._name

    def __enter__(self) -> str:
        if executing_eagerly():
            inner = self._name if self._name.endswith("/") or not self._name else f"{in_scope(self._name)}/"
            _here.entered.append(inner)
            self._in_graph.append(None)
            return inner
        scope = get_default_graph().name_scope(self._name)
        name: str = scope.__enter__()
        self._in_graph.append(scope)
        return name

    def __exit__(self, *error: Any) -> None:
        if self._ending():
            return
        scope = self._in_graph.pop()
        if scope is None:
            _here.entered.pop()
        else:
            scope.__exit__(*error)
