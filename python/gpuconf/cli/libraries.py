# SPDX-License-Identifier: Apache-2.0
"""The findings about a Python's libraries, for ``gpuconf doctor``: whether they take their memory from gpuconf's
pools.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from .. import errors
from .._core import runtime, settings
from .._core.generated.details import About
from .._core.native import core
from .._typing import Any
from ..allocators._share import SETS
from .diagnosis import NOTE, OK, Finding, fine, note, problem

# The packages of each library: CuPy and JAX have one for each version of CUDA.
PACKAGES = {
    "torch": ("torch",),
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy"),
    "numba-cuda": ("numba-cuda",),
    "jax": ("jax",),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tf-nightly"),
    "rmm": ("rmm-cu13", "rmm-cu12", "rmm"),
}
_NEVER_ROUTED = {
    "jax": "not routed: it accepts no allocator. gpuconf run sets its limit and preallocation in the environment",
    "tensorflow": "not routed: it accepts no allocator. gpuconf run sets its growth and what it leaves free in the "
    "environment",
    "rmm": "not routed: its limits are arguments of its own functions; only the guard counts its memory",
}


def of_python(answer: Mapping[str, Any], words: Sequence[str], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each library that the probe found."""
    under_run = is_under_run(words, environ)
    installed = answer["libraries"]
    versions = {
        name: next((installed[one] for one in packages if one in installed), "") for name, packages in PACKAGES.items()
    }
    for name, version in versions.items():
        if not version:
            continue
        why = _why_not(name, version, answer, environ)
        if not why and under_run:
            why = _why_not_under_run(answer, environ)
        if why:
            yield note(name, f"{version}: {why}")
            continue
        series = ".".join(version.split("+")[0].split(".")[:2])
        tested = any(each[name] == series for each in SETS.values())
        text = f"{version}: {_ROUTED if under_run else _ROUTED_IF}"
        yield Finding(
            OK if under_run else NOTE, name, text if tested else f"{text}; gpuconf is not tested with this version"
        )
    if not any(versions.values()):
        yield note("libraries", "none that gpuconf knows is installed (PyTorch, CuPy, Numba, JAX, TensorFlow, RMM)")


_ROUTED = "routed onto gpuconf's pools when it first uses the GPU"
_ROUTED_IF = "not routed, unless the program calls gpuconf.configure() or runs under gpuconf run"


def is_run(words: Sequence[str]) -> bool:
    """Report whether a command is ``gpuconf run``."""
    return os.path.basename(words[0] if words else "") == "gpuconf" and list(words[1:2]) == ["run"]


def is_under_run(words: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Report whether gpuconf's startup code runs: in a job of ``gpuconf run``, or because that is the command."""
    if is_run(words):
        return True
    return bool(environ.get("GPUCONF_LIMIT")) and os.path.isdir(environ.get("GPUCONF_RUN", ""))


def _why_not(name: str, version: str, answer: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Return why a library is not routed, whatever starts the program; "" if nothing is against it."""
    if name in _NEVER_ROUTED:
        return _NEVER_ROUTED[name]
    if name == "torch" and any(build in version for build in ("+cpu", "+rocm", "+xpu")):
        return "not routed: this build has no CUDA"
    if answer["version"] < [3, 10]:
        return "not routed: gpuconf needs Python 3.10 or newer"
    if "t" in answer.get("abiflags", ""):
        return "not routed: gpuconf does not support free-threaded Python"
    if name == "numba-cuda" and environ.get("NUMBA_CUDA_MEMORY_MANAGER"):
        return "not routed by gpuconf run: NUMBA_CUDA_MEMORY_MANAGER is set"
    try:
        if runtime.simulated() and name != "torch":
            return "not routed: the GPUs are simulated, and it does not use them"
        if not any(device.device_type == "GPU" for device in runtime.physical_devices()):
            return "not routed: there is no GPU"
    except errors.GpuconfError:  # another finding reports it
        return "not routed: gpuconf's settings are wrong, or the driver is"
    return ""


def _why_not_under_run(answer: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Return why the startup code of ``gpuconf run`` does not route libraries; "" if it does."""
    if environ.get("GPUCONF_DISABLE", "") not in ("", "0"):
        return "not routed: GPUCONF_DISABLE is set"
    return (
        f"not routed: {' '.join(answer['flags'])} keeps gpuconf's startup code from running" if answer["flags"] else ""
    )


# The finding about what multiplies matrices on the CPU, for ``gpuconf doctor``.

_INSTALL = "pip install 'gpuconf[blas]' installs OpenBLAS"


def finding(path: Sequence[str]) -> Finding:
    """Return the finding for a Python with a module search path."""
    try:
        choice = settings.value("GPUCONF_BLAS", os.environ).encode("utf-8", "replace").decode()
    except errors.GpuconfError:  # another finding reports what is wrong with the settings
        choice = ""
    try:
        blas = About(*json.loads(core.pybind_DescribeBLAS(choice, "\n".join(runtime.module_folders(list(path))))))
    except errors.GpuconfError as error:
        return problem("BLAS", str(error), f"correct or unset GPUCONF_BLAS; {_INSTALL}")
    if blas.path:
        version = re.search(r"\d+(\.\d+)+", blas.version)
        name = " ".join([blas.library or "an unnamed library", *([version[0]] if version else [])])
        threads = f", {blas.threads} thread{'s' * (blas.threads != 1)}" if blas.threads else ""
        text = f"{name}{threads}, multiplies matrices on the CPU and on simulated GPUs: {blas.path}"
        return fine("BLAS", text)
    why = "GPUCONF_BLAS=gonum" if choice == "gonum" else "; ".join(blas.complaints) or "no BLAS library found"
    text = (
        f"gonum multiplies matrices on the CPU and on simulated GPUs, several times slower than a BLAS library ({why})"
    )
    return note("BLAS", text, "unset it" if choice == "gonum" else _INSTALL)
