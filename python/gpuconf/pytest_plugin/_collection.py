# SPDX-License-Identifier: Apache-2.0
"""Modules that use CUDA while they are imported, before workers and tests could say which GPU they may use."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

from .._typing import Any


class Guard:
    """Fails a module that uses CUDA while it is imported."""

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Compare who has used CUDA before and after."""
        before = users_of_cuda()
        report = yield
        users = [name for name in users_of_cuda() if name not in before]
        if users and report.passed:
            report.outcome = "failed"
            report.longrepr = (
                f"{collector.nodeid} used CUDA while it was imported ({', '.join(users)}), before tests and workers "
                f"have their GPU: move that code into a fixture or a test"
            )
            report.result = []
        return report


def users_of_cuda() -> list[str]:
    """Return the libraries of this process that have created a CUDA context, without importing any."""
    users = []
    core: Any = sys.modules.get("gpuconf._core.runtime")
    if core is not None and core.initialized() and core.ordinals():
        users.append("gpuconf")
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if getattr(cuda, "is_initialized", bool)():
        users.append("PyTorch")
    driver: Any = getattr(sys.modules.get("numba.cuda.cudadrv.driver"), "driver", None)
    if getattr(driver, "is_initialized", False):
        users.append("Numba")
    context: Any = sys.modules.get("tensorflow.python.eager.context")
    if getattr(getattr(context, "_context", None), "_initialized", False):
        users.append("TensorFlow")
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    if getattr(bridge, "_backends", None):
        users.append("JAX")
    if not users and "libcuda.so" in _loaded_libraries() and _has_context():
        users.append("a library")  # CuPy, and programs' own
    return users


def _loaded_libraries() -> str:
    try:
        with open("/proc/self/maps") as maps:
            return maps.read()
    except OSError:
        return ""


def _has_context() -> bool:
    """Whether any GPU's primary context is active, which the driver knows."""
    import ctypes

    driver = ctypes.CDLL("libcuda.so.1")
    count, flags, active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0:  # not initialized
        return False
    for device in range(count.value):
        if driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active)) == 0 and active.value:
            return True
    return False
