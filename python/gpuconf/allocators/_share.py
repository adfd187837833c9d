# SPDX-License-Identifier: Apache-2.0
"""Shared by the adaptors: the check for GPUs that a library can use, and the logical GPU that a CUDA device maps to."""

from __future__ import annotations

from types import ModuleType

from .. import errors
from .._core import message, runtime
from .._core import scope as _scope
from ..simulation import simulated_torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..memory._stats import MemoryStats


def require_gpu(library: str) -> None:
    """Raise on simulated GPUs, unless PyTorch has started on them.

    A library that uses a real GPU cannot use their memory, which is the host's.
    """
    if runtime.simulated() and not (library == "PyTorch" and simulated_torch.runs()):
        raise errors.FailedPreconditionError(
            f"{library} cannot run on simulated GPUs ({runtime.simulated()}): their memory is host memory. "
            "End the simulation with gpuconf.simulate(None), or use the library without gpuconf"
        )


def require_unused(library: str, module: str, used: bool, why: str, first: str) -> None:
    """Raise if a library has used the GPU: ``why`` that is too late, and before which ``first`` use it is not."""
    require_gpu(library)
    if used:
        raise errors.FailedPreconditionError(
            f"{library} has already used the GPU: {why}. Call gpuconf.configure() or "
            f"gpuconf.allocators.{module}.install() before {first}"
        )


def routed(ordinal: int, function: str) -> int:
    """Return the logical GPU that this thread allocates from on a CUDA device, as ``gpuconf_malloc`` does.

    Initializes the runtime.
    """
    runtime.logical_devices(function)
    ordinals = runtime.ordinals()
    scope = _scope.current_gpu()
    if 0 <= scope < len(ordinals) and ordinals[scope] == ordinal:
        return scope
    if ordinal not in ordinals:
        raise errors.InvalidArgumentError(
            f"CUDA device {ordinal} has no logical GPU: it is unknown or not visible to gpuconf"
        )
    return ordinals.index(ordinal)


def name_of(number: int) -> str:
    """Return the name of a logical GPU."""
    return runtime.logical_gpu(number).name


def stats_of(ordinal: int, function: str) -> MemoryStats:
    """Return the statistics of the logical GPU that this thread allocates from on a CUDA device."""
    from ..memory._stats import stats

    return stats(name_of(routed(ordinal, function)))


# The sets of library versions that gpuconf is tested with, and a warning for versions outside all sets.
#
# Each set is a file of exact requirements in ``tests_py/frameworks/requirements``; ``make test-frameworks SET=...``
# runs the tests on one.

# For each set, the release series of each library and the CUDA version that its wheels are built for.
SETS = {
    "torch-2.6-cuda12": {"torch": "2.6", "cupy": "13.6", "numba-cuda": "0.20", "cuda": "12"},
    "torch-2.9-cuda12": {"torch": "2.9", "cupy": "14.2", "numba-cuda": "0.30", "cuda": "12"},
    "torch-2.11-cuda13": {"torch": "2.11", "cupy": "13.6", "numba-cuda": "0.20", "cuda": "13"},
    "torch-2.15-cuda13": {"torch": "2.15", "cupy": "14.2", "numba-cuda": "0.30", "cuda": "13"},
}
_NAMES = {"torch": "PyTorch", "cupy": "CuPy", "numba-cuda": "numba-cuda", "cuda": "CUDA"}

_checked: set[str] = set()


def is_numbas_own(module: ModuleType) -> bool:
    """Report whether ``numba.cuda`` was once part of Numba, and is not numba-cuda's, which Python finds first."""
    folders = str(getattr(module, "__file__", None)).split("/")[:-1]
    return folders[-2:] == ["numba", "cuda"] and "numba_cuda" not in folders


def check(library: str, version: object) -> None:
    """Log one warning per process if this version of ``"torch"``, ``"cupy"`` or ``"numba-cuda"`` is in no set.

    Any release of a series matches: 2.9.1 belongs to series 2.9.
    """
    series = ".".join(str(version).split("+")[0].split(".")[:2])
    if library in _checked or any(each[library] == series for each in SETS.values()):
        return
    _checked.add(library)
    sets = "; ".join(
        f"{name} ({', '.join(f'{_NAMES[part]} {series}' for part, series in each.items())})"
        for name, each in SETS.items()
    )
    message.log(
        "warning",
        f"{_NAMES[library]} {version} is routed, but gpuconf is not tested with this version. Tested sets: {sets}",
    )
