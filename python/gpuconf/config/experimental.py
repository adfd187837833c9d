# SPDX-License-Identifier: Apache-2.0
"""``tf.config.experimental``: memory growth, memory statistics, and older names of ``gpuconf.config`` functions."""

from __future__ import annotations

from .._core.built_in_errors import raise_built_in
from .._core.devices import LogicalDeviceConfiguration as VirtualDeviceConfiguration
from .._missing import watch
from ._cluster import ClusterDeviceFilters
from ._devices import (
    get_device_details,
    get_memory_growth,
    get_memory_info,
    get_memory_usage,
    get_visible_devices,
    list_logical_devices,
    list_physical_devices,
    reset_memory_stats,
    set_memory_growth,
    set_virtual_device_configuration,
    set_visible_devices,
)
from ._devices import get_logical_device_configuration as get_virtual_device_configuration
from ._execution import (
    disable_mlir_bridge,
    enable_mlir_bridge,
    enable_op_determinism,
    enable_tensor_float_32_execution,
    get_device_policy,
    get_synchronous_execution,
    set_device_policy,
    set_synchronous_execution,
    tensor_float_32_execution_enabled,
)

__all__ = [
    "ClusterDeviceFilters",
    "VirtualDeviceConfiguration",
    "disable_mlir_bridge",
    "enable_mlir_bridge",
    "enable_op_determinism",
    "enable_tensor_float_32_execution",
    "get_device_details",
    "get_device_policy",
    "get_memory_growth",
    "get_memory_info",
    "get_memory_usage",
    "get_synchronous_execution",
    "get_virtual_device_configuration",
    "get_visible_devices",
    "list_logical_devices",
    "list_physical_devices",
    "reset_memory_stats",
    "set_device_policy",
    "set_memory_growth",
    "set_synchronous_execution",
    "set_virtual_device_configuration",
    "set_visible_devices",
    "tensor_float_32_execution_enabled",
]

raise_built_in(__name__, __all__)

watch(globals())
