# SPDX-License-Identifier: Apache-2.0
"""What ``compat.v1`` does where operations run eagerly, and the functions that it has from ``compat.v2``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module

from ..._typing import Any
from ._graph import get_default_graph
from ._mode import runs_eagerly

# The functions of compat.v2 that have other names there.
_EAGER = {"random_normal": "normal", "random_uniform": "uniform"}
_OLD_ARGUMENTS = {"reduction_indices": "axis", "keep_dims": "keepdims"}
# What adds an operation for a session to run, of which there is none: None instead.
_NOTHING = frozenset(
    [
        "global_variables_initializer",
        "group",
        "local_variables_initializer",
        "no_op",
        "tables_initializer",
        "variables_initializer",
    ]
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
        if runs_eagerly():
            return function(*args, **kwargs)
        with get_default_graph().as_default():
            return function(*args, **kwargs)

    globals()[name] = call
    return call


def run_eagerly_too(module: str, *names: str) -> None:
    """Let functions of a module of ``compat.v1`` do what those of ``compat.v2`` do while operations run eagerly."""
    namespace = vars(sys.modules[module])
    for name in names:
        namespace[name] = _either(namespace[name], name)


def _either(in_graph: Any, name: str) -> Callable[..., Any]:
    @wraps(in_graph)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not runs_eagerly():
            return in_graph(*args, **kwargs)
        if name in _NOTHING:
            return None
        if name == "placeholder":
            raise RuntimeError("tf.placeholder() is not compatible with eager execution.")
        kwargs.pop("verify_shape", None)
        kwargs = {_OLD_ARGUMENTS.get(key, key): value for key, value in kwargs.items()}
        return in_2(name)(*args, **kwargs)

    return call


run_eagerly_too(f"{__package__}._graph", "control_dependencies", "device")
