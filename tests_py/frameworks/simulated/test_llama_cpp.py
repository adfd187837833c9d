"""llama.cpp's Python package on simulated GPUs: its buffers take memory, its kernels are named, and what does not run
is refused.

The package's wheels for CUDA are not on PyPI, so its library is a stand-in with one kernel. The last test is for the
real package, if it is installed and built for CUDA, and a model that it can load.
"""

import importlib.util
import os
from pathlib import Path

import extensions
import pytest

PACKAGE = """
import ctypes, pathlib
library = ctypes.CDLL(str(pathlib.Path(__file__).parent / "lib" / "libggml-cuda.so"))
library.taken.restype = ctypes.c_size_t
"""
PROGRAM = """
from llama_cpp import ctypes, library
before = library.taken()
print(library.take(ctypes.c_size_t(1 << 30)), library.launch(None), library.taken() - before)
"""


def package(folder: Path, **how: str) -> Path:
    extensions.build(folder / "llama_cpp" / "lib" / "libggml-cuda.so", **how)
    (folder / "llama_cpp" / "__init__.py").write_text(PACKAGE)
    return folder


@pytest.mark.parametrize("runtime", ["libcudart.so.12", "libcudart.so.13"])
def test_its_buffers_take_memory_and_its_kernels_are_named(tmp_path: Path, runtime: str) -> None:
    done = extensions.run(PROGRAM, package(tmp_path, runtime=runtime))
    assert (done.returncode, done.stdout) == (0, f"0 0 {1 << 30}\n"), done.stderr
    assert "llama.cpp runs on simulated GPUs (A100-40GB): its buffers take memory as on a card" in done.stderr
    assert "flash_fwd_kernelEPf: 1 times, first from " in done.stderr  # its C++ name: no C++ runtime is in the process


def test_another_machine_is_refused_afterwards(tmp_path: Path) -> None:
    program = """
    import llama_cpp, gpuconf
    try:
        gpuconf.simulate("T4")
    except gpuconf.errors.FailedPreconditionError as error:
        print(error)
    """
    done = extensions.run(program, package(tmp_path))
    assert "cannot simulate T4: llama.cpp runs on simulated GPUs (A100-40GB) until the process ends" in done.stdout, (
        done.stderr
    )


def test_a_build_without_cuda_is_told(tmp_path: Path) -> None:
    package(tmp_path, runtime="")
    (tmp_path / "llama_cpp" / "__init__.py").write_text("")
    done = extensions.run("import llama_cpp; print('imported')", tmp_path)
    assert (done.returncode, done.stdout) == (0, "imported\n"), done.stderr
    assert (
        "llama.cpp is built without CUDA, does not see the simulated GPUs (A100-40GB), and computes on the CPU"
        in done.stderr
    )


def test_a_build_for_another_cuda_is_refused_by_name(tmp_path: Path) -> None:
    done = extensions.run(PROGRAM, package(tmp_path, runtime="libcudart.so.11.0"))
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].endswith(
        "llama.cpp does not run on simulated GPUs if it is built for libcudart.so.11.0: "
        "use a wheel for CUDA 12 or 13, or for the CPU"
    )


def test_a_build_that_imports_more_is_refused_by_name(tmp_path: Path) -> None:
    done = extensions.run(PROGRAM, package(tmp_path, more="cudaOfTomorrow"))
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert "llama.cpp (" in last
    assert last.endswith("that gpuconf does not have: cudaOfTomorrow. Use a newer gpuconf, or its wheel for the CPU")


@pytest.mark.skipif(importlib.util.find_spec("llama_cpp") is None, reason="llama_cpp is not installed")
@pytest.mark.skipif("LLAMA_MODEL" not in os.environ, reason="LLAMA_MODEL does not name a model for llama_cpp")
def test_the_real_one_loads_a_model() -> None:
    program = """
    import os
    import llama_cpp
    model = llama_cpp.Llama(os.environ["MODEL"], n_gpu_layers=-1, n_ctx=512, verbose=True)
    print(model.eval([1, 2, 3]))
    """
    done = extensions.run(program, MODEL=os.environ["LLAMA_MODEL"])
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr
    assert "CUDA0 KV buffer size" in done.stderr
    assert "these have no value on simulated GPUs" in done.stderr
