# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's multi-process service: whether a daemon runs, and the limits of device memory that it gives each of its
clients.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

VARIABLE = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
_PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_DEFAULT_PIPES = "/tmp/nvidia-mps"
_ENTRY = r"\s*([^=\s]+)\s*=\s*(\d+)\s*([GMgm])[Bb]?\s*"
_SECONDS = 2.0


def running(environ: Mapping[str, str]) -> bool:
    """Whether a program with this environment would become a client: the daemon's pipe is there, and the daemon
    lives.
    """
    folder = environ.get(_PIPES) or _DEFAULT_PIPES
    if not os.path.exists(f"{folder}/control"):
        return False
    try:
        with open(f"{folder}/nvidia-cuda-mps-control.pid") as file:
            os.kill(int(file.read()), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError):  # of another user, or not readable: the pipe has to do
        pass
    return True


def limits(environ: Mapping[str, str]) -> dict[str, int]:
    """Return the bytes that each process may have, by GPU as the variable names it: an ordinal or a UUID. {} if it is
    malformed.
    """
    by_gpu = {}
    for entry in filter(None, environ.get(VARIABLE, "").split(",")):
        match = re.fullmatch(_ENTRY, entry)
        if match is None:
            return {}
        by_gpu[match[1]] = int(match[2]) << (30 if match[3] in "gG" else 20)
    return by_gpu


def default_limit(environ: Mapping[str, str], gpu: int) -> str:
    """Return the daemon's limit for processes that set none, in its own words; "" if it has none or does not say."""
    import subprocess

    try:
        done = subprocess.run(
            ["nvidia-cuda-mps-control"],
            input=f"get_default_device_pinned_mem_limit {gpu}\n",
            env=dict(environ),
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    words = done.stdout.strip()
    return words if done.returncode == 0 and re.search(r"[1-9]", words) else ""
