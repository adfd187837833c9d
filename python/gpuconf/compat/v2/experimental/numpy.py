# SPDX-License-Identifier: Apache-2.0
"""``tf.experimental.numpy``: its switches, which have no effect."""

from __future__ import annotations

from ...._missing import watch
from ...._typing import Any

__all__ = ["experimental_enable_numpy_behavior"]


def experimental_enable_numpy_behavior(prefer_float32: bool = False, dtype_conversion_mode: Any = "legacy") -> None:
    """Has no effect: gpuconf's tensors keep their behavior."""
    del prefer_float32, dtype_conversion_mode


def __dir__() -> list[str]:
    return __all__


watch(globals())
