# SPDX-License-Identifier: Apache-2.0
"""Limit, share, measure and simulate the GPU memory of Python programs.

>>> import gpuconf
>>> # PyTorch, CuPy and Numba together, before they use the GPU
>>> configuration = gpuconf.configure(limit="6GiB", growth=True)
>>> gpuconf.memory.stats("GPU:0").bytes_limit
6442450944

:func:`configure` limits, :func:`lease` shares a card, :mod:`gpuconf.memory` measures, :func:`simulate` simulates GPUs,
:func:`plan` says whether a job fits. :mod:`gpuconf.config` and :mod:`gpuconf.compat` have TensorFlow's names: ``import
gpuconf as tf``.

Importing gpuconf loads neither the compiled core nor CUDA. The first call that needs them loads them.
"""

from __future__ import annotations

from os import environ as _environ

from ._core import when_loaded
from ._core.fork import import_lock
from ._core.public import explain_imports, load_old_pickles

__version__ = "0.4.0"

_SUBMODULES = frozenset(("allocators", "compat", "config", "dask", "debugging", "errors", "memory", "metrics", "ray"))

# Public name: the module that defines it. A class there has `__module__ = "gpuconf"`. `make generate` writes
# __init__.pyi, which type checkers read, from these tables.
_HOMES = {
    "Configuration": "allocators._configure",
    "DeviceSpec": "_core.device_spec",
    "FleetPlan": "plans.fleets.fleet",
    "Lease": "leases.lease",
    "Plan": "plans.recordings.replay",
    "Rehearsal": "plans.programs.answer",
    "RehearsedBlock": "plans.programs.block",
    "Simulation": "simulation.simulate",
    "Tensor": "tensors.tensor",
    "VisibleDevice": "_core.devices",
    "add": "tensors.operations",
    "add_n": "tensors.operations",
    "configure": "allocators._configure",
    "constant": "tensors.operations",
    "cuda_visible_devices": "machine.cards",
    "current_scope": "_core.scope",
    "device": "_core.scope",
    "float32": "tensors.arrays",
    "float64": "tensors.arrays",
    "identity": "tensors.operations",
    "install_as_tensorflow": "compat._as_tensorflow",
    "int32": "tensors.arrays",
    "lease": "leases.lease",
    "library_path": "_core.native",
    "load_ipython_extension": "notebook",
    "matmul": "tensors.operations",
    "max_memory": "memory._stats",
    "plan": "plans.plan",
    "plan_fleet": "plans.fleets.fleet",
    "rehearse": "plans.programs.block",
    "reset": "simulation.simulate",
    "simulate": "simulation.simulate",
    "simulated": "simulation.simulate",
    "unload_ipython_extension": "notebook",
    "visible_devices": "machine.cards",
}

# TensorFlow's names that ``import gpuconf as tf`` has, too: those of compat.v2. They are not listed among gpuconf's
# own.
_AS_TENSORFLOW = frozenset(("distribute", "executing_eagerly", "random", "sysconfig", "test", "version"))

# What is not listed: modules that import Dask and Ray, TensorFlow's names of types, and those that IPython looks for.
_UNLISTED = ("dask", "float32", "float64", "int32", "load_ipython_extension", "ray", "unload_ipython_extension")

__all__ = sorted({"__version__", "get_include", *_HOMES, *_SUBMODULES}.difference(_UNLISTED))

# What no signal handler uses. Importing it with the core would take as long as all else of the first call.
_ON_FIRST_USE = ("allocators._", "leases", "plans", "tensors")

load_old_pickles()
explain_imports()
if _environ.get("GPUCONF_SIMULATE"):
    from .simulation import prepare_simulated_libraries

    prepare_simulated_libraries()

if _environ.get("GPUCONF_LIMIT") or _environ.get("NVIDIA_GPU_MEMORY_LIMIT"):
    from .jobs import limited

    limited.follow()
    del limited

# The lock of imports on first use. Not a global: a fork's handlers keep what they refer to, and these globals refer to
# much.
_locks = {}
_locks["importing"] = import_lock(_locks, "importing")


def get_include() -> str:
    """Return the directory of ``gpuconf.h``, for C and C++ programs that link against ``library_path()``."""
    import os

    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


def __getattr__(name: str) -> object:
    """Import a public name on first use: importing all of them takes longer than starting Python."""
    import sys

    if name in _AS_TENSORFLOW:
        with _locks["importing"]:
            __import__(f"{__name__}.compat.v2")
            value = globals()[name] = getattr(sys.modules[f"{__name__}.compat.v2"], name)
        return value
    if name not in _HOMES and name not in _SUBMODULES:
        frame = sys._getframe(1)
        with _locks["importing"]:
            from ._missing import error_for
        raise error_for(__name__, name, frame)
    module = f"{__name__}.{_HOMES.get(name, name)}"
    with _locks["importing"]:  # one thread at a time, and no fork meanwhile
        if _HOMES.get(name, "").startswith(_ON_FIRST_USE):  # a child must not import: see native._load
            from ._core.native import refuse_in_child

            refuse_in_child()
        __import__(module)
        value = globals()[name] = getattr(sys.modules[module], name) if name in _HOMES else sys.modules[module]
    return value


def _import_the_rest() -> None:
    """Import the other modules with the core: a signal handler could use one whose import it has interrupted.

    Without those of _ON_FIRST_USE, and those that work without the core.
    """
    import sys

    module = sys.modules[__name__]
    for name in __all__:
        if not _HOMES.get(name, name).startswith(("compat", "metrics", "notebook", *_ON_FIRST_USE)):
            getattr(module, name)


when_loaded.append(_import_the_rest)


def __dir__() -> list[str]:
    return __all__
