# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.framework.config``: the functions of ``tf.config`` that public code imports from here."""

from __future__ import annotations

from ....._missing import watch
from .....config import (
    functions_run_eagerly,
    get_logical_device_configuration,
    get_soft_device_placement,
    get_visible_devices,
    list_logical_devices,
    list_physical_devices,
    run_functions_eagerly,
    set_logical_device_configuration,
    set_soft_device_placement,
    set_visible_devices,
)
from .....config.experimental import (
    disable_mlir_bridge,
    enable_mlir_bridge,
    enable_tensor_float_32_execution,
    get_device_details,
    get_device_policy,
    get_memory_growth,
    get_memory_info,
    get_memory_usage,
    get_synchronous_execution,
    reset_memory_stats,
    set_device_policy,
    set_memory_growth,
    set_synchronous_execution,
    tensor_float_32_execution_enabled,
)
from .....config.optimizer import get_experimental_options as get_optimizer_experimental_options
from .....config.optimizer import get_jit as get_optimizer_jit
from .....config.optimizer import set_experimental_options as set_optimizer_experimental_options
from .....config.optimizer import set_jit as set_optimizer_jit
from .....config.threading import (
    get_inter_op_parallelism_threads,
    get_intra_op_parallelism_threads,
    set_inter_op_parallelism_threads,
    set_intra_op_parallelism_threads,
)

_deterministic = False


def enable_op_determinism() -> None:
    """Store it. Has no effect: gpuconf's operations are always deterministic."""
    global _deterministic
    _deterministic = True


def disable_op_determinism() -> None:
    """Store it. Has no effect: gpuconf's operations are always deterministic."""
    global _deterministic
    _deterministic = False


def is_op_determinism_enabled() -> bool:
    """Return what was stored."""
    return _deterministic


__all__ = [
    "disable_mlir_bridge",
    "disable_op_determinism",
    "enable_mlir_bridge",
    "enable_op_determinism",
    "enable_tensor_float_32_execution",
    "functions_run_eagerly",
    "get_device_details",
    "get_device_policy",
    "get_inter_op_parallelism_threads",
    "get_intra_op_parallelism_threads",
    "get_logical_device_configuration",
    "get_memory_growth",
    "get_memory_info",
    "get_memory_usage",
    "get_optimizer_experimental_options",
    "get_optimizer_jit",
    "get_soft_device_placement",
    "get_synchronous_execution",
    "get_visible_devices",
    "is_op_determinism_enabled",
    "list_logical_devices",
    "list_physical_devices",
    "reset_memory_stats",
    "run_functions_eagerly",
    "set_device_policy",
    "set_inter_op_parallelism_threads",
    "set_intra_op_parallelism_threads",
    "set_logical_device_configuration",
    "set_memory_growth",
    "set_optimizer_experimental_options",
    "set_optimizer_jit",
    "set_soft_device_placement",
    "set_synchronous_execution",
    "set_visible_devices",
    "tensor_float_32_execution_enabled",
]


def __dir__() -> list[str]:
    return __all__


watch(globals())
