# SPDX-License-Identifier: Apache-2.0
"""``gpuconf ledger``: list, check and create ledgers."""

from __future__ import annotations

import grp
import os

from .. import errors
from .._core.settings import MACHINE_FOLDER, VARIABLE, default_folder
from .._typing import Any
from ..leases.ledger import CardLease, ClaimRow, ProcessRow, init_shared, lost, open_ledger
from ..leases.proc import user_name
from .console import CONDITION, OK, UsageError
from .output import print_json, print_table, size
from .parser import Options
from .processes import leased_memory, without_folder

_CLAIM_HEADER = ("PID", "user", "name", "state", "GPU", "memory", "time", "command")
_POOL_HEADER = ("PID", "user", "device", "limit", "reserved", "in use", "peak", "GPU", "command")


def list_ledger(options: Options) -> int:
    """Run ``gpuconf ledger list``."""
    ledger = open_ledger(options.folder, create=False)
    claims, processes = ledger.claims(), ledger.processes()
    if options.json:
        print_json(
            {
                "folder": ledger.folder,
                "shared": ledger.shared,
                "claims": [_fields(row) for row in claims],
                "processes": [_fields(row) for row in processes],
            }
        )
        return OK
    print(f"{ledger.folder} ({'shared' if ledger.shared else 'private'})")
    if not claims and not processes:
        print("no leases and no processes")
    if claims:
        cells = [_claim_cells(row) for row in claims]
        numbers = ("PID", "memory", "time")
        print_table(_CLAIM_HEADER, cells, right=numbers, drop=("time", "user", "command"), cut=("command", "name"))
    if claims and processes:
        print()
    if processes:
        cells = [cell for row in processes for cell in _pool_cells(row)]
        right = ("PID", "limit", "reserved", "in use", "peak")
        print_table(_POOL_HEADER, cells, right=right, drop=("GPU", "user", "reserved"), cut=("command",))
    return OK


def check(options: Options) -> int:
    """Run ``gpuconf ledger check``."""
    folder = default_folder() if options.folder is None else os.path.abspath(os.path.expanduser(options.folder))
    findings, shared = lost(folder), False
    try:
        ledger = open_ledger(folder, create=False)
    except errors.NotFoundError as error:
        if not findings:
            raise
        findings.insert(0, str(error))  # it was removed while programs used it
    else:
        findings, shared = [*ledger.check(), *findings], ledger.shared
    if options.json:
        print_json({"folder": folder, "shared": shared, "findings": findings})
    else:
        print(*(findings or [f"{folder}: no problems found"]), sep="\n")
    return CONDITION if findings else OK


def init(options: Options) -> int:
    """Run ``gpuconf ledger init``."""
    folder = options.folder or MACHINE_FOLDER
    init_shared(folder, None if options.group is None else _group(options.group))
    ledger = open_ledger(folder, create=False)
    who = "all users" if options.group is None else f"members of {options.group}"
    print(f"{ledger.folder} is a ledger for {who}")
    if ledger.folder != MACHINE_FOLDER:
        print(f"Programs use it with {VARIABLE}={ledger.folder}")
    return OK


def _group(text: str) -> int:
    if text.isdigit():
        return int(text)
    try:
        return grp.getgrnam(text).gr_gid
    except KeyError:
        raise UsageError(f"there is no group {text!r}") from None


def _pid(row: ClaimRow | ProcessRow) -> str:
    """Return a PID, marked if its process is not there: ended, or in another container."""
    return f"{row.pid}" + ("" if row.local else " (container)") + (" (gone)" if row.gone else "")


def _claim_cells(row: ClaimRow) -> tuple[str, ...]:
    cards = _cards(row.cards) if row.state != "waiting" else f"{row.count} of {len(row.cards)}"
    state = "stopped" if row.stopped else {"granted": "leased"}.get(row.state, row.state)
    who = _pid(row), user_name(row.uid), row.name or "-"
    return *who, state, cards, leased_memory(row), _time(row.seconds), _command(row)


def _command(row: ClaimRow | ProcessRow) -> str:
    return without_folder(row.command) or "-"


def _cards(cards: tuple[CardLease, ...]) -> str:
    shown = ", ".join(_short(card.uuid) for card in cards[:2])
    return shown if len(cards) <= 2 else f"{shown} and {len(cards) - 2} more"


def _short(uuid: str) -> str:
    """Return the beginning of a UUID, which nvidia-smi accepts too."""
    return uuid if len(uuid) <= 12 else uuid[:12]


def _pool_cells(row: ProcessRow) -> list[tuple[str, ...]]:
    first = (_pid(row), user_name(row.uid))
    if not row.pools:
        return [(*first, "-", "-", "-", "-", "-", "-", _command(row))]
    return [
        (*first, f"GPU:{p.number}", *map(size, (p.limit, p.reserved, p.in_use, p.peak)), _short(p.uuid), _command(row))
        for p in row.pools
    ]


def _time(seconds: float) -> str:
    """Return a duration in one or two units."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes >= 10 else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _fields(row: ClaimRow | ProcessRow) -> dict[str, Any]:
    return {**row.to_dict(), "user": user_name(row.uid)}
