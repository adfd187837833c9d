"""gpuconf: TensorFlow's GPU configuration for any Python program.

Choose the GPUs that a process sees, set memory growth and hard memory limits, split a GPU into logical GPUs, and read
current and peak memory use. Works on real and simulated GPUs.

>>> import gpuconf as tf
>>> gpus = tf.config.list_physical_devices("GPU")
>>> tf.config.set_logical_device_configuration(gpus[0], [tf.config.LogicalDeviceConfiguration(memory_limit=1024)])
>>> len(tf.config.list_logical_devices("GPU"))
2

Importing gpuconf loads neither the compiled core nor CUDA. The first call that needs them loads them.
"""

from __future__ import annotations

from . import allocators, config, debugging, errors, memory
from ._core.devices import VisibleDevice
from ._core.native import library_path
from ._core.public import load_old_pickles, name_after
from ._core.scope import current_scope, device
from ._typing import Any
from .allocators._configure import Configuration, configure
from .machine.simulate import Simulation, reset, simulate, simulated
from .machine.visible import visible_devices
from .memory import _dask
from .planning.plan import Plan, plan
from .tensors.operations import add, add_n, constant, identity, matmul
from .tensors.tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import compat
    from .compat._as_tensorflow import install_as_tensorflow

__version__ = "0.1.0"

__all__ = [
    "Configuration",
    "Plan",
    "Simulation",
    "Tensor",
    "VisibleDevice",
    "__version__",
    "add",
    "add_n",
    "allocators",
    "compat",
    "config",
    "configure",
    "constant",
    "current_scope",
    "debugging",
    "device",
    "errors",
    "get_include",
    "identity",
    "install_as_tensorflow",
    "library_path",
    "matmul",
    "memory",
    "plan",
    "reset",
    "simulate",
    "simulated",
    "visible_devices",
]


_dask.register()
name_after(__name__, __all__)
load_old_pickles()


def get_include() -> str:
    """Return the directory of ``gpuconf.h``, for C and C++ programs that link against ``library_path()``."""
    import os

    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


if TYPE_CHECKING:
    float32: Any
    float64: Any
    int32: Any
else:

    def __getattr__(name: str) -> Any:
        """Load an attribute on first use.

        ``compat`` is a quarter of this package, and most programs do not use it. ``float32``, ``float64`` and ``int32`` are
        NumPy types, and nothing else here needs NumPy.
        """
        if name == "compat":
            import importlib

            return importlib.import_module(".compat", __name__)
        if name == "install_as_tensorflow":
            import importlib

            return importlib.import_module(".compat._as_tensorflow", __name__).install_as_tensorflow
        from .tensors import arrays

        if name in arrays.DTYPES:
            return arrays.numpy().dtype(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
