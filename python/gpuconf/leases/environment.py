# SPDX-License-Identifier: Apache-2.0
"""The environment of a program that may use some bytes of some GPUs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from .. import errors
from .._typing import NamedTuple

_MIB = 1 << 20
_PPM = 10**6


class LeasedCard(NamedTuple):
    """A GPU that the program may use, and its memory when the program starts."""

    uuid: str
    total_bytes: int
    free_bytes: int
    kind: str = "dedicated"  # of its memory: "dedicated", "unified" or "coherent"
    source: str | None = None  # of free_bytes: "NVML", "/proc/meminfo" or "simulation"; None if the total stands for it


def of_frameworks(
    cards: Sequence[LeasedCard], limit: int, growth: bool | None, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables for ``limit`` bytes of each card. ``environ`` is the user's environment."""
    variables = {"CUDA_VISIBLE_DEVICES": ",".join(card.uuid for card in cards), "CUPY_GPU_MEMORY_LIMIT": str(limit)}
    if cards:
        variables["TF_DEVICE_MIN_SYS_MEMORY_IN_MB"] = str(
            max(0, *(-(-(card.free_bytes - limit) // _MIB) for card in cards))
        )
        newer = "XLA_CLIENT_MEM_FRACTION"
        name = newer if newer in environ else "XLA_PYTHON_CLIENT_MEM_FRACTION"
        variables[name] = _fraction(min(limit * _PPM // card.total_bytes for card in cards))
    if growth is not None:
        variables["TF_FORCE_GPU_ALLOW_GROWTH"] = "true" if growth else "false"
        variables["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false" if growth else "true"
    return variables


def _fraction(millionths: int) -> str:
    """Return a fraction rounded down, of at most 1."""
    return f"{min(millionths, _PPM) / _PPM:.6f}"


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STARTUP = os.path.join(_PACKAGE, "_startup")
SIMULATOR = os.path.join(_PACKAGE, "_simulator")
ALWAYS = os.path.join(_PACKAGE, "_always", "libgpuconf-always.so")


def of_program(
    cards: Sequence[LeasedCard],
    limit: int,
    growth: bool | None = None,
    simulate: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Return the variables that limit a program to ``limit`` bytes of each card, in all frameworks.

    ``growth`` None leaves it to each framework whether its pools grow. ``simulate`` is the simulated machine, if any.
    """
    variables = of_frameworks(cards, limit, growth, environ)
    variables["GPUCONF_LIMIT"] = str(limit)
    if growth is not None:
        variables["GPUCONF_GROWTH"] = "true" if growth else "false"
    if simulate:
        variables["GPUCONF_SIMULATE"] = simulate
        variables.update(of_simulation(environ))
    variables["PYTHONPATH"] = python_path(environ)
    return variables


def of_process(
    cards: Sequence[LeasedCard], limit: int, simulate: str | None, growth: bool | None = None
) -> dict[str, str]:
    """Return the variables that limit this process and its children: those of a program that need no startup code."""
    found = of_program(cards, limit, growth, simulate)
    del found["PYTHONPATH"]
    for name in of_simulation():
        found.pop(name, None)  # read when a program starts
    return found


def of_simulation(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables by which a program finds the simulated driver.

    JAX begins with a look at the versions of CUDA's libraries. CUPTI, which it asks, calls itself without end on a
    driver that has no tables without a name (cuGetExportTable). Without the look JAX goes on to its CPU backend.
    """
    return {
        "LD_LIBRARY_PATH": loader_path(environ),
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": environ.get("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1"),
    }


def loader_path(environ: Mapping[str, str] = os.environ) -> str:
    """Return an ``LD_LIBRARY_PATH`` with which every program finds the simulated driver and NVML by their names.

    Empty elements, which mean the working directory, are left out. Raises FailedPreconditionError if the loader would
    not take the package's folder for one folder.
    """
    wrong = sorted(set(SIMULATOR) & set(":;$"))
    if wrong:
        raise errors.FailedPreconditionError(
            f"no program can find the simulated driver in {SIMULATOR}: {' and '.join(wrong)} is no part of a name in "
            "LD_LIBRARY_PATH. Install gpuconf in a folder without it"
        )
    before = [
        entry
        for entry in environ.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
        if entry and entry != SIMULATOR
    ]
    return ":".join([SIMULATOR, *before])


def of_startup(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables by which each Python of a program runs gpuconf's startup code on simulated GPUs.

    The preloaded library does that for a Python that is started with other variables, or with -I, -E or -S, too. The
    loader would split the path of one in a folder with a space, which is left out.
    """
    variables = {"GPUCONF_STARTUP": "1", "PYTHONPATH": python_path(environ)}
    if not set(ALWAYS) & set(" :$"):
        before = [part for part in environ.get("LD_PRELOAD", "").replace(":", " ").split() if part != ALWAYS]
        variables["LD_PRELOAD"] = " ".join([*before, ALWAYS])
        # AddressSanitizer ends a program in which a library comes before its own. What it fears, that its functions are
        # replaced, does not happen. The last word counts, so a choice of the user's stays.
        variables["ASAN_OPTIONS"] = ":".join(filter(None, ("verify_asan_link_order=0", environ.get("ASAN_OPTIONS"))))
    return variables


def python_path(environ: Mapping[str, str] = os.environ) -> str:
    """Return a ``PYTHONPATH`` that runs gpuconf's startup code in every Python.

    OpenTelemetry, if it instruments this process, has removed itself from the variable; its own startup code then runs
    after ours.
    """
    instrumenting = sys.modules.get("opentelemetry.instrumentation.auto_instrumentation")
    theirs = os.path.dirname(instrumenting.__file__) if instrumenting is not None and instrumenting.__file__ else ""
    before = [
        entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry not in (STARTUP, theirs)
    ]
    return os.pathsep.join(entry for entry in (STARTUP, theirs, *before) if entry)
