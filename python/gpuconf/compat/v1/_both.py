# SPDX-License-Identifier: Apache-2.0
"""What ``compat.v1`` does where operations run eagerly, and the functions that it has from ``compat.v2``."""

from __future__ import annotations

from functools import wraps
from importlib import import_module

from ..._core.built_in_errors import raising_built_in
from ..._typing import Any
from . import _graph
from ._mode import runs_eagerly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

# The functions of compat.v2 that have other names there.
_EAGER = {"random_normal": "normal", "random_uniform": "uniform"}
_OLD_ARGUMENTS = {"dim": "axis", "dimension": "axis", "keep_dims": "keepdims", "reduction_indices": "axis"}
# What adds an operation for a session to run, of which there is none: None instead.
_NOTHING = frozenset(
    ["global_variables_initializer", "local_variables_initializer", "tables_initializer", "variables_initializer"]
)


def in_2(name: str) -> Any:
    """Return a function or class of ``compat.v2``."""
    for module in ("_variable", "_ops"):
        found = getattr(import_module(f"gpuconf.compat.v2.{module}"), _EAGER.get(name, name), None)
        if found is not None:
            return found
    raise AttributeError(f"gpuconf.compat.v2 has no {name}")


def __getattr__(name: str) -> Any:
    """Return a function of ``compat.v2`` that adds to the default graph unless ``compat.v1`` runs eagerly."""
    if name.startswith("_"):
        raise AttributeError(name)
    function = in_2(name)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs = {_OLD_ARGUMENTS.get(key, key): value for key, value in kwargs.items()}
        if runs_eagerly():
            return function(*args, **kwargs)
        with _graph.get_default_graph().as_default():
            return function(*args, **kwargs)

    globals()[name] = call
    return call


def either(in_graph: F) -> F:
    """Let a function of ``compat.v1`` do what that of ``compat.v2`` does while operations run eagerly."""
    name, in_graph = in_graph.__name__, raising_built_in(in_graph)

    @wraps(in_graph)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not runs_eagerly():
            return in_graph(*args, **kwargs)
        if name in _NOTHING:
            return in_2("no_op")()
        if name == "placeholder":
            raise RuntimeError("tf.placeholder() is not compatible with eager execution.")
        kwargs.pop("verify_shape", None)
        return in_2(name)(*args, **kwargs)

    return call  # type: ignore[return-value]


_graph.device, _graph.control_dependencies = either(_graph.device), either(_graph.control_dependencies)
