# SPDX-License-Identifier: Apache-2.0
"""The Python processes below a process, and why gpuconf's startup code did not run in one of them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence, Set

from .._typing import NamedTuple
from ..leases.proc import below, inner_pid
from .execute import PYTHONS, is_one_of

_OUR_FOLDER = b"/gpuconf-job-"  # jobs/budget_file.py
_OF_CUDA = "/dev/nvidia-uvm"  # NVML does not open it
_DRIVERS = (b"libcuda.so", b"_gpuconf.abi3.so")  # the real one, and where the simulated GPUs are

GUARDED = -1
WITNESS = "signal-witness"  # the whole command line of jobs/supervise.py's process, which runs nothing else

QUESTION = ["-X", "gpuconf-question"]  # in the command line of gocore/machine/cuda/elsewhere_cgo.go's process


class Found(NamedTuple):
    """A Python process: its command line, why it could not be routed, and whether it has loaded a driver, as far as can
    be seen.
    """

    pid: int
    command: str
    why: str
    uses_gpu: bool


def pythons_below(root: int, folder: str, known: Set[int]) -> dict[int, Found]:
    """Return the living Python processes below a process, except known ones and those of a nested job.

    ``folder`` is the job's own. A look at a process with many mappings takes milliseconds, in which it cannot make
    others.
    """
    return {pid: found for pid in below({root}) - {root} - known if (found := _python(pid, folder, known)) is not None}


def past_the_guard_below(root: int, seen: dict[tuple[int, str], int]) -> dict[int, str]:
    """Return the command lines of the living processes below a process that use the driver without the guard, by pid.

    ``seen`` is for the next call, by process and program: GUARDED for one that uses the driver with the guard, which is
    not looked at again; for one without the driver, the pages of its address space. Its mappings, which may be many,
    are read again when that has changed.
    """
    return {pid: found for pid in below({root}) - {root} if (found := _past_the_guard(pid, seen))}


def _past_the_guard(pid: int, seen: dict[tuple[int, str], int]) -> str:
    """Return a process's command line if it is past the guard, else "".

    The loader maps the guard's proxy before the driver.
    """
    try:
        process = pid, os.readlink(f"/proc/{pid}/exe")
        before = seen.get(process)
        if before == GUARDED:
            return ""
        with open(f"/proc/{pid}/statm", "rb") as file:
            pages = int(file.read().split()[0])
        if before == pages and not _has_open(pid, _OF_CUDA):
            return ""
        with open(f"/proc/{pid}/maps", "rb") as file:
            drivers = [line for line in file.read().splitlines() if _DRIVERS[0] in line]
        if any(_OUR_FOLDER in line for line in drivers):
            seen[process] = GUARDED
            return ""
        if not drivers and not _has_open(pid, _OF_CUDA):
            seen[process] = pages
            return ""
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read().decode("utf-8", "backslashreplace").replace("\0", " ").strip()
        # The witness may have a driver that gpuconf itself was started with.
        return "" if command == WITNESS else command or "?"
    except OSError:  # it has ended, or is another user's
        return ""


def _has_open(pid: int, path: str) -> bool:
    folder = f"/proc/{pid}/fd"
    return any(os.readlink(f"{folder}/{name}") == path for name in os.listdir(folder))


def _python(pid: int, folder: str, known: Set[int]) -> Found | None:
    """Return a process if it is a Python, not in another job, and not known by its PID in a PID namespace of its
    own.
    """
    try:
        if not is_python(os.readlink(f"/proc/{pid}/exe")):
            return None
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode("utf-8", "backslashreplace").split("\0")[:-1]
        if words[:1] == [WITNESS] or words[4:6] == QUESTION:
            return None
        with open(f"/proc/{pid}/environ", "rb") as file:
            jobs = [word for word in file.read().split(b"\0") if word.startswith(b"GPUCONF_RUN=")]
        with open(f"/proc/{pid}/maps", "rb") as file:
            uses_gpu = any(driver in line for line in file for driver in _DRIVERS)
    except OSError:  # it has ended, or is another user's
        return None
    if jobs and jobs != [f"GPUCONF_RUN={folder}".encode()]:
        return None
    why = why_isolated(words) if jobs else "its environment was cleared"
    if not why and inner_pid(pid) in known:
        return None
    return Found(pid, " ".join(words), why or "its Python did not run gpuconf's startup code", uses_gpu)


def is_python(path: str) -> bool:
    """Whether a command is a Python, by its name."""
    return is_one_of(PYTHONS, path)


def why_isolated(words: Sequence[str]) -> str:
    """Return which of Python's options -E, -I and -S a command line has, as a reason; "" if none."""
    option = isolating_option(words)
    return f"Python's option {option} disables startup code" if option else ""


def isolating_option(words: Sequence[str]) -> str:
    """Return the word with -E, -I or -S among the options of a Python command line, or "".

    With them Python does not read the environment, or does not run ``sitecustomize``.
    """
    takes_value = False
    for word in words[1:]:
        if takes_value or word.startswith("--"):
            takes_value = word == "--check-hash-based-pycs"
        elif not word.startswith("-") or word[1:2] in ("", "m", "c"):
            return ""
        else:
            flags = re.match(r"-([^WXmc]*)(.*)", word)
            assert flags is not None
            if set(flags[1]) & set("EIS"):
                return word
            if flags[2][:1] in ("m", "c"):
                return ""
            takes_value = flags[2] in ("W", "X")
    return ""
