# SPDX-License-Identifier: Apache-2.0
"""``tensorflow.python.platform.build_info``: how the TensorFlow release for GPUs is built."""

from __future__ import annotations

from collections import OrderedDict

from ....._typing import Any

__all__ = ["build_info"]

# The keys and values of TensorFlow 2.21's wheel for GPUs: the versions of CUDA and cuDNN that it is built with.
build_info: OrderedDict[str, Any] = OrderedDict(
    [
        ("cpu_compiler", "clang"),
        ("cuda_compute_capabilities", ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"]),
        ("cuda_version", "12.5.1"),
        ("cudnn_version", "9"),
        ("is_cuda_build", True),
        ("is_rocm_build", False),
        ("is_tensorrt_build", False),
    ]
)


def __dir__() -> list[str]:
    return __all__
