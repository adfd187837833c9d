"""What the machine has and says, as a step: a reader of the results cannot ask it later."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from pathlib import Path

from evidence import kernel_log, said

COMMANDS = {
    "doctor": [sys.executable, "-m", "gpuconf", "doctor"],
    "nvidia_smi": ["nvidia-smi"],
    "nvidia_smi_query": ["nvidia-smi", "-q"],
    "libraries": ["ldconfig", "-p"],
    "compiler": ["cc", "--version"],
    "nvcc": ["nvcc", "--version"],
}
ENVIRONMENT = ("LD_", "CUDA_", "NVIDIA_", "PYTORCH_", "XLA_", "JAX_", "CUPY_", "NUMBA_", "GPUCONF_")
FILES = (
    "/proc/driver/nvidia/version",
    "/proc/driver/nvidia/params",
    "/proc/version",
    "/proc/meminfo",
    "/proc/self/limits",
)


def contents(path: str) -> str:
    """A file's text, or why it cannot be read."""
    try:
        return Path(path).read_text()
    except OSError as error:
        return str(error)


if __name__ == "__main__":
    found: dict[str, object] = {name: said(command) for name, command in COMMANDS.items()}
    ours = ("libcuda", "libnvidia-ml", "libcudart", "libcublas")
    found["libraries"] = "\n".join(
        line.strip() for line in str(found["libraries"]).splitlines() if any(one in line for one in ours)
    )
    found["environment"] = "\n".join(
        f"{name}={value}" for name, value in os.environ.items() if name.startswith(ENVIRONMENT)
    )
    found["kernel_log"] = kernel_log()
    found |= {path: contents(path) for path in FILES}
    packages = {f"{one.metadata['Name']} {one.version}" for one in importlib.metadata.distributions()}
    found["packages"] = "\n".join(sorted(packages, key=str.lower))
    print(json.dumps(found))
