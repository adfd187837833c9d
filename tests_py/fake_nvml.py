"""NVIDIA's management library as gocore/sim/nvml simulates it, for tests in Python."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import simulator_sources

SOURCES = simulator_sources.sources("nvml")

ONE_H100 = """driver 580.95.05
cuda 13000
card GPU-1 domain=0 bus=23 device=0 cc=9.0 mig=off total=85899345920 used=1073741824 NVIDIA H100 80GB HBM3
"""


def fake_nvml(folder: Path, *defines: str) -> Path:
    """Build the library. Returns the folder for LD_LIBRARY_PATH; FAKE_NVML names the description of the machine."""
    library = folder / "libnvidia-ml.so.1"
    compiled = simulator_sources.objects(
        SOURCES,
        ["-fPIC", "-fvisibility=hidden", "-O1", "-pthread", "-DGPUCONF_TEST_HOOKS"],
        dict.fromkeys(defines, "1"),
    )
    command = [
        *shlex.split(os.environ.get("CC", "cc")),
        "-shared",
        "-pthread",
        "-Wl,-soname,libnvidia-ml.so.1",
        "-o",
        library,
        *compiled,
    ]
    subprocess.run(command, check=True)
    return folder
