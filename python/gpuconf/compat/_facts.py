# SPDX-License-Identifier: Apache-2.0
"""Facts of the TensorFlow release that gpuconf is compared with, for programs that read them."""

from __future__ import annotations

import os
from collections import OrderedDict

from .._typing import Any
from ._names import publish

VERSION = "2.21.0"
GIT_VERSION = "v2.21.0-rc1-5-ga481b10260d"
COMPILER_VERSION = "Clang 18.1.8"
GRAPH_DEF_VERSION = 2474
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
GRAPH_DEF_VERSION_MIN_PRODUCER = 0


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
    return build_info


_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # gpuconf's; there is nothing of TensorFlow's in it


def get_include() -> str:
    """Return the folder of C headers, which are gpuconf's. TensorFlow's are not there."""
    return os.path.join(_HOME, "include")


def get_lib() -> str:
    """Return the folder of libraries, which are gpuconf's. TensorFlow's are not there."""
    return _HOME


def get_compile_flags() -> list[str]:
    """Return the flags for compilers that TensorFlow's release was built with."""
    return [
        f"-I{get_include()}",
        f"-D_GLIBCXX_USE_CXX11_ABI={CXX11_ABI_FLAG}",
        "--std=c++17",
        "-DEIGEN_MAX_ALIGN_BYTES=64",
    ]


def get_link_flags() -> list[str]:
    """Return the flags for linkers of TensorFlow's release, with gpuconf's folder."""
    return [f"-L{get_lib()}", "-l:libtensorflow_framework.so.2"]


# Switches of private modules, which programs set: gpuconf gives no such warnings.
_PRINT_DEPRECATION_WARNINGS = True
_PER_MODULE_WARNING_LIMIT = 1


publish(__name__)
