# SPDX-License-Identifier: Apache-2.0
"""Libraries that do not start on simulated GPUs: at their first import one line says so, and what to do instead."""

from __future__ import annotations

from functools import partial

from . import import_hook, runtime

_INSTEAD = {
    "cupy": "CuPy does not start on simulated GPUs: NVIDIA's runtime is linked into it and reports that the CUDA driver version is "
    "insufficient. Use NumPy, or tensors of PyTorch, which runs on them",
    "jax": "JAX does not start on simulated GPUs and computes on the CPU: JAX_PLATFORMS=cpu makes that explicit",
    "tensorflow": "TensorFlow does not start on simulated GPUs and computes on the CPU. gpuconf.compat has its functions for GPU "
    "configuration, which run on them",
}


def watch() -> None:
    """Log the line of each library when it is first imported, if GPUs are simulated then."""
    for name in _INSTEAD:
        import_hook.before_import(name, partial(_tell, name))


def _tell(name: str) -> None:
    machine = runtime.simulated()
    if machine:
        from . import notices

        notices.log("warning", f"{_INSTEAD[name]} ({machine})")
