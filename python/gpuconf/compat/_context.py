# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's context, ``tensorflow.python.eager.context``."""

from __future__ import annotations

from .. import config, debugging
from .._core.devices import memory_limit_of
from .._typing import Any
from ..config import experimental, threading
from ._names import publish
from ._proto import ConfigProto, GPUOptions, OptimizerOptions
from .v1._graph import Graph
from .v1._mode import executing_eagerly


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


# The methods of TensorFlow's context that are functions of tf.config, by the same name.
_SAME = frozenset(
    [
        "get_logical_device_configuration",
        "get_visible_devices",
        "list_logical_devices",
        "list_physical_devices",
        "set_logical_device_configuration",
        "set_visible_devices",
    ]
)
_SAME_EXPERIMENTAL = frozenset(
    ["get_device_details", "get_memory_growth", "get_memory_info", "reset_memory_stats", "set_memory_growth"]
)
# Its properties: the modules and the functions that read and set them.
_SETTINGS = {
    "device_policy": (config.experimental, "device_policy"),
    "inter_op_parallelism_threads": (config.threading, "inter_op_parallelism_threads"),
    "intra_op_parallelism_threads": (config.threading, "intra_op_parallelism_threads"),
    "log_device_placement": (debugging, "log_device_placement"),
    "optimizer_jit": (config.optimizer, "jit"),
    "soft_device_placement": (config, "soft_device_placement"),
}


class Context:
    """TensorFlow's context, as far as public code reads it."""

    def num_gpus(self) -> int:
        """Return the number of logical GPUs. Initializes the runtime."""
        return len(config.list_logical_devices("GPU"))

    def devices(self) -> list[str]:
        """Return the full names of the logical devices. Initializes the runtime."""
        return config.experimental_list_devices()

    def executing_eagerly(self) -> bool:
        """Return whether operations run eagerly."""
        return executing_eagerly()

    def ensure_initialized(self) -> None:
        """Initialize the runtime."""
        config.list_logical_devices()

    @property
    def config(self) -> ConfigProto:
        """The settings of ``tf.config`` as a message.

        Raises ValueError where memory growth differs between visible GPUs.
        """
        return as_message()

    def __getattr__(self, name: str) -> Any:
        """Return a function or a setting of ``tf.config``."""
        if name in _SAME:
            return getattr(config, name)
        if name in _SAME_EXPERIMENTAL:
            return getattr(config.experimental, name)
        if name in _SETTINGS:
            module, setting = _SETTINGS[name]
            return getattr(module, f"get_{setting}")()
        raise AttributeError(f"gpuconf does not have {name!r} of TensorFlow's context: it needs TensorFlow")

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a setting of ``tf.config``."""
        if name not in _SETTINGS:
            raise AttributeError(f"gpuconf cannot set {name!r} of TensorFlow's context: it needs TensorFlow")
        module, setting = _SETTINGS[name]
        getattr(module, f"set_{setting}")(value)


_context = Context()


def context() -> Context:
    """Return the context of the program."""
    return _context


def num_gpus() -> int:
    """Return the number of logical GPUs. Initializes the runtime."""
    return _context.num_gpus()


def ensure_initialized() -> None:
    """Initialize the runtime."""
    _context.ensure_initialized()


def graph_mode() -> Any:
    """Return a context manager in which operations build a new graph."""
    return Graph().as_default()


def eager_mode() -> Any:
    """Return a context manager that changes nothing."""
    from contextlib import nullcontext

    return nullcontext()


publish(__name__)
