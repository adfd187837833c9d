"""NVIDIA's own cuBLAS, if a wheel of it is installed, on a machine without a GPU.

CUDA's runtime, which is part of cuBLAS, does not start over the driver of tests_go/machine/fakecuda. Everything before
that is real: finding and loading the library, its functions, and its error.
"""

import ctypes
import re
import runpy
import sys
from pathlib import Path

import no_gpu
import pytest

SYMBOLS = Path(__file__).resolve().parents[2] / "gocore" / "machine" / "cublas" / "symbols.h"
INSTALLED = sorted({path for entry in sys.path for path in Path(entry or ".").glob("nvidia/*/lib/libcublas.so.*")})
LIBRARIES = [pytest.param(path, id=path.name) for path in INSTALLED] or [
    pytest.param(Path(), id="none", marks=pytest.mark.skip(reason="no wheel of cuBLAS is installed"))
]


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_function_of_the_table_is_there(library: Path) -> None:
    major = int(library.suffix[1:])
    opened = ctypes.CDLL(str(library))
    table = re.findall(r"X\((cublas\w+), (\d+),", SYMBOLS.read_text())
    assert len(table) == 13
    assert [name for name, since in table if int(since) <= major and not hasattr(opened, name)] == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_wheel_is_loaded_and_what_it_says_is_an_error(library: Path, tmp_path: Path) -> None:
    major = int(library.suffix[1:])
    runpy.run_path(str(no_gpu.FAKECUDA / "build.py"))["build"](tmp_path, version=major * 1000)
    told = no_gpu.run(
        tmp_path,
        f"""
        x = gpuconf.constant([[2.0]])
        try:
            x @ x
        except gpuconf.errors.UnavailableError as error:
            print(error)
        print(gpuconf.memory.stats().live_blocks, {str(library.resolve())!r} in open("/proc/self/maps").read())
        del x
        gpuconf.reset()
        print(driver.fakecuda_live(b"retains"))
        """,
    )
    assert re.match(
        rf"cuBLAS {major}\.\d+\.\d+ failed on GPU 0 \(creating a handle\): CUBLAS_STATUS_NOT_INITIALIZED \(1\): ", told
    )
    assert told.splitlines()[-2:] == ["1 True", "0"]
