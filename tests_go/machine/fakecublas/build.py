"""Builds cuBLAS without a GPU: ``build(folder)``, or ``python build.py FOLDER`` from a shell.

It runs over the driver that tests_go/machine/fakecuda builds. What it offers to tests and the environment that it reads
are described in libcublas/fake.h and libcublas/control.c.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path


def build(folder: str | os.PathLike[str], major: int = 12, missing: tuple[str, ...] = ()) -> Path:
    """Put libcublas.so and libcublasLt.so of a major version into folder; without the missing functions."""
    place = Path(folder)
    compiler = [
        *shlex.split(os.environ.get("CC", "cc")),
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-O0",
        "-fPIC",
        "-shared",
    ]
    light, library = place / f"libcublasLt.so.{major}", place / f"libcublas.so.{major}"
    empty = place / "empty.c"
    empty.write_text("int cublasLt_is_here(void);\nint cublasLt_is_here(void) { return 1; }\n")
    subprocess.run([*compiler, f"-Wl,-soname,{light.name}", "-o", light, empty], check=True)
    empty.unlink()
    command = [
        *compiler,
        "-fvisibility=hidden",
        f"-DFAKECUBLAS_MAJOR={major}",
        f"-Wl,-soname,{library.name}",
        "-o",
        library,
    ]
    script = place / "exports.map"
    script.write_text("{ global: cublas*; fakecublas_*; local: " + "".join(f"{name}; " for name in missing) + "*; };\n")
    command += [f"-Wl,--version-script={script}", *sorted((Path(__file__).parent / "libcublas").glob("*.c"))]
    # Like the real one it needs the other library, and, unlike the real one, doesn't know where that is.
    subprocess.run([*command, "-Wl,--no-as-needed", light, "-lpthread", "-ldl"], check=True)
    script.unlink()
    return library


if __name__ == "__main__":
    print(build(sys.argv[1]))
