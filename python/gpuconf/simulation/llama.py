# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's Python package on simulated GPUs: which libraries it loads, and the lines that are logged when it is
imported.

Its library contains its own kernels, and links the CUDA runtime and cuBLAS by their names. So it runs over the
libraries that stand in for those (`stand_ins`): its buffers take the memory that they take on a card, and its kernels
compute nothing.
"""

from __future__ import annotations

import os

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
            "13, "
            "or for the CPU"
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
        "build with "
        "GGML_CUDA=on runs on them"
    )


def _log(text: str) -> None:
    from .._core import notices

    notices.log("warning", text)
