# SPDX-License-Identifier: Apache-2.0
"""The GPUs that a test gets."""

from __future__ import annotations

import sys

import pytest

from .. import config as tf_config
from .. import memory
from .._core import runtime
from .._core.devices import LogicalDevice
from .._typing import Any
from ..machine.visible import visible_devices
from ._marks import Need
from ._settings import settings

_NEED_REAL = frozenset(("cupy", "numba.cuda.cudadrv.driver"))


def logical_gpus(need: Need) -> list[LogicalDevice]:
    """Return the logical GPUs that are good enough. Initializes the devices."""
    capabilities = {device.cuda_ordinal: device.compute_capability for device in visible_devices()}
    found = []
    for device, ordinal in zip(tf_config.list_logical_devices("GPU"), runtime.ordinals(), strict=True):
        stats = memory.stats(device.name)
        if need.fits(capabilities[ordinal]) and stats.bytes_limit - stats.bytes_in_use >= need.free:
            found.append(device)
    return found


def missing(need: Need) -> str:
    """Return why a test cannot run here, "" if it can."""
    visible = [device for device in visible_devices() if device.physical_device]
    if not visible:
        return "no GPU found"
    if need.free or runtime.initialized():
        fitting = len(logical_gpus(need))
    else:
        fitting = sum(need.fits(device.compute_capability) for device in visible)
    if fitting >= need.n:
        return ""
    return (
        f"needs {need}, and {fitting or 'none'} of {len(visible)} visible GPU{'s' if len(visible) > 1 else ''} can "
        "serve it"
    )


def refuse(config: pytest.Config, why: str) -> None:
    """Skip the running test, or fail it if GPUs are required."""
    if settings(config).mode == "required":
        pytest.fail(f"gpuconf: {why}, and --gpuconf=required", pytrace=False)
    skip(f"{why}; --gpuconf=simulate simulates one" if why == "no GPU found" and _simulation_helps() else why)


def _simulation_helps() -> bool:
    """Whether the libraries that are loaded use simulated GPUs:
    CuPy and Numba do not, and PyTorch does if it is built for CUDA.
    """
    torch: Any = sys.modules.get("torch")
    return _NEED_REAL.isdisjoint(sys.modules) and (torch is None or getattr(torch.version, "cuda", None) is not None)


def skip(why: str) -> None:
    """Skip the running test, at its own line."""
    raise pytest.skip.Exception(f"gpuconf: {why}", _use_item_location=True)


def require(config: pytest.Config, need: Need) -> None:
    """Skip or fail the running test unless its GPUs are there."""
    if settings(config).mode == "off":
        skip("GPU tests are off (--gpuconf=off)")
    why = missing(need)
    if why:
        refuse(config, why)
