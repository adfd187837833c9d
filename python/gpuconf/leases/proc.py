# SPDX-License-Identifier: Apache-2.0
"""What /proc says of a process: whose it is, what it runs, whether it is still there."""

from __future__ import annotations

import os
from collections.abc import Set

from .._typing import NamedTuple

_TICKS_PER_SECOND = 100  # of the times in /proc, on every architecture


class Process(NamedTuple):
    """A process of this host."""

    pid: int
    start_time: int  # clock ticks since boot, without the shift of this process's time namespace
    user: str
    command: str
    state: str  # "R", "S", "Z", ...
    inner_pid: int  # its PID in its own PID namespace
    elsewhere: bool  # it is in another PID namespace: another container


def look_up(pid: int) -> Process | None:
    """Return a process, or None if there is none.

    What may not be read, such as the namespace of another user's, is as usual.
    """
    folder = f"/proc/{pid}"
    try:
        with open(f"{folder}/stat", "rb") as file:
            name, _, rest = file.read().partition(b"(")[2].rpartition(b")")
        fields = rest.split()
        user = user_name(os.stat(folder).st_uid)
    except OSError:
        return None
    started = int(fields[19]) - _TICKS_PER_SECOND * _boot_offset()
    command = _command(folder) or f"[{printable(name.decode('utf-8', 'replace'))}]"
    elsewhere = _namespace(folder) not in (None, _namespace("/proc/self"))
    return Process(pid, started, user, command, fields[0].decode(), inner_pid(pid), elsewhere)


def _fields(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat after the name; none if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def stopped(pid: int) -> bool:
    """Return whether there is such a process, and a signal has stopped it."""
    return _fields(pid)[:1] == [b"T"]


def start_of(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 if there is none, or it has ended and its parent does
    not look.
    """
    fields = _fields(pid)
    return int(fields[19]) if fields and fields[0] not in b"ZX" else 0


def variables_of(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; none if it may not be read, or the process has ended."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            words = os.fsdecode(file.read()).split("\0")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)


def _boot_offset() -> int:
    """Return by how many seconds this process's time namespace shifts the time since boot."""
    try:
        with open("/proc/self/timens_offsets", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("boottime")), 0)
    except OSError:  # the kernel has no time namespaces
        return 0


def user_name(uid: int) -> str:
    """Return a user's name; the number if it has none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def printable(text: str) -> str:
    """Return a text without control characters, which could change a terminal: others choose their command lines."""
    return "".join(c if c.isprintable() else " " for c in text).strip()


def _command(folder: str) -> str:
    try:
        with open(f"{folder}/cmdline", "rb") as file:
            words = file.read(4096).split(b"\0")
    except OSError:
        return ""
    return printable(" ".join(word.decode("utf-8", "replace") for word in words))


def inner_pid(pid: int) -> int:
    """Return a process's PID in its own PID namespace."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"NSpid:"):
                    return int(line.split()[-1])
    except (OSError, ValueError):
        pass
    return pid


def _namespace(folder: str) -> str | None:
    try:
        return os.readlink(f"{folder}/ns/pid")
    except OSError:
        return None


def below(roots: Set[int]) -> set[int]:
    """Return some processes and their living descendants."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _fields(int(name))):
            children.setdefault(int(fields[1]), []).append(int(name))
    pids: set[int] = set()
    todo = list(roots)
    while todo:
        pid = todo.pop()
        if pid not in pids:
            pids.add(pid)
            todo += children.get(pid, [])
    return pids
