"""Helpers of the conformance tests: TensorFlow's names, expected errors, and a pool's reservation."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import gpuconf as tf
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuconf.config import LogicalDevice, PhysicalDevice

MIB = 1 << 20
GIB = 1 << 30

# A pool's first region with memory growth; without growth it is the whole limit.
FIRST_REGION = 2 * MIB

# The limit of a GPU without an explicit one: its memory minus TensorFlow's reserve.
H100_LIMIT = 83_132_153_856  # 1800 MiB less than CUDA reports
T4_LIMIT = 14_535_360_512  # 1050 MiB less than CUDA reports

TOO_LATE_VISIBLE = "Visible devices cannot be modified after being initialized"
TOO_LATE_GROWTH = "Physical devices cannot be modified after being initialized"
TOO_LATE_LOGICAL = "Virtual devices cannot be modified after being initialized"
GROWTH_DIFFERS = "Memory growth cannot differ between GPU devices"

L = tf.config.LogicalDeviceConfiguration
PD = tf.config.PhysicalDevice


@contextmanager
def refused(kind: type[Exception], text: str) -> Iterator[None]:
    """Expect an error of exactly this class, whose text starts with ``text``."""
    with pytest.raises(kind) as caught:
        yield
    error = caught.value
    assert type(error) is kind, f"{type(error).__name__} is not {kind.__name__}"
    assert (error.args[0] if type(error) is KeyError else str(error)).startswith(text)  # type: ignore[union-attr]


_OWN: dict[type[Exception], type[Exception]] = {
    ValueError: tf.errors.InvalidArgumentError,
    TypeError: tf.errors.InvalidTypeError,
}


def kind_of(function: Any, kind: type[Exception]) -> type[Exception]:
    """The class that a function raises for a built-in one:
    TensorFlow's functions raise that itself, gpuconf's own their own.
    """
    return kind if function.__module__.startswith(("gpuconf.config", "gpuconf.compat")) else _OWN[kind]


def cpu() -> PhysicalDevice:
    """The machine's CPU."""
    return tf.config.list_physical_devices("CPU")[0]


def gpus() -> list[PhysicalDevice]:
    """The machine's GPUs."""
    return tf.config.list_physical_devices("GPU")


def initialize() -> list[LogicalDevice]:
    """Initialize the runtime, as any call that needs a logical device does."""
    return tf.config.list_logical_devices()


def names(devices: list[Any]) -> list[str]:
    """The names of devices."""
    return [d.name for d in devices]


def logical_names(device_type: str | None = None) -> list[str]:
    """The names of the logical devices."""
    return names(tf.config.list_logical_devices(device_type))


def limits() -> list[int]:
    """The hard limit of each logical GPU."""
    return [tf.memory.stats(d).bytes_limit for d in tf.config.list_logical_devices("GPU")]


def reserved_by_first_allocation(device: str = "GPU:0") -> int:
    """What the pool reserves on the GPU for its first byte: FIRST_REGION if it grows, else its whole limit."""
    tf.memory.allocate(1, device).free()
    return tf.memory.stats(device).bytes_reserved
