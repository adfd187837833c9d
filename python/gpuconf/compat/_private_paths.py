# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's private modules that public programs import from, where gpuconf has their functions by public names."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from .._missing import error_for
from .._typing import Any

_ARRAYS = ("compat.v2", "compat.v1", "compat.v2.random", "compat.v2.math", "compat.v2.linalg")
_STRATEGIES = ("compat.v2.distribute", "compat.v2.distribute.experimental")

# By module below tensorflow.python: the modules of gpuconf that have its names, the first one first.
_PATHS: dict[str, tuple[str, ...]] = {
    "compat.v2_compat": ("compat.v1",),
    "data.ops.options": ("compat.v2.data", "compat.v2.data.experimental"),
    "distribute.central_storage_strategy": _STRATEGIES,
    "distribute.cluster_resolver": ("compat.v2.distribute.cluster_resolver",),
    "distribute.collective_all_reduce_strategy": _STRATEGIES,
    "distribute.cross_device_ops": _STRATEGIES,
    "distribute.distribute_lib": _STRATEGIES,
    "distribute.mirrored_strategy": _STRATEGIES,
    "distribute.one_device_strategy": _STRATEGIES,
    "distribute.reduce_util": _STRATEGIES,
    "distribute.tpu_strategy": _STRATEGIES,
    "distribute.values": _STRATEGIES,
    "eager.def_function": ("compat.v2",),
    "framework.constant_op": ("compat.v2",),
    "framework.device": ("compat.v2",),
    "framework.graph_util": (),
    "framework.random_seed": ("compat.v1", "compat.v2.random"),
    "framework.tensor_shape": ("compat.v2",),
    "framework.test_util": ("compat.v2.test",),
    "framework.versions": ("compat.v2.version", "compat.v1"),
    "ops.array_ops": _ARRAYS,
    "ops.control_flow_ops": _ARRAYS,
    "ops.init_ops": _ARRAYS,
    "ops.linalg_ops": _ARRAYS,
    "ops.math_ops": _ARRAYS,
    "ops.random_ops": _ARRAYS,
    "ops.state_ops": _ARRAYS,
    "ops.variable_scope": ("compat.v1",),
    "ops.variables": _ARRAYS,
    "platform.app": ("compat.v1.app",),
    "platform.flags": ("compat.v1.flags",),
    "platform.gfile": ("compat.v1.gfile",),
    "platform.sysconfig": ("compat.v2.sysconfig",),
    "training.server_lib": ("compat.v2.train",),
    "util.compat": ("compat",),
}
_MADE = ("compat", "data", "data.ops", "distribute", "ops", "training")  # folders of which gpuconf has nothing else
PYTHON = "gpuconf.compat.v2.python."


def private_module(name: str) -> ModuleType | None:
    """Return the module for a name such as ``gpuconf.compat.v2.python.ops.math_ops``, or None."""
    path = name.removeprefix(PYTHON)
    return _made(name, path) if path in _PATHS or path in _MADE else None


def _made(name: str, path: str) -> ModuleType:
    module = ModuleType(name, f"``tensorflow.python.{path}``: the functions that gpuconf has by public names.")
    if path in _MADE:
        module.__path__ = []

    def found(attribute: str) -> Any:
        """Return a name of the public modules."""
        for each in () if attribute.startswith("_") else _PATHS.get(path, ()):
            public = import_module(f"gpuconf.{each}")
            if attribute in dir(public) or attribute in vars(public):
                return getattr(public, attribute)
        if attribute.startswith("_") or path not in _PATHS:
            raise error_for(name, attribute, sys._getframe(1))
        raise AttributeError(f"gpuconf does not have tensorflow.python.{path}.{attribute}: it needs TensorFlow")

    module.__getattr__ = found  # type: ignore[method-assign]
    return module
