"""Builds libraries with a kernel of their own without NVIDIA's compiler, and runs programs on simulated GPUs that load
them.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import script

SOURCE = Path(__file__).parents[1] / "standins" / "kernel_of_an_extension.c"


def build(library: Path, runtime: str = "libcudart.so.12", more: str = "cudaDeviceSynchronize") -> None:
    """Build a library that needs a CUDA runtime of this name, if it has one, and imports one more function of it."""
    compiler = os.environ.get("CC", "cc")
    library.parent.mkdir(parents=True, exist_ok=True)
    if not runtime:
        subprocess.run([compiler, "-shared", "-x", "c", os.devnull, "-o", library], check=True)
        return
    stub = library.with_name(runtime)
    subprocess.run([compiler, "-shared", "-x", "c", os.devnull, f"-Wl,-soname,{runtime}", "-o", stub], check=True)
    flags = ["-w", "-shared", "-fPIC", f"-DMORE={more}", "-Wl,--no-as-needed"]
    subprocess.run([compiler, *flags, SOURCE, stub, "-o", library], check=True)
    stub.unlink()


def run(
    program: str, *folders: Path, simulate: str = "A100-40GB", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program under ``gpuconf run --simulate`` that finds the packages of these folders, and shows what is
    logged.
    """
    kept = script.plain() | environment
    kept["PYTHONPATH"] = os.pathsep.join([*map(str, folders), kept.get("PYTHONPATH", "")])
    text = "import logging\nlogging.basicConfig(format='%(message)s')\n" + textwrap.dedent(program)
    command = [
        sys.executable,
        *"-m gpuconf run --simulate".split(),
        simulate,
        "--",
        sys.executable,
        "-W",
        "ignore",
        "-c",
        text,
    ]
    return script.completed(command, timeout=600, env=kept)
