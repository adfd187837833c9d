# SPDX-License-Identifier: Apache-2.0
"""A ConfigProto for the whole program, as ``enable_eager_execution`` takes it."""

from __future__ import annotations

from ..._core import runtime
from ..._core.devices import LogicalDeviceConfiguration
from ..._core.native import core
from ..._typing import Any
from ...config import _devices, experimental
from . import _graph
from ._config_proto import ConfigProto
from ._session_options import options_of

# TensorFlow's numbers for device policies and execution modes.
_POLICIES = {0: "explicit", 1: "warn", 2: "silent", 3: "silent_for_int32"}
_MODES = {0: True, 1: False}  # synchronous


def take_over(config: ConfigProto | None, device_policy: Any, execution_mode: Any, switches: bool) -> None:
    """Apply a ConfigProto to the configuration of ``gpuconf``.

    ``switches`` is true if eager execution is disabled now.
    """
    if config is not None and not isinstance(config, ConfigProto):
        raise TypeError(f"config must be a tf.ConfigProto, but got {type(config)}")
    if device_policy is not None and device_policy not in _POLICIES:
        raise ValueError("device_policy must be one of None, DEVICE_PLACEMENT_*")
    if execution_mode is not None and execution_mode not in _MODES:
        raise ValueError("execution_mode must be one of None, SYNC, ASYNC")
    if switches and _graph.used():
        raise ValueError("tf.enable_eager_execution must be called at program startup.")
    if config is None and device_policy is None and execution_mode is None:
        return
    if runtime.enumerated() or runtime.current.at_enumeration:
        raise ValueError(
            "tf.enable_eager_execution must be called at program startup. The devices have already been listed: call "
            "it before any "
            "function that lists devices, or call gpuconf.reset() first"
        )
    if device_policy is not None:
        experimental.set_device_policy(_POLICIES[device_policy])
    if execution_mode is not None:
        experimental.set_synchronous_execution(_MODES[execution_mode])
    if config is None:
        return
    # Copied: later changes of the config have no effect.
    options, cpus = options_of(config), config.device_count.get("CPU", 1)

    def apply() -> None:
        core.pybind_ImportConfig(options)
        if cpus > 1:
            _devices.show(0, [LogicalDeviceConfiguration() for _ in range(cpus)])

    runtime.current.at_enumeration.append(apply)
