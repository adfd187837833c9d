# SPDX-License-Identifier: Apache-2.0
"""The sets of library versions that gpuconf is tested with, and a warning for versions outside all sets.

Each set is a file of exact requirements in ``tests_py/frameworks/requirements``; ``make test-frameworks SET=...`` runs
the tests on one.
"""

from __future__ import annotations

from types import ModuleType

from .._core import notices

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
    """Whether ``numba.cuda`` is the one that was once part of Numba, and not numba-cuda's, which Python finds first."""
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
        f"{name} ({', '.join(f'{_NAMES[one]} {which}' for one, which in each.items())})" for name, each in SETS.items()
    )
    notices.log(
        "warning",
        f"{_NAMES[library]} {version} is routed, but gpuconf is not tested with this version. Tested sets: {sets}",
    )
