# SPDX-License-Identifier: Apache-2.0
"""``tf.sysconfig``: how the TensorFlow release that gpuconf stands for is built."""

from __future__ import annotations

from collections import OrderedDict

from ..._missing import watch
from ..._typing import Any
from .python.platform import build_info

__all__ = ["CXX11_ABI_FLAG", "CXX_VERSION", "MONOLITHIC_BUILD", "get_build_info"]

CXX11_ABI_FLAG = 1
CXX_VERSION = 201703
MONOLITHIC_BUILD = 0


def get_build_info() -> OrderedDict[str, Any]:
    """Return how TensorFlow's release for GPUs is built:
    ``cuda_version``, ``cudnn_version``, ``is_cuda_build`` and others.

    These are facts of that release, for programs that read them. gpuconf is built without CUDA and loads the driver at
    run time.

    >>> get_build_info()["is_cuda_build"]
    True
    """
    return build_info.build_info


def __dir__() -> list[str]:
    return __all__


watch(globals())
