"""What the machine has and says, as a step: a reader of the results cannot ask it later."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys

COMMANDS = {
    "doctor": [sys.executable, "-m", "gpuconf", "doctor"],
    "nvidia_smi": ["nvidia-smi"],
    "libraries": ["ldconfig", "-p"],
    "compiler": ["cc", "--version"],
    "nvcc": ["nvcc", "--version"],
}
ENVIRONMENT = ("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH")


def said(command: list[str]) -> str:
    """A command's output, or why there is none."""
    try:
        path = os.environ.get("PATH", "") + ":/sbin:/usr/sbin:/usr/local/cuda/bin"
        where = shutil.which(command[0], path=path) or command[0]
        done = subprocess.run([where, *command[1:]], capture_output=True, text=True, check=False, timeout=45)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout + done.stderr


if __name__ == "__main__":
    found: dict[str, object] = {name: said(command) for name, command in COMMANDS.items()}
    ours = ("libcuda", "libnvidia-ml", "libcudart", "libcublas")
    found["libraries"] = "\n".join(
        line.strip() for line in str(found["libraries"]).splitlines() if any(one in line for one in ours)
    )
    found["environment"] = "\n".join(f"{name}={os.environ[name]}" for name in ENVIRONMENT if name in os.environ)
    packages = {f"{one.metadata['Name']} {one.version}" for one in importlib.metadata.distributions()}
    found["packages"] = "\n".join(sorted(packages, key=str.lower))
    print(json.dumps(found))
