# SPDX-License-Identifier: Apache-2.0
"""Names of 0.2 that 0.3 still takes, each with one line on standard error: environment variables and keys of settings
files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

VARIABLES = {"GPUCONF_MEMORY_LIMIT": "GPUCONF_LIMIT", "GPUCONF_ALLOW_GROWTH": "GPUCONF_GROWTH"}
KEYS = {"memory_limit": "limit", "allow_growth": "growth"}

_noted: set[str] = set()


def current(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables under their present names: ``environ`` itself if it has no former one."""
    if VARIABLES.keys().isdisjoint(environ):
        return environ
    renamed = {name: value for name, value in environ.items() if name not in VARIABLES}
    for former, name in VARIABLES.items():
        if former not in environ:
            continue
        if name in renamed:
            note(f"{former} is ignored: {name}, its new name, is set too")
        else:
            note(f"{former} is now {name}; 0.4 will ignore the old name")
            renamed[name] = environ[former]
    return renamed


def variable(name: str) -> str:
    """Return an environment variable of this process by its present name, "" if it is not set."""
    return current(os.environ).get(name, "")


def note(text: str) -> None:
    """Write a line to standard error, once in a process."""
    if text in _noted or sys.stderr is None:
        return
    _noted.add(text)
    try:  # noqa: SIM105 - contextlib takes longer to import than this module
        sys.stderr.write(f"gpuconf: {text}\n")
    except (OSError, ValueError):  # it is closed or full
        pass
