# SPDX-License-Identifier: Apache-2.0
"""Limits of device memory in control groups, which the kernel and the driver enforce: the controller ``dmem``.

NVIDIA's driver counts all of a process's device memory there from CUDA 13.4 on, and ``cuMemGetInfo`` then reports the
limit as the total. A region is a card's memory, such as ``nvidia/0000:17:00.0/vidmem``.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Mapping

from .._core.generated.ledger import Host

ROOT = "/sys/fs/cgroup"
OWN = "/proc/self/cgroup"
CONTROLLER = "dmem"
_PREFIX = "gpuconf-"
_BUS_ID = r"([0-9a-fA-F]+):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-9a-fA-F])?"

Card = tuple[int, int, int]
"""PCI domain, bus and device."""


def card_at(text: str) -> Card | None:
    """Return the PCI address in a region's name, or in a bus id; None if it has none."""
    match = re.search(_BUS_ID, text)
    return None if match is None else (int(match[1], 16), int(match[2], 16), int(match[3], 16))


def own_group() -> str:
    """Return the folder of this process's control group, without a slash at its end.

    Raises OSError without cgroup v2.
    """
    with open(OWN) as file:
        path = next((line[3:].rstrip("\n") for line in file if line.startswith("0::")), None)
    if path is None or not os.path.exists(f"{ROOT}/cgroup.controllers"):
        raise OSError(errno.ENODEV, f"cgroup v2 is not mounted at {ROOT}")
    return f"{ROOT}{path}".rstrip("/")


def regions() -> dict[Card, str]:
    """Return the regions of cards that the kernel can limit."""
    return {card: region for region in _table(f"{ROOT}/dmem.capacity") if (card := card_at(region)) is not None}


def limits() -> dict[Card, tuple[int, str]]:
    """Return the smallest limit of each card, in bytes, and the control group that has it: this process's own or one
    above it.
    """
    by_card: dict[Card, tuple[int, str]] = {}
    try:
        group = own_group()
    except OSError:
        return {}
    while len(group) >= len(ROOT):
        for region, limit in _table(f"{group}/dmem.max").items():
            card = card_at(region)
            if card is not None and limit is not None and (card not in by_card or limit < by_card[card][0]):
                by_card[card] = limit, group[len(ROOT) :] or "/"
        group = os.path.dirname(group)
    return by_card


def _table(path: str) -> dict[str, int | None]:
    """Return the numbers of a file with a line for each region; None for "max". Nothing if the file cannot be read."""
    try:
        with open(path) as file:
            rows = [line.rpartition(" ") for line in file.read().splitlines()]
    except OSError:
        return {}
    return {region: int(number) if number.isdigit() else None for region, _, number in rows if region}


class Group:
    """A control group of this process's own, below the one that it was in."""

    def __init__(self, name: str) -> None:
        self._above = own_group()
        self.folder: str = f"{self._above}/{_PREFIX}{name}"

    @property
    def name(self) -> str:
        """Its path below the mount."""
        return self.folder[len(ROOT) :]

    def describe(self) -> str:
        """Say what keeps the limits."""
        return f"limit enforced by the driver: control group {self.name}"

    def enter(self, limits: Mapping[str, int]) -> None:
        """Make the group, move this process into it, and set limits in bytes by region.

        OSError: nothing has changed.
        """
        lock = _lock(self._above)
        try:
            _remove_empty(self._above)
            os.mkdir(self.folder)
            try:
                _write(f"{self.folder}/cgroup.procs", str(os.getpid()))
                if CONTROLLER not in _read(f"{self._above}/cgroup.subtree_control").split():
                    _write(f"{self._above}/cgroup.subtree_control", f"+{CONTROLLER}")
                self._limit(limits)
            except OSError:
                self._leave()
                raise
        finally:
            os.close(lock)

    def _limit(self, limits: Mapping[str, int]) -> None:
        """Set the limits, and check that the kernel has them. It may round them down to pages."""
        path = f"{self.folder}/dmem.max"
        for region, limit in limits.items():
            _write(path, f"{region} {limit}")
        has = _table(path)
        for region, limit in limits.items():
            got = has.get(region)
            if got is None or got > limit:
                raise OSError(errno.EINVAL, f"the kernel did not apply the limit of {region}", path)

    def leave(self) -> None:
        """Move back and remove the group.

        If other processes are in it, it stays, and limits them; the next program removes it.
        """
        try:
            lock = _lock(self._above)
            try:
                self._leave()
            finally:
                os.close(lock)
        except OSError:
            pass

    def _leave(self) -> None:
        if _read(f"{self.folder}/cgroup.procs").split() not in ([], [str(os.getpid())]):
            return
        from contextlib import suppress

        with suppress(OSError):
            self._move_back()
        with suppress(OSError):
            _remove(self.folder)

    def _move_back(self) -> None:
        """Move this process back.

        A group that passes controllers on may have no processes, so it must stop that, if it may.
        """
        try:
            _write(f"{self._above}/cgroup.procs", str(os.getpid()))
        except OSError:
            others = [name for name in os.listdir(self._above) if os.path.isdir(f"{self._above}/{name}")]
            if others != [os.path.basename(self.folder)]:
                raise
            _write(f"{self._above}/cgroup.subtree_control", f"-{CONTROLLER}")
            _write(f"{self._above}/cgroup.procs", str(os.getpid()))


def _lock(folder: str) -> int:
    """Exclude other programs that enter or leave groups below a folder, until the returned descriptor is closed."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except BaseException:
        os.close(file)
        raise
    return file


def _remove_empty(above: str) -> None:
    """Remove the groups of programs that have ended and whose ``gpuconf run`` was killed.

    A group with processes stays.
    """
    for name in os.listdir(above):
        if name.startswith(_PREFIX):
            try:
                _remove(f"{above}/{name}")
            except OSError:
                continue


def _remove(folder: str) -> None:
    os.rmdir(folder)  # of a group it takes the kernel's files too


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def _write(path: str, text: str) -> None:
    """Write a line, which the kernel takes as a command: it says nothing about the lines that the file has."""
    with open(path, "a") as file:
        file.write(f"{text}\n")


def host_room() -> Host:
    """Return what the memory of the host, and of this process's control group and those above it, has room for."""
    with open("/proc/meminfo", encoding="ascii") as file:
        amounts = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in file)}
    room = amounts["MemTotal"]
    try:
        group = own_group()
    except OSError:  # the first version has no one place
        group = ""
    while len(group) >= len(ROOT):
        try:
            with open(f"{group}/memory.max") as limit, open(f"{group}/memory.current") as use:
                most = limit.read().strip()
                room = room if most == "max" else min(room, max(0, int(most) - int(use.read())))
        except (OSError, ValueError):  # the root group has no limit
            pass
        group = os.path.dirname(group)
    return Host(total=amounts["MemTotal"], available=amounts["MemAvailable"], group=room)
