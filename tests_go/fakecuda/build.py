"""Builds the CUDA driver without a GPU: `build(folder)`, or `python build.py FOLDER` from a shell.

A process started with LD_LIBRARY_PATH=folder loads it as libcuda.so.1. What it offers to tests (fakecuda_count,
fakecuda_fail ...) and the environment that it reads are described in pybind/simulator/cuda: driver.h and control.c.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "pybind" / "simulator" / "cuda"
FOLDERS = (SOURCE, ROOT / "gocore" / "models", ROOT / "pybind" / "budget")


def build(
    folder: str | os.PathLike[str],
    version: int = 12040,
    missing: tuple[str, ...] = (),
    extra: tuple[Path, ...] = (),
    newest: bool = False,
) -> Path:
    """Put libcuda.so.1 into folder: a driver for that CUDA version, without the missing exported functions, with extra sources.

    As a driver of that version it exports no newer functions; with newest=True, those too.
    """
    library = Path(folder) / "libcuda.so.1"
    command = shlex.split(os.environ.get("CC", "cc"))
    command += [
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O0",
        "-fPIC",
        "-fvisibility=hidden",
        "-shared",
        "-Wl,-soname,libcuda.so.1",
        "-Wl,-z,nodelete",
    ]
    command += [f"-DFAKECUDA_DEFAULT_VERSION={version}", "-o", str(library)]
    if not newest:
        table = (SOURCE / "functions.h").read_text()
        missing += tuple(name for name, since in re.findall(r"^FORM\(\w+, (\w+), (\d+)", table, re.M) if int(since) > version)
    if missing:
        script = Path(folder) / "exports.map"
        script.write_text("{ global: cu*; fakecuda_*; simulator_noted; gpuconf_*; local: " + "; ".join(missing) + "; *; };\n")
        command.append(f"-Wl,--version-script={script}")
    command += sorted(map(str, (*(path for one in FOLDERS for path in one.glob("*.c")), *extra)))
    subprocess.run([*command, "-lpthread", "-ldl"], check=True)
    return library


if __name__ == "__main__":
    print(build(sys.argv[1]))
