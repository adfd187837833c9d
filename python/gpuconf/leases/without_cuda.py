# SPDX-License-Identifier: Apache-2.0
"""What can be known of CUDA without starting it in this process: whether it has started, and which GPUs it would see.

CUDA reads CUDA_VISIBLE_DEVICES when it starts, and never again.
"""

from __future__ import annotations

import os
import sys

from .. import errors
from .._core.devices import VisibleDevice

_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED

_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_CODE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from gpuconf.machine.visible import visible_devices
print(json.dumps([device.to_dict() for device in visible_devices()]))
"""
_PATIENCE_S = 60.0


def cuda_started() -> bool:
    """Whether any library in this process has initialized the CUDA driver."""
    import ctypes

    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:  # it is not loaded
        return False
    count = ctypes.c_int()
    return int(driver.cuDeviceGetCount(ctypes.byref(count))) != _NOT_INITIALIZED


def devices_elsewhere() -> list[VisibleDevice]:
    """Return ``gpuconf.visible_devices()`` of a new process. Raises UnavailableError if that fails."""
    import json
    import subprocess

    command = [sys.executable, "-I", "-c", _CODE, _PACKAGES]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_PATIENCE_S)
        listed = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise errors.UnavailableError(f"another process could not list the GPUs: {said.strip()}") from None
    return [VisibleDevice(**{**one, "compute_capability": tuple(one["compute_capability"])}) for one in listed]
