# SPDX-License-Identifier: Apache-2.0
"""Functions of TensorFlow that programs call, and that have nothing to change here."""

from __future__ import annotations

from .._typing import Any
from ._clusters import TPUClusterResolver
from ._names import publish


def switch() -> None:
    """Has no effect: gpuconf has no such difference between TensorFlow's versions."""


def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Has no effect: nothing is converted, so there are no messages about it."""
    del level, alsologtostdout


def do_not_convert(func: Any = None) -> Any:
    """Return ``func``, or, without it, a decorator that does: no function is converted here."""
    return do_not_convert if func is None else func


def experimental_enable_numpy_behavior(prefer_float32: bool = False, dtype_conversion_mode: Any = "legacy") -> None:
    """Has no effect: gpuconf's tensors keep their behavior."""
    del prefer_float32, dtype_conversion_mode


def initialize_tpu_system(cluster_resolver: Any = None) -> None:
    """Raise ValueError, as on a machine without a TPU."""
    if cluster_resolver is None:
        TPUClusterResolver()


def shutdown_tpu_system(cluster_resolver: Any = None) -> None:
    """Raise ValueError, as on a machine without a TPU."""
    initialize_tpu_system(cluster_resolver)


publish(__name__)
