# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v1``: graphs and sessions. ``config`` is the module ``gpuconf.config``.

The operations in this module always build graphs. Those of ``gpuconf``, such as ``gpuconf.constant``, always run
eagerly. There is no switch between the two.

>>> import gpuconf.compat.v1 as tf
>>> with tf.Graph().as_default(), tf.Session() as session:
...     session.run(tf.matmul([[1.0, 2.0]], [[3.0], [4.0]]))
array([[11.]], dtype=float32)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ... import config, debugging, errors
from ..._core.built_in_errors import raise_built_in
from ..._core.device_spec import MutableDeviceSpec as DeviceSpec
from ..._core.public import name_after
from ..._missing import error_for
from ..._typing import Any
from ...errors import OpError
from .._aliases import alias
from .._dtypes import NAMES, DType, as_dtype
from .._logger import get_logger
from .._proto import ConfigProto, GPUOptions, GraphDef, GraphOptions, NodeDef, OptimizerOptions
from .._shape import TensorShape
from ..v2 import autograph, data, distribute, io, sysconfig, test, tpu, version
from . import gfile, keras, logging, random, train
from ._control import Controller
from ._graph import (
    Graph,
    Operation,
    Tensor,
    get_default_graph,
    get_default_session,
    reset_default_graph,
)
from ._initializers import (
    constant_initializer,
    glorot_uniform_initializer,
    ones_initializer,
    random_normal_initializer,
    random_uniform_initializer,
    truncated_normal_initializer,
    zeros_initializer,
)
from ._mode import (
    disable_eager_execution,
    disable_tensor_equality,
    disable_v2_behavior,
    enable_eager_execution,
    enable_tensor_equality,
    enable_v2_behavior,
    executing_eagerly,
    executing_eagerly_outside_functions,
)
from ._ops import (
    add,
    add_n,
    cast,
    constant,
    divide,
    fill,
    group,
    identity,
    initialize_all_tables,
    initialize_local_variables,
    local_variables_initializer,
    matmul,
    multiply,
    name_scope,
    no_op,
    ones,
    placeholder,
    random_normal,
    random_uniform,
    reduce_mean,
    reduce_sum,
    subtract,
    tables_initializer,
    truncated_normal,
    zeros,
)
from ._scoped_variables import get_variable_scope, variable_scope
from ._seed import set_random_seed
from ._session import InteractiveSession, Session
from ._switches import (
    disable_control_flow_v2,
    disable_resource_variables,
    disable_v2_tensorshape,
    enable_control_flow_v2,
    enable_resource_variables,
    enable_v2_tensorshape,
)
from ._variable_scopes import AUTO_REUSE, VariableScope
from ._variables import (
    Variable,
    all_variables,
    assign,
    assign_add,
    assign_sub,
    get_variable,
    global_variables,
    global_variables_initializer,
    initialize_all_variables,
    initialize_variables,
    local_variables,
    trainable_variables,
    variables_initializer,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ... import compat
else:
    compat = sys.modules["gpuconf.compat"]

__version__ = VERSION = version.VERSION
__git_version__ = GIT_VERSION = version.GIT_VERSION
__compiler_version__ = COMPILER_VERSION = version.COMPILER_VERSION

__all__ = [
    "AUTO_REUSE",
    "COMPILER_VERSION",
    "GIT_VERSION",
    "VERSION",
    "ConfigProto",
    "DType",
    "DeviceSpec",
    "GPUOptions",
    "Graph",
    "GraphDef",
    "GraphOptions",
    "InteractiveSession",
    "NodeDef",
    "OpError",
    "Operation",
    "OptimizerOptions",
    "Session",
    "Tensor",
    "TensorShape",
    "Variable",
    "VariableScope",
    "__compiler_version__",
    "__git_version__",
    "__version__",
    "add",
    "add_n",
    "all_variables",
    "as_dtype",
    "assign",
    "assign_add",
    "assign_sub",
    "autograph",
    "cast",
    "compat",
    "config",
    "constant",
    "constant_initializer",
    "control_dependencies",
    "data",
    "debugging",
    "device",
    "disable_control_flow_v2",
    "disable_eager_execution",
    "disable_resource_variables",
    "disable_tensor_equality",
    "disable_v2_behavior",
    "disable_v2_tensorshape",
    "distribute",
    "divide",
    "enable_control_flow_v2",
    "enable_eager_execution",
    "enable_resource_variables",
    "enable_tensor_equality",
    "enable_v2_behavior",
    "enable_v2_tensorshape",
    "errors",
    "executing_eagerly",
    "executing_eagerly_outside_functions",
    "fill",
    "get_default_graph",
    "get_default_session",
    "get_logger",
    "get_variable",
    "get_variable_scope",
    "gfile",
    "global_variables",
    "global_variables_initializer",
    "glorot_uniform_initializer",
    "group",
    "identity",
    "initialize_all_tables",
    "initialize_all_variables",
    "initialize_local_variables",
    "initialize_variables",
    "io",
    "keras",
    "local_variables",
    "local_variables_initializer",
    "logging",
    "matmul",
    "multiply",
    "name_scope",
    "no_op",
    "ones",
    "ones_initializer",
    "placeholder",
    "random",
    "random_normal",
    "random_normal_initializer",
    "random_uniform",
    "random_uniform_initializer",
    "reduce_mean",
    "reduce_sum",
    "reset_default_graph",
    "set_random_seed",
    "subtract",
    "sysconfig",
    "tables_initializer",
    "test",
    "tpu",
    "train",
    "trainable_variables",
    "truncated_normal",
    "truncated_normal_initializer",
    "variable_scope",
    "variables_initializer",
    "version",
    "zeros",
    "zeros_initializer",
]

# Makes "import gpuconf.compat.v1.config" work.
alias(
    __name__,
    config=config,
    data=data,
    debugging=debugging,
    distribute=distribute,
    errors=errors,
    io=io,
    sysconfig=sysconfig,
    test=test,
    tpu=tpu,
    version=version,
)


def control_dependencies(control_inputs: Iterable[Any] | None) -> Controller:
    """Add control dependencies to the operations that a ``with`` block adds to the default graph.

    See :meth:`Graph.control_dependencies`.
    """
    return get_default_graph().control_dependencies(control_inputs)


def device(device_name_or_function: Any) -> Any:
    """Set the device of the operations that a ``with`` block adds to the default graph.

    A string such as ``"/gpu:1"`` sets the fields that inner scopes leave unset. ``None`` disables all outer scopes. A
    function takes the operation and returns a string, which overrides inner scopes. Raises ValueError on entry for a
    malformed string. Whether the device exists is checked later, when the operation is placed.
    """
    return get_default_graph().device(device_name_or_function)


if TYPE_CHECKING:
    float32: Any
    float64: Any
    int32: Any
else:

    def __getattr__(name: str) -> Any:
        """Return a type of elements, such as ``float32``, or a module that few need:
        ``flags``, ``app``, ``summary``.
        """
        if name in NAMES:
            return as_dtype(name)
        if name in ("app", "flags", "summary"):
            from importlib import import_module

            return import_module(f"{__name__}.{name}")
        raise error_for(__name__, name, sys._getframe(1))


name_after(__name__, __all__)

raise_built_in(__name__, __all__)


def __dir__() -> list[str]:
    return __all__
