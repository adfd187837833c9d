# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v1.keras.backend``: a session for each thread, as programs written for Keras set it."""

from __future__ import annotations

import threading

from ...._core.built_in_errors import raise_built_in
from ...._missing import watch
from ...._typing import Any
from ..._proto import ConfigProto
from ...v2.keras.backend import (
    backend,
    epsilon,
    floatx,
    image_data_format,
    set_epsilon,
    set_floatx,
    set_image_data_format,
    settings,
)
from .._graph import get_default_graph, get_default_session, reset_default_graph
from .._session import Session

__all__ = [
    "backend",
    "clear_session",
    "epsilon",
    "floatx",
    "get_session",
    "image_data_format",
    "manual_variable_initialization",
    "set_epsilon",
    "set_floatx",
    "set_image_data_format",
    "set_learning_phase",
    "set_session",
]


class _Kept(threading.local):
    session: Any = None


_kept = _Kept()


def set_session(session: Any) -> None:
    """Make a session the one that :func:`get_session` returns in this thread, unless the thread has a default session.

    >>> import gpuconf.compat.v1 as tf
    >>> tf.keras.backend.set_session(tf.Session(config=tf.ConfigProto(gpu_options=tf.GPUOptions(allow_growth=True))))
    >>> tf.keras.backend.clear_session()
    """
    _kept.session = session


def get_session(op_input_list: Any = ()) -> Any:
    """Return the default session of this thread, else the one that :func:`set_session` set.

    If there is none, or it runs a graph that is not the default graph, opens a new session with soft placement and
    keeps it. ``op_input_list`` is a tensor, or a sequence of tensors: the session must run their graph.
    """
    default = get_default_session()
    if default is not None:
        return default
    if _kept.session is None or _kept.session.graph is not _graph_of(op_input_list):
        _kept.session = Session(config=ConfigProto(allow_soft_placement=True))
    return _kept.session


def _graph_of(values: Any) -> Any:
    for each in values if isinstance(values, (list, tuple)) else (values,):
        if hasattr(each, "graph"):
            return each.graph
    return get_default_graph()


def clear_session() -> None:
    """Forget the session that :func:`set_session` set, and replace the default graph.

    Does not close the session: its GPU memory is free once nothing holds it. Raises AssertionError inside
    ``Graph.as_default()``.
    """
    reset_default_graph()
    _kept.session = None


def set_learning_phase(value: Any) -> None:
    """Store whether layers train. It has no effect: there are none here. Raises ValueError for anything but 0 and 1."""
    if value not in (0, 1):
        raise ValueError("Expected learning phase to be 0 or 1.")
    settings["learning_phase"] = value


def manual_variable_initialization(value: bool) -> None:
    """Store whether the program initializes variables itself. It has no effect: here it always does."""
    settings["manual_variable_initialization"] = value


raise_built_in(__name__, __all__)


def __dir__() -> list[str]:
    return __all__


watch(globals())
