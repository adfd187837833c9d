"""The libraries that stand in for NVIDIA's below PyTorch, each reached by PyTorch's own functions."""

import subprocess
import sys
import textwrap
from pathlib import Path

import no_gpu
import pytest
import script

HERE = Path(__file__).resolve().parent
needs_torch = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")


def complete(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = script.plain() | environment
    return script.completed([sys.executable, "-W", "ignore", *words], timeout=170, env=kept)


@needs_torch
def test_calls_of_every_library_take_the_path_of_the_card() -> None:
    done = complete(str(HERE / "calls_of_simulated_libraries.py"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "\n"


def with_a_torch(
    folder: Path, *imported: str, arguments: str = '"T4"', **more: str
) -> subprocess.CompletedProcess[str]:
    """Import a package that has the files of a PyTorch whose library imports these functions; without any, it has no
    CUDA.
    """
    (folder / "torch" / "lib").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("print('imported')")
    (folder / "torch" / "version.py").write_text("cuda: str = '12.8'")
    if imported:
        source = "".join(f"int {name}(void);" for name in imported) + "int all(void) { return 0"
        source += "".join(f" + {name}()" for name in imported) + "; }"
        library = str(folder / "torch" / "lib" / "libtorch_cuda.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], input=source, text=True, check=True)
    program = f"""
    import gpuconf
    gpuconf.simulate({arguments})
    import torch
    """
    return complete("-W", "default", "-c", textwrap.dedent(program), PYTHONPATH=str(folder), **more)


def test_a_pytorch_that_imports_more_is_told_so_by_name(tmp_path: Path) -> None:
    done = with_a_torch(tmp_path, "cublasSgemm_v2", "cudnnOfTomorrow", "cudaFuture", "fprintf")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "UnimplementedError: this PyTorch (" in done.stderr
    assert (
        "imports 2 functions of CUDA's libraries that gpuconf does not have: cudaFuture, cudnnOfTomorrow. "
        in done.stderr
    )


def test_a_pytorch_without_cuda_is_told_which_wheel_has_it(tmp_path: Path) -> None:
    done = with_a_torch(tmp_path)
    assert (done.returncode, done.stdout) == (0, "imported\n")
    assert "<string>:4: RuntimeWarning: PyTorch (" in done.stderr
    assert "is built without CUDA and does not see the simulated GPUs (T4)" in done.stderr
    assert "pip install torch" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "more"), [('"T4", values="cpu"', {}), ('"T4"', {"GPUCONF_SIMULATE_VALUES": "none"})]
)
def test_a_pytorch_without_cuda_is_an_error_if_values_were_requested(
    arguments: str, more: dict[str, str], tmp_path: Path
) -> None:
    done = with_a_torch(tmp_path, arguments=arguments, **more)
    assert (done.returncode, done.stdout) == (1, "")
    assert "FailedPreconditionError: PyTorch (" in done.stderr.splitlines()[-1]
    assert "is built without CUDA and does not see the simulated GPUs (T4)" in done.stderr
    assert "pip install torch" in done.stderr
