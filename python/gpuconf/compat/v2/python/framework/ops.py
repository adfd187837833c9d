# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.framework.ops``: what programs import from here."""

from __future__ import annotations

from ....._core.built_in_errors import raise_built_in
from ....._missing import watch
from ....v1._graph import Graph, Operation, get_default_graph, get_default_session, reset_default_graph
from ....v1._mode import (
    disable_eager_execution,
    enable_eager_execution,
    executing_eagerly,
    executing_eagerly_outside_functions,
)
from ..._name_scope import name_scope
from ..._ops import Tensor, control_dependencies, convert_to_tensor, device

__all__ = [
    "Graph",
    "Operation",
    "Tensor",
    "control_dependencies",
    "convert_to_tensor",
    "device",
    "disable_eager_execution",
    "enable_eager_execution",
    "executing_eagerly",
    "executing_eagerly_outside_functions",
    "get_default_graph",
    "get_default_session",
    "name_scope",
    "reset_default_graph",
]

raise_built_in(__name__, [name for name in __all__ if name not in ("Operation", "Tensor")])


def __dir__() -> list[str]:
    return __all__


watch(globals())
