# SPDX-License-Identifier: Apache-2.0
"""Whether CUDA has started in this process, without starting it. It reads CUDA_VISIBLE_DEVICES when it starts, and never again."""

from __future__ import annotations

import os

_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED


def cuda_started() -> bool:
    """Whether any library in this process has initialized the CUDA driver."""
    import ctypes

    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:  # it is not loaded
        return False
    count = ctypes.c_int()
    return int(driver.cuDeviceGetCount(ctypes.byref(count))) != _NOT_INITIALIZED
