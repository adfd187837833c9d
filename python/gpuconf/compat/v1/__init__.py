"""``tf.compat.v1``: graphs and sessions. ``config`` is the very module ``gpuconf.config``, under this name too.

Everything here builds graphs, whatever else a program does; ``gpuconf.constant`` and the others there run at once. There is
no switch between the two.

>>> import gpuconf.compat.v1 as tf
>>> with tf.Graph().as_default(), tf.Session() as session:
...     session.run(tf.matmul([[1.0, 2.0]], [[3.0], [4.0]]))
array([[11.]], dtype=float32)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ... import config, debugging, errors
from ..._core.public import name_after
from ..._typing import Any
from ...errors import OpError
from ._config_proto import ConfigProto, GPUOptions, GraphOptions, OptimizerOptions
from ._control import Controller
from ._eager import enable_eager_execution
from ._graph import Graph, Operation, Tensor, get_default_graph, get_default_session, reset_default_graph
from ._ops import add, add_n, constant, identity, matmul
from ._session import Session

__all__ = [
    "ConfigProto",
    "GPUOptions",
    "Graph",
    "GraphOptions",
    "OpError",
    "Operation",
    "OptimizerOptions",
    "Session",
    "Tensor",
    "add",
    "add_n",
    "config",
    "constant",
    "control_dependencies",
    "debugging",
    "device",
    "enable_eager_execution",
    "errors",
    "get_default_graph",
    "get_default_session",
    "identity",
    "matmul",
    "reset_default_graph",
]

# So that "import gpuconf.compat.v1.config" finds it as well.
sys.modules[__name__ + ".config"] = config


def control_dependencies(control_inputs: Iterable[Any] | None) -> Controller:
    """Make the operations of a ``with`` block run after others; see :meth:`Graph.control_dependencies`. For the default graph."""
    return get_default_graph().control_dependencies(control_inputs)


def device(device_name_or_function: Any) -> Any:
    """Choose the device of the operations that are made in the default graph in a ``with`` block.

    A string such as ``"/gpu:1"`` fills in what inner scopes leave open; ``None`` puts all outer scopes out of force; a function
    gets the operation and answers with a string, which overwrites what inner scopes say. Raises ValueError on entering for a
    string that doesn't parse. Whether the device exists is not checked here but when the operation is placed.
    """
    return get_default_graph().device(device_name_or_function)


TYPE_CHECKING = False
if TYPE_CHECKING:
    float32: Any
    float64: Any
    int32: Any
else:

    def __getattr__(name: str) -> Any:
        """``float32`` and so on, as in ``gpuconf``."""
        from ...tensors import arrays

        if name in arrays.DTYPES:
            return arrays.numpy().dtype(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


name_after(__name__, __all__)


def __dir__() -> list[str]:
    return __all__
