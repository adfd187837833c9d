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
    "driver version is "
    "insufficient. Use NumPy, or tensors of PyTorch, which runs on them",
    "jax": "JAX does not start on simulated GPUs and computes on the CPU: JAX_PLATFORMS=cpu makes that explicit",
    "tensorflow": "TensorFlow does not start on simulated GPUs and computes on the CPU. gpuconf.compat has its "
    "functions for GPU "
    "configuration, which run on them",
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
        from .._core import notices

        notices.log("warning", f"{_INSTEAD[name]} ({machine})")


def _before_vllm() -> None:
    """Let vLLM sample without FlashInfer if that has no compiler: it compiles its kernel when vLLM measures the memory
    it needs.
    """
    if runtime.simulated() and _SAMPLER not in os.environ and not _has_nvcc():
        from .._core import notices

        os.environ[_SAMPLER] = "0"
        notices.log(
            "warning",
            f"vLLM samples without FlashInfer ({_SAMPLER}=0), which compiles its kernels with nvcc: there is none",
        )


def _has_nvcc() -> bool:
    import shutil

    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    return bool(shutil.which("nvcc")) or any(
        os.path.exists(os.path.join(home, "bin", "nvcc")) for home in homes if home
    )
