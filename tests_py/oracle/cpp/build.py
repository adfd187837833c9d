"""Compile the C++ of this folder against TensorFlow's own headers and library, and the Go program beside it."""

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@lru_cache(maxsize=1)
def tensorflow_folder() -> Path:
    """The location of the wheel, found without importing it."""
    import importlib.util

    found = importlib.util.find_spec("tensorflow")
    assert found is not None, "there is no TensorFlow here: run this with make oracle"
    assert found.origin is not None
    return Path(found.origin).parent


def _output(name: str) -> Path:
    """The folder for build results: in the environment, not in the tree."""
    folder = Path(sys.prefix) / "oracle"
    folder.mkdir(exist_ok=True)
    return folder / name


def cpp(source: str, *, shared: bool) -> Path:
    """Compile a C++ file, unless the result is newer than it."""
    path, folder = HERE / source, tensorflow_folder()
    target = _output(path.stem + (".so" if shared else ""))
    if target.exists() and target.stat().st_mtime > path.stat().st_mtime:
        return target
    command = [
        os.environ.get("CXX", "g++"),
        *"-O2 -std=c++17 -Wno-deprecated-declarations -D_GLIBCXX_USE_CXX11_ABI=1".split(),
    ]
    command += ["-DEIGEN_MAX_ALIGN_BYTES=64", "-isystem", str(folder / "include"), str(path), "-o", str(target)]
    command += ["-fPIC", "-shared"] if shared else []
    command += [f"-L{folder}", "-l:libtensorflow_framework.so.2", f"-Wl,-rpath,{folder}"]
    subprocess.run(command, check=True)
    return target


def go(package: str) -> Path:
    """Build a Go program of this module."""
    target = _output(package.replace("/", "-").strip(".-"))
    subprocess.run(
        ["go", "build", "-o", str(target), package], check=True, cwd=ROOT, env={**os.environ, "CGO_ENABLED": "1"}
    )
    return target
