# SPDX-License-Identifier: Apache-2.0
"""The types of the public names, from python/gpuconf/__init__.py. Written by pybind/build/generate.py; DO NOT EDIT."""

from . import allocators as allocators
from . import compat as compat
from . import config as config
from . import dask as dask
from . import debugging as debugging
from . import errors as errors
from . import memory as memory
from . import metrics as metrics
from . import ray as ray
from .allocators._configure import Configuration as Configuration
from ._core.device_spec import DeviceSpec as DeviceSpec
from .plans.fleets.fleet import FleetPlan as FleetPlan
from .leases.lease import Lease as Lease
from .plans.recordings.replay import Plan as Plan
from .plans.programs.answer import Rehearsal as Rehearsal
from .plans.programs.block import RehearsedBlock as RehearsedBlock
from .simulation.simulate import Simulation as Simulation
from .tensors.tensor import Tensor as Tensor
from ._core.devices import VisibleDevice as VisibleDevice
from .tensors.operations import add as add
from .tensors.operations import add_n as add_n
from .allocators._configure import configure as configure
from .tensors.operations import constant as constant
from .machine.cards import cuda_visible_devices as cuda_visible_devices
from ._core.scope import current_scope as current_scope
from ._core.scope import device as device
from .tensors.arrays import float32 as float32
from .tensors.arrays import float64 as float64
from .tensors.operations import identity as identity
from .compat._as_tensorflow import install_as_tensorflow as install_as_tensorflow
from .tensors.arrays import int32 as int32
from .leases.lease import lease as lease
from ._core.native import library_path as library_path
from .notebook import load_ipython_extension as load_ipython_extension
from .tensors.operations import matmul as matmul
from .memory._stats import max_memory as max_memory
from .plans.plan import plan as plan
from .plans.fleets.fleet import plan_fleet as plan_fleet
from .plans.programs.block import rehearse as rehearse
from .simulation.simulate import reset as reset
from .simulation.simulate import simulate as simulate
from .simulation.simulate import simulated as simulated
from .notebook import unload_ipython_extension as unload_ipython_extension
from .machine.cards import visible_devices as visible_devices
from .compat.v2 import distribute as distribute
from .compat.v2 import executing_eagerly as executing_eagerly
from .compat.v2 import random as random
from .compat.v2 import sysconfig as sysconfig
from .compat.v2 import test as test
from .compat.v2 import version as version

__version__: str
_HOMES: dict[str, str]
_SUBMODULES: frozenset[str]
_AS_TENSORFLOW: frozenset[str]
__all__ = [
    "Configuration",
    "DeviceSpec",
    "FleetPlan",
    "Lease",
    "Plan",
    "Rehearsal",
    "RehearsedBlock",
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
    "cuda_visible_devices",
    "current_scope",
    "debugging",
    "device",
    "errors",
    "get_include",
    "identity",
    "install_as_tensorflow",
    "lease",
    "library_path",
    "matmul",
    "max_memory",
    "memory",
    "metrics",
    "plan",
    "plan_fleet",
    "rehearse",
    "reset",
    "simulate",
    "simulated",
    "visible_devices",
]

def get_include() -> str: ...
def __dir__() -> list[str]: ...
