# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.platform.test``: the functions of ``tf.test``."""

from __future__ import annotations

from ....._missing import watch
from ...test import (
    gpu_device_name,
    is_built_with_cuda,
    is_built_with_gpu_support,
    is_built_with_rocm,
    is_built_with_xla,
    is_gpu_available,
)

__all__ = [
    "gpu_device_name",
    "is_built_with_cuda",
    "is_built_with_gpu_support",
    "is_built_with_rocm",
    "is_built_with_xla",
    "is_gpu_available",
]


def __dir__() -> list[str]:
    return __all__


watch(globals())
