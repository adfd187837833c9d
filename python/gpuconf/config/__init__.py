# SPDX-License-Identifier: Apache-2.0
"""``tf.config`` without TensorFlow: list devices, choose which ones to use, and configure their memory.

The functions, their errors and the order of their checks match TensorFlow; ``docs/differences.md`` lists the
intentional differences. TensorFlow itself and JAX, if the process uses them, get the same visible devices, limits and
growth before they start; ``docs/frameworks.md`` has the details.
"""

from __future__ import annotations

from .._core.built_in_errors import raise_built_in
from .._core.devices import LogicalDevice, LogicalDeviceConfiguration, PhysicalDevice
from .._core.public import name_after
from .._missing import watch
from . import _frameworks as _frameworks  # which watches the other modules
from . import experimental, optimizer, threading
from ._cluster import experimental_connect_to_cluster, experimental_connect_to_host
from ._devices import (
    experimental_list_devices,
    get_logical_device_configuration,
    get_visible_devices,
    list_logical_devices,
    list_physical_devices,
    set_logical_device_configuration,
    set_visible_devices,
)
from ._execution import (
    experimental_functions_run_eagerly,
    experimental_run_functions_eagerly,
    functions_run_eagerly,
    get_soft_device_placement,
    run_functions_eagerly,
    set_soft_device_placement,
)

__all__ = [
    "LogicalDevice",
    "LogicalDeviceConfiguration",
    "PhysicalDevice",
    "experimental",
    "experimental_connect_to_cluster",
    "experimental_connect_to_host",
    "experimental_functions_run_eagerly",
    "experimental_list_devices",
    "experimental_run_functions_eagerly",
    "functions_run_eagerly",
    "get_logical_device_configuration",
    "get_soft_device_placement",
    "get_visible_devices",
    "list_logical_devices",
    "list_physical_devices",
    "optimizer",
    "run_functions_eagerly",
    "set_logical_device_configuration",
    "set_soft_device_placement",
    "set_visible_devices",
    "threading",
]

name_after(__name__, __all__)

raise_built_in(__name__, __all__)

watch(globals())
