# SPDX-License-Identifier: Apache-2.0
"""``gpuconf lease``: hold a lease while a command or a shell runs, or list the leases."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence

from .. import errors
from .._core.generated.cards import CardMemory
from .._core.size_text import size_of
from .._typing import Any
from ..jobs.cgroup import host_room
from ..jobs.turns import why_kept
from ..leases.ledger import ClaimRow, Ledger, open_ledger
from ..leases.proc import user_name
from ..leases.request import memories
from ..machine.cards import survey
from . import leased
from .console import EMPTY, OK, UsageError
from .output import print_json, print_table, size
from .parser import Options
from .processes import leased_memory, without_folder


def lease(options: Options) -> int:
    """Run the command."""
    words: list[str] = options.words
    vars(options).update(wait=None, report=False, json_report=None)  # options that only gpuconf run has
    if options.list and words:
        raise UsageError(f"--list takes no command, but got {words[0]!r}")
    for argument in options.arguments if options.list else ():
        name = argument.attribute
        if argument.is_option and name not in ("list", "json") and getattr(options, name) is not None:
            raise UsageError(f"--list lists leases and takes none: leave --{name} out, or leave --list out")
    if options.list:
        return _list(options.json)
    if options.json:
        raise UsageError("--json needs --list")
    if words and not words[0]:
        raise UsageError(EMPTY)
    if options.memory is None and options.gpus is None:
        hint = "; gpuconf lease --list lists leases" if words == ["list"] else ""
        with contextlib.suppress(ValueError, IndexError):
            size_of(words[0], 0)
            hint = f"; did you mean --memory {words[0]}?"
        raise UsageError(f"nothing to lease: pass --memory or --gpus{hint}")
    return leased.run(options, words or [os.environ.get("SHELL") or "/bin/sh"], {})


def _list(as_json: bool) -> int:
    rows: Sequence[ClaimRow] = ()
    with contextlib.suppress(errors.NotFoundError):  # there is no ledger yet
        ledger = open_ledger(create=False)
        rows = _with_reasons(ledger.claims(holders=True), ledger)
    known = memories(survey())
    if as_json:
        print_json({"leases": [_fields(row, known) for row in rows]})
    elif not rows:
        print("no leases")
    else:
        header = ("PID", "user", "name", "state", "GPU", "memory", "time", "command")
        cells = [_row(row, known) for row in rows]
        print_table(
            header, cells, right=("PID", "memory", "time"), drop=("time", "user", "command"), cut=("command", "name")
        )
        for row in rows:
            if row.keeps:
                print(f"PID {row.pid} keeps its memory: {row.keeps}")
    return OK


def _with_reasons(rows: Sequence[ClaimRow], ledger: Ledger) -> list[ClaimRow]:
    """Return the rows with the reason of each program that takes turns and does not give way to one that waits."""
    if not any(row.state == "waiting" for row in rows):
        return [*rows]
    blocked = {one for plan in ledger.plans(host_room())[1] for one in plan.blocked}
    return [row._replace(keeps=why_kept(row)) if row.turns and row.id in blocked else row for row in rows]


def _fields(row: ClaimRow, known: Mapping[str, CardMemory]) -> dict[str, Any]:
    return {
        **row.to_dict(),
        "user": user_name(row.uid),
        "cards": [{**card.to_dict(), **_about(known.get(card.uuid))} for card in row.cards],
    }


def _about(memory: CardMemory | None) -> dict[str, str | None]:
    """Return the kind of a card's memory, and the source of its numbers. None: the card is not visible here."""
    return {"memory_kind": memory.kind if memory else None, "memory_source": memory.source if memory else None}


def _row(row: ClaimRow, known: Mapping[str, CardMemory]) -> tuple[str, ...]:
    state = f"held by {', '.join(map(str, row.holders)) or 'a child'}" if row.gone else "leased"
    if row.state == "parked" or row.host:
        state = "parked"
    if row.state == "waiting":
        state = "stopped" if row.stopped else "waiting"
    gpus = (
        f"{row.count} of {len(row.cards)}" if row.state == "waiting" else " ".join(card.uuid[:12] for card in row.cards)
    )
    kinds = {known[card.uuid].kind for card in row.cards if card.uuid in known} - {"dedicated"}
    lent = [f"({size(row.lent)} lent)"] if row.lent else []
    memory = " ".join([leased_memory(row), *lent, *sorted(kinds)])
    seconds, command = f"{row.seconds:.0f} s", without_folder(row.command)
    return str(row.pid), user_name(row.uid), row.name, state, gpus, memory, seconds, command
