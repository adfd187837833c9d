# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.framework.ops``: the functions of ``compat.v1`` that programs import from here."""

from __future__ import annotations

from ....._core.built_in_errors import raise_built_in
from ....v1._graph import Graph, get_default_graph, get_default_session, reset_default_graph
from ....v1._mode import (
    disable_eager_execution,
    enable_eager_execution,
    executing_eagerly,
    executing_eagerly_outside_functions,
)

__all__ = [
    "Graph",
    "disable_eager_execution",
    "enable_eager_execution",
    "executing_eagerly",
    "executing_eagerly_outside_functions",
    "get_default_graph",
    "get_default_session",
    "reset_default_graph",
]

raise_built_in(__name__, __all__)


def __dir__() -> list[str]:
    return __all__
