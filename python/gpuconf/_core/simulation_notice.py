# SPDX-License-Identifier: Apache-2.0
"""The warning that a program's GPUs are simulated although the machine has real ones, with who requested it."""

from __future__ import annotations

import os

from . import notices, settings

# The files that a driver's GPUs have: on a server or a desktop, under WSL, on Tegra.
DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvmap")

BEGINNING = "the GPUs are simulated ("

_callers: dict[str, str] = {}  # by the machine's specification: the last call that requested it, as "file:line (call)"
_caller = ""  # of the machine that a call has chosen; "" if none has
_told: set[str] = set()


def has_driver() -> bool:
    """Whether this machine seems to have a GPU. Nothing is opened: a simulation uses nothing of the driver."""
    return any(os.path.exists(path) for path in DRIVER_FILES)


def chosen(spec: str, caller: str = "") -> None:
    """Remember that a call has chosen a machine, or with "" that no call has.

    Without a caller, it is the one of before.
    """
    global _caller
    if spec and caller:
        _callers[spec] = caller
    _caller = _callers.get(spec, "") if spec else ""


def warn(spec: str) -> None:
    """Log once who requested a simulated machine, if there seems to be a real one."""
    if not has_driver():
        return
    who = _caller or settings.asked("GPUCONF_SIMULATE", os.environ)
    text = f"{BEGINNING}{spec}), although this machine has a driver of real ones. Requested by: {who}"
    if text not in _told:
        _told.add(text)
        notices.log("warning", text)
