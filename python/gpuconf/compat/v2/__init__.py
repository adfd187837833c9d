# SPDX-License-Identifier: Apache-2.0
"""``tf.compat.v2``: TensorFlow as a program sees it that configures GPUs. Use it as ``import gpuconf.compat.v2 as tf``.

Operations run eagerly, or build graphs inside ``Graph.as_default()``, in sessions, and after
``compat.v1.disable_v2_behavior()``. ``config`` is the module ``gpuconf.config``, and ``__version__`` is that of the
TensorFlow release that gpuconf is compared with.

>>> import gpuconf.compat.v2 as tf
>>> tf.__version__
'2.21.0'
>>> [gpu.name for gpu in tf.config.list_logical_devices("GPU")]
['/device:GPU:0', '/device:GPU:1']
"""

from __future__ import annotations

import sys

from ... import config, debugging, errors
from ..._core.built_in_errors import raise_built_in
from ..._core.device_spec import DeviceSpec
from ..._core.public import name_after
from ..._missing import error_for
from ..._typing import Any
from .._aliases import alias
from .._dtypes import NAMES, DType, as_dtype
from .._logger import get_logger
from .._shape import TensorShape
from ..v1._graph import Graph, Operation
from ..v1._mode import enable_v2_behavior, executing_eagerly
from . import (
    autograph,
    data,
    distribute,
    experimental,
    io,
    keras,
    linalg,
    math,
    python,
    random,
    sysconfig,
    test,
    tpu,
    train,
    version,
)
from ._function import function
from ._name_scope import name_scope
from ._ops import (
    Tensor,
    add,
    add_n,
    cast,
    constant,
    control_dependencies,
    convert_to_tensor,
    device,
    divide,
    exp,
    eye,
    fill,
    identity,
    is_tensor,
    matmul,
    multiply,
    ones,
    ones_like,
    pow,  # noqa: A004
    reduce_max,
    reduce_mean,
    reduce_sum,
    reshape,
    sqrt,
    square,
    subtract,
    zeros,
    zeros_like,
)
from ._ops import print_ as print  # noqa: A004
from ._variable import Variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ... import compat
else:
    compat = sys.modules["gpuconf.compat"]

__version__ = version.VERSION
__git_version__ = version.GIT_VERSION
__compiler_version__ = version.COMPILER_VERSION

__all__ = [
    "DType",
    "DeviceSpec",
    "Graph",
    "Operation",
    "Tensor",
    "TensorShape",
    "Variable",
    "__compiler_version__",
    "__git_version__",
    "__version__",
    "add",
    "add_n",
    "as_dtype",
    "autograph",
    "cast",
    "compat",
    "config",
    "constant",
    "control_dependencies",
    "convert_to_tensor",
    "data",
    "debugging",
    "device",
    "distribute",
    "divide",
    "enable_v2_behavior",
    "errors",
    "executing_eagerly",
    "exp",
    "experimental",
    "eye",
    "fill",
    "function",
    "get_logger",
    "identity",
    "io",
    "is_tensor",
    "keras",
    "linalg",
    "math",
    "matmul",
    "multiply",
    "name_scope",
    "ones",
    "ones_like",
    "pow",
    "print",
    "python",
    "random",
    "reduce_max",
    "reduce_mean",
    "reduce_sum",
    "reshape",
    "sqrt",
    "square",
    "subtract",
    "sysconfig",
    "test",
    "tpu",
    "train",
    "version",
    "zeros",
    "zeros_like",
]

# Makes "import gpuconf.compat.v2.config" work.
alias(__name__, config=config, debugging=debugging, errors=errors)
name_after(__name__, ["Tensor"])

if TYPE_CHECKING:
    float32: Any
    float64: Any
    int32: Any
else:

    def __getattr__(name: str) -> Any:
        """Return a type of elements, such as ``float32``."""
        if name in NAMES:
            return as_dtype(name)
        raise error_for(__name__, name, sys._getframe(1))


raise_built_in(__name__, __all__)


def __dir__() -> list[str]:
    return __all__
