# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v1.variable_scope``: enters a variable scope of the default graph."""

from __future__ import annotations

import sys
from contextlib import nullcontext

from ..._typing import Any
from ._graph import get_default_graph
from ._variable_scopes import VariableScope


class variable_scope:  # noqa: N801 - TensorFlow's name
    """Put a name before those of the variables that ``get_variable`` adds in a ``with`` block.

    ``name_or_scope`` is a name or a VariableScope; if it is None, ``default_name`` with a number that makes it new.
    ``reuse`` is True, to return existing variables only, or ``AUTO_REUSE``, to return existing variables and add
    others. ``initializer`` and ``dtype`` apply to variables that are added without. The block is in a name scope, too,
    unless ``auxiliary_name_scope`` is False. The other arguments have no effect.

    Raises ValueError if there is no name, and TypeError for something else than a name.

    >>> import gpuconf.compat.v1 as tf
    >>> with tf.Graph().as_default(), tf.variable_scope("layer"):
    ...     tf.get_variable("weight", [2])
    <tf.Variable 'layer/weight:0' shape=(2,) dtype=float32>
    """

    _ending = staticmethod(sys.is_finalizing)

    def __init__(
        self,
        name_or_scope: Any,
        default_name: str | None = None,
        values: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        reuse: Any = None,
        dtype: Any = None,
        use_resource: Any = None,
        constraint: Any = None,
        auxiliary_name_scope: bool = True,
    ) -> None:
        del values, regularizer, caching_device, partitioner, custom_getter, use_resource, constraint
        if default_name is None and name_or_scope is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if not isinstance(name_or_scope, (str, VariableScope, type(None))):
            raise TypeError("VariableScope: name_or_scope must be a string or VariableScope.")
        if reuse is False:
            reuse = None  # inherited, as in TensorFlow
        if name_or_scope is None and reuse:
            raise ValueError("reuse=True cannot be used without a name_or_scope")
        self._asked, self._default = name_or_scope, default_name
        self._set = {"initializer": initializer, "reuse": reuse, "dtype": dtype}
        self._auxiliary = auxiliary_name_scope
        self._left: list[Any] = []

    def __enter__(self) -> VariableScope:
        graph = get_default_graph()
        scopes = graph.variable_scopes
        outer = scopes.current
        asked = self._asked if self._asked is not None else scopes.unique(str(self._default))
        own = asked.name if isinstance(asked, VariableScope) else outer.full(asked) if asked else outer.name
        last = (asked.name.rpartition("/")[2] if isinstance(asked, VariableScope) else asked) or None
        names = (
            graph.name_scope(last)
            if self._auxiliary and last
            else nullcontext(f"{graph.get_name_scope()}/".lstrip("/"))
        )
        name_scope = names.__enter__()
        base = asked if isinstance(asked, VariableScope) else outer
        scopes.current = VariableScope(
            own,
            asked.original_name_scope if isinstance(asked, VariableScope) else name_scope,
            self._set["reuse"] or outer.reuse or base.reuse,
            self._set["initializer"] or base.initializer,
            self._set["dtype"] or base.dtype,
        )
        for name in [name for name in scopes.counts if name.startswith(f"{own}/")]:
            del scopes.counts[name]
        scopes.counts[own] = scopes.counts.get(own, 0) + 1
        self._left.append((scopes, outer, names))
        return scopes.current

    def __exit__(self, *error: Any) -> None:
        if self._ending():
            return
        scopes, outer, names = self._left.pop()
        scopes.current = outer
        names.__exit__(*error)


def get_variable_scope() -> VariableScope:
    """Return the variable scope of this thread in the default graph. Outside of all, its name is ``""``."""
    return get_default_graph().variable_scopes.current
