# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.eager.context``: what public code asks it."""

from __future__ import annotations

from ..... import config
from ....._missing import watch
from ....._typing import Any
from ....v1._config_proto import ConfigProto
from ....v1._graph import Graph
from ....v1._mode import executing_eagerly

__all__ = ["context", "eager_mode", "executing_eagerly", "get_log_device_placement", "graph_mode", "num_gpus"]

from .....debugging import get_log_device_placement


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
        """The settings of ``tf.config`` as a message. Raises ValueError where memory growth differs between visible GPUs."""
        from ._settings import as_message

        return as_message()

    def list_physical_devices(self, device_type: str | None = None) -> Any:
        """Return the physical devices."""
        return config.list_physical_devices(device_type)

    def list_logical_devices(self, device_type: str | None = None) -> Any:
        """Return the logical devices."""
        return config.list_logical_devices(device_type)


_context = Context()


def context() -> Context:
    """Return the context of the program."""
    return _context


def num_gpus() -> int:
    """Return the number of logical GPUs. Initializes the runtime."""
    return _context.num_gpus()


def graph_mode() -> Any:
    """Return a context manager in which operations build a new graph."""
    return Graph().as_default()


def eager_mode() -> Any:
    """Return a context manager that changes nothing."""
    from contextlib import nullcontext

    return nullcontext()


def __dir__() -> list[str]:
    return __all__


watch(globals())
