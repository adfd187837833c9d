# SPDX-License-Identifier: Apache-2.0
"""The settings of ``tf.config`` as a ConfigProto, which TensorFlow makes of them when it starts."""

from __future__ import annotations

from ..... import config, debugging
from ....._core.devices import memory_limit_of
from .....config import experimental, threading
from ...._proto import ConfigProto, GPUOptions, OptimizerOptions


def as_message() -> ConfigProto:
    """Return the settings. Raises ValueError where memory growth differs between visible GPUs."""
    message = ConfigProto(
        allow_soft_placement=config.get_soft_device_placement(),
        intra_op_parallelism_threads=threading.get_intra_op_parallelism_threads(),
        inter_op_parallelism_threads=threading.get_inter_op_parallelism_threads(),
        log_device_placement=debugging.get_log_device_placement(),
        gpu_options=_gpu_options(),
    )
    for kind in ("CPU", "GPU"):
        message.device_count[kind] = _logical_devices(kind)
    if config.optimizer.get_jit():
        message.graph_options.optimizer_options.global_jit_level = OptimizerOptions.ON_1
    return message


def _logical_devices(kind: str) -> int:
    """Return the number of logical devices that the visible ones become."""
    return sum(
        len(config.get_logical_device_configuration(each) or [None]) for each in config.get_visible_devices(kind)
    )


def _gpu_options() -> GPUOptions:
    """Return what applies to GPUs: nothing on a machine without."""
    cards, options = config.list_physical_devices("GPU"), GPUOptions()
    visible = config.get_visible_devices("GPU")
    if not cards:
        return options
    options.visible_device_list = ",".join(str(cards.index(gpu)) for gpu in visible)
    for gpu in visible:
        parts = config.get_logical_device_configuration(gpu)
        if parts:
            options.experimental.virtual_devices.add(memory_limit_mb=[memory_limit_of(part) or 0 for part in parts])
    growth = {experimental.get_memory_growth(gpu) for gpu in visible}
    if len(options.experimental.virtual_devices) == 0 and growth:
        if len(growth) > 1:
            raise ValueError("Memory growth cannot differ between GPU devices")
        options.allow_growth = bool(growth.pop())
    return options
