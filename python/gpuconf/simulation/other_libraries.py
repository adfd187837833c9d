# SPDX-License-Identifier: Apache-2.0
"""Libraries that do not start on simulated GPUs, or not wholly: at their first import one line says so, and what to do
instead.
"""

from __future__ import annotations

import os
from functools import partial

from .._core import import_hook, runtime

_INSTEAD = {
    "cupy": "CuPy does not start on simulated GPUs: NVIDIA's runtime is linked into it and reports that the CUDA "
    "driver version is insufficient. Use NumPy, or tensors of PyTorch, which runs on them",
    "jax": "JAX does not start on simulated GPUs and computes on the CPU: JAX_PLATFORMS=cpu makes that explicit",
    "tensorflow": "TensorFlow does not start on simulated GPUs and computes on the CPU. gpuconf.compat has its "
    "functions for GPU configuration, which run on them",
}
_SAMPLER = "VLLM_USE_FLASHINFER_SAMPLER"


def watch() -> None:
    """Log the line of each library when it is first imported, if GPUs are simulated then."""
    for name in _INSTEAD:
        import_hook.before_import(name, partial(_tell, name), keep=True)  # a rehearsal has one for JAX
    import_hook.before_import("vllm", _before_vllm)


def _tell(name: str) -> None:
    machine = runtime.simulated()
    if machine:
        from .._core import message

        message.log("warning", f"{_INSTEAD[name]} ({machine})")


def _before_vllm() -> None:
    """Let vLLM sample without FlashInfer if that has no compiler: it compiles its kernel when vLLM measures the memory
    it needs.
    """
    if runtime.simulated() and _SAMPLER not in os.environ and not _has_nvcc():
        from .._core import message

        os.environ[_SAMPLER] = "0"
        message.log(
            "warning",
            f"vLLM samples without FlashInfer ({_SAMPLER}=0), which compiles its kernels with nvcc: there is none",
        )


def _has_nvcc() -> bool:
    import shutil

    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    return bool(shutil.which("nvcc")) or any(
        os.path.exists(os.path.join(home, "bin", "nvcc")) for home in homes if home
    )


# llama.cpp's Python package on simulated GPUs: which libraries it loads, and the lines that are logged when it is
# imported.
#
# Its library contains its own kernels, and links the CUDA runtime and cuBLAS by their names. So it runs over the
# libraries that stand in for those (`stand_ins`): its buffers take the memory that they take on a card, and its kernels
# compute nothing.

_VERSIONS = {"12": 12080, "13": 13000}  # of CUDA, by the number in the name of the runtime's library


def libraries() -> list[str]:
    """Return the paths of the libraries that the package loads, or that lie beside them."""
    import importlib.util
    import re

    folder = os.environ.get("LLAMA_CPP_LIB_PATH", "")
    if not folder:
        spec = importlib.util.find_spec("llama_cpp")
        folder = os.path.join(os.path.dirname(spec.origin), "lib") if spec is not None and spec.origin else ""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [os.path.join(folder, name) for name in names if re.match(r"lib\w[\w-]*\.(.*\.)?so", name)]


def cuda_of(needed: list[str]) -> int | None:
    """Return the version of CUDA that libraries with these needs are built for, such as 12080; None without CUDA.

    Raises UnimplementedError for a version that does not run on simulated GPUs.
    """
    runtimes = [name for name in needed if name.startswith("libcudart.so.")]
    if not runtimes:
        return None
    version = _VERSIONS.get(runtimes[0].split(".")[2])
    if version is None:
        from .. import errors

        raise errors.UnimplementedError(
            f"llama.cpp does not run on simulated GPUs if it is built for {runtimes[0]}: use a wheel for CUDA 12 or "
            "13, or for the CPU"
        )
    return version


def tell(machine: str) -> None:
    """Log the line about what it computes."""
    _log(
        f"llama.cpp runs on simulated GPUs ({machine}): its buffers take memory as on a card, and its kernels compute "
        "nothing"
    )


def tell_without_cuda(machine: str) -> None:
    """Log the line about a package that does not see the GPUs."""
    _log(
        f"llama.cpp is built without CUDA, does not see the simulated GPUs ({machine}), and computes on the CPU. A "
        "build with GGML_CUDA=on runs on them"
    )


def _log(text: str) -> None:
    from .._core import message

    message.log("warning", text)
