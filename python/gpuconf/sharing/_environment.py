# SPDX-License-Identifier: Apache-2.0
"""The environment of a program that may use some bytes of some GPUs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from ._frameworks_environment import LeasedCard, of_frameworks

STARTUP = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_startup")


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
    found = of_frameworks(cards, limit, growth, environ)
    found["GPUCONF_MEMORY_LIMIT"] = str(limit)
    if growth is not None:
        found["GPUCONF_ALLOW_GROWTH"] = "true" if growth else "false"
    if simulate:
        found["GPUCONF_SIMULATE"] = simulate
    found["PYTHONPATH"] = python_path(environ)
    return found


def of_process(cards: Sequence[LeasedCard], limit: int, simulate: str | None) -> dict[str, str]:
    """Return the variables that limit this process and its children: those of a program that need no startup code."""
    found = of_program(cards, limit, simulate=simulate)
    del found["PYTHONPATH"]
    return found


def python_path(environ: Mapping[str, str] = os.environ) -> str:
    """Return a ``PYTHONPATH`` that runs gpuconf's startup code in every Python.

    OpenTelemetry, if it instruments this process, has removed itself from the variable; its own startup code then runs after ours.
    """
    instrumenting = sys.modules.get("opentelemetry.instrumentation.auto_instrumentation")
    theirs = os.path.dirname(instrumenting.__file__) if instrumenting is not None and instrumenting.__file__ else ""
    before = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry not in (STARTUP, theirs)]
    return os.pathsep.join(entry for entry in (STARTUP, theirs, *before) if entry)
