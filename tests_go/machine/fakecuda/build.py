"""Builds the CUDA driver without a GPU: `build(folder)`, or `python build.py FOLDER` from a shell.

A process started with LD_LIBRARY_PATH=folder loads it as libcuda.so.1. What it offers to tests (fakecuda_count,
fakecuda_fail ...) and the environment that it reads are described in libcuda/hooks.c and gocore/sim/cuda/driver.h.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "gocore" / "sim" / "cuda"
HOOKS_FOLDER = Path(__file__).resolve().parent / "libcuda"
FOLDERS = (SOURCE, ROOT / "gocore" / "machine" / "models", ROOT / "gocore" / "lease" / "budget", HOOKS_FOLDER)
HOOKS = "-DGPUCONF_TEST_HOOKS"  # which the wheel's library does not have
FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O0", "-fPIC", "-fvisibility=hidden", HOOKS]
OBJECTS = ROOT / "build" / "objects"  # build.go has the same


def objects(sources: list[Path], flags: list[str], defines: dict[str, str]) -> list[Path]:
    """Compile the sources, unless they are compiled already with these headers, flags and those of the defines that
    they name.
    """
    compiler = shlex.split(os.environ.get("CC", "cc"))
    headers = [
        path
        for folder in ("gocore/machine", "gocore/lease/budget", "gocore/sim")
        for path in sorted((ROOT / folder).rglob("*.h"))
    ]
    common = hashlib.sha256("\0".join([*compiler, *flags, *(path.read_text() for path in headers)]).encode())

    def compiled(source: Path) -> Path:
        text = source.read_text()
        options = [*flags, *(f"-D{name}={value}" for name, value in defines.items() if name in text)]
        place = common.copy()
        place.update("\0".join([str(source), text, *options]).encode())
        target = OBJECTS / f"{source.stem}-{place.hexdigest()[:32]}.o"
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=OBJECTS) as own:  # other processes compile, too
                subprocess.run([*compiler, *options, "-c", source, "-o", f"{own}/it.o"], check=True)
                Path(own, "it.o").replace(target)
        return target

    OBJECTS.mkdir(parents=True, exist_ok=True)
    for old in OBJECTS.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process has ended with its folder
            if time.time() - old.stat().st_mtime > 7 * 86400:
                shutil.rmtree(old) if old.is_dir() else old.unlink()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compiled, sources))


def build(
    folder: str | os.PathLike[str],
    version: int = 12040,
    missing: tuple[str, ...] = (),
    extra: tuple[Path, ...] = (),
    newest: bool = False,
) -> Path:
    """Put libcuda.so.1 into folder: a driver for that CUDA version, without the missing exported functions, with extra
    sources.

    As a driver of that version it exports no newer functions; with newest=True, those too.
    """
    library = Path(folder) / "libcuda.so.1"
    command = [
        *shlex.split(os.environ.get("CC", "cc")),
        *FLAGS,
        "-shared",
        "-Wl,-soname,libcuda.so.1",
        "-Wl,-z,nodelete",
    ]
    command += ["-o", str(library)]
    if not newest:
        table = (SOURCE / "functions.h").read_text()
        missing += tuple(
            name for name, since in re.findall(r"^FORM\(\w+, (\w+), (\d+)", table, re.M) if int(since) > version
        )
    if missing:
        script = Path(folder) / "exports.map"
        script.write_text("{ global: cu*; fakecuda_*; gpuconf_*; local: " + "; ".join(missing) + "; *; };\n")
        command.append(f"-Wl,--version-script={script}")
    sources = [path for one in FOLDERS for path in sorted(one.glob("*.c"))]
    command += map(str, (*objects(sources, FLAGS, {"FAKECUDA_DEFAULT_VERSION": str(version)}), *extra))
    subprocess.run([*command, "-lpthread", "-ldl"], check=True)
    return library


if __name__ == "__main__":
    print(build(sys.argv[1]))
