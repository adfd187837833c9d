# SPDX-License-Identifier: Apache-2.0
"""The GPUs that a test gets."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .. import config as tf_config
from .. import memory
from .._core import runtime
from .._core.devices import LogicalDevice
from .._typing import Any
from ..machine.cards import visible_devices
from ._marks import Need
from ._options import settings

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


# The lock of a GPU between the workers of one run. GPU tests hold it shared, those marked ``gpu_exclusive`` alone.


def _folder(run: str) -> str:
    return os.path.join(tempfile.gettempdir(), f"gpuconf-pytest-{os.getuid()}-{run}")


def remove(run: str) -> None:
    """Remove the files of a run."""
    shutil.rmtree(_folder(run), ignore_errors=True)


@contextmanager
def held(config: pytest.Config, exclusive: bool) -> Iterator[None]:
    """Hold the lock of this worker's GPU. Does nothing without pytest-xdist.

    A test that needs it alone would wait forever while others keep taking it together. So each test passes a gate
    first, closed by the one that waits.
    """
    given: Any = getattr(config, "workerinput", None)
    if given is None:
        yield
        return
    folder = _folder(given["testrunuid"])
    os.makedirs(folder, mode=0o700, exist_ok=True)
    name = "".join(c if c.isalnum() else "-" for c in os.environ.get("CUDA_VISIBLE_DEVICES", ""))[:100] or "all"
    gate, lock = (
        os.open(os.path.join(folder, f"{name}.{part}"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for part in ("gate", "lock")
    )
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield
    finally:
        os.close(gate)
        os.close(lock)
