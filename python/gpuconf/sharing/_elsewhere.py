# SPDX-License-Identifier: Apache-2.0
"""The GPUs that this process would see, listed by another process, so that CUDA does not start here."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from .. import errors
from .._core.devices import VisibleDevice

_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_CODE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from gpuconf.machine.visible import visible_devices
print(json.dumps([device.to_dict() for device in visible_devices()]))
"""
_PATIENCE_S = 60.0


def devices_elsewhere() -> list[VisibleDevice]:
    """Return ``gpuconf.visible_devices()`` of a new process. Raises UnavailableError if that fails."""
    command = [sys.executable, "-I", "-c", _CODE, _PACKAGES]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_PATIENCE_S)
        listed = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise errors.UnavailableError(f"another process could not list the GPUs: {said.strip()}") from None
    return [VisibleDevice(**{**one, "compute_capability": tuple(one["compute_capability"])}) for one in listed]
