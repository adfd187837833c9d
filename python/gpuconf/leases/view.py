# SPDX-License-Identifier: Apache-2.0
"""Who has what of the machine's cards: the driver's processes, the ledger's leases and figures, and /proc, joined."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from .. import errors
from .._core.generated.cards import Card, CardMemory, CardProcess
from .._core.table import Table
from .._typing import Any
from ..machine.cards import Survey, survey
from . import proc


class Pool(Table):
    """A process's memory pool on a card, in bytes, from the ledger."""

    device: str  # the logical device, such as "GPU:0"
    limit: int
    reserved: int
    in_use: int
    peak: int
    libraries: dict[str, int]  # bytes in use by library


class Share(Table):
    """What one process has of one card."""

    pid: int
    user: str | None
    command: str | None
    name: str  # of its lease
    job: str
    bytes: int | None  # device memory that the driver counts for the process; None if it does not say
    lease: int | None  # bytes that its lease has on this card, shared with the other processes of the lease
    contexts: int | None  # the CUDA contexts that the lease has room for, of all its processes; None if it does not say
    context_bytes: int | None  # what the lease takes of this card for them, beside ``lease``
    pools: tuple[Pool, ...]
    claim: str  # the lease; "" for none
    # "gone", "zombie", "other container", "host PID", "waiting", "stopped", "no memory in use", "parent ended"
    notes: tuple[str, ...]
    # The process that leased the memory, as `gpuconf lease --list` shows it; None without a lease.
    lease_pid: int | None

    @property
    def limit(self) -> int | None:
        """The limits of its pools together."""
        return sum(pool.limit for pool in self.pools) if self.pools else None

    @property
    def reserved(self) -> int | None:
        """What its pools have reserved on the card."""
        return sum(pool.reserved for pool in self.pools) if self.pools else None

    @property
    def in_use(self) -> int | None:
        """What is in use of it."""
        return sum(pool.in_use for pool in self.pools) if self.pools else None

    @property
    def peak(self) -> int | None:
        """The peaks of its pools, added."""
        return sum(pool.peak for pool in self.pools) if self.pools else None

    @property
    def libraries(self) -> dict[str, int]:
        """Bytes in use by library."""
        added: dict[str, int] = {}
        for pool in self.pools:
            for library, count in pool.libraries.items():
                added[library] = added.get(library, 0) + count
        return added


class Place(Table):
    """A card, or a MIG instance of a card, that programs can use."""

    gpu: str  # nvidia-smi's number: "0", or "0.1" for a card's second MIG instance
    uuid: str
    name: str
    pci_bus_id: str
    memory: CardMemory
    leased: int  # bytes that live leases take of it
    shares: tuple[Share, ...]
    errors: tuple[str, ...]

    @property
    def reserved(self) -> int:
        """What gpuconf's pools have reserved."""
        return sum(share.reserved or 0 for share in self.shares)

    @property
    def in_use(self) -> int:
        """What is in use of it."""
        return sum(share.in_use or 0 for share in self.shares)


class View(Table):
    """The machine at one moment."""

    survey: Survey
    places: tuple[Place, ...]
    ledger: str | None  # its folder; None if there is none
    ledger_error: str | None  # why it cannot be read
    # Cards that the ledger knows and this process does not see, such as those of a simulation elsewhere.
    others: tuple[Place, ...]
    claims: tuple[Any, ...]  # the ledger's rows of leases


def view() -> View:
    """Return who has what of the machine's cards. Creates no CUDA context, and no ledger."""
    found = survey()
    folder, claims, processes, problem = _ledger_rows()
    places = tuple(_place(one, claims, processes, found.host_pids) for one in _places(found))
    seen = {place.uuid for place in places}
    others = tuple(_other(uuid, claims, processes) for uuid in _uuids(claims, processes) if uuid not in seen)
    return View(found, places, folder, problem, others, tuple(claims))


def hidden_users(machine: View) -> list[str]:
    """Return that other users use the cards while the ledger is this user's alone, in one sentence; nothing if it is
    not so.
    """
    from .ledger import default_folder, open_ledger

    own = proc.user_name(os.geteuid())
    others = sorted({share.user for place in machine.places for share in place.shares if share.user not in (None, own)})
    if not others or machine.ledger_error or (machine.ledger is not None and open_ledger(create=False).shared):
        return []
    names = ", ".join(str(name) for name in others[:3]) + (" and others" if len(others) > 3 else "")
    return [
        f"{names} use these GPUs, but the ledger ({machine.ledger or default_folder()}) is yours alone: it does not "
        "show their leases. For one that all users share: sudo gpuconf ledger init --shared"
    ]


def _uuids(claims: Sequence[Any], processes: Sequence[Any]) -> list[str]:
    """Return the cards that leases and published pools are on."""
    named = [one.uuid for claim in claims if claim.state == "granted" for one in claim.cards]
    return list(dict.fromkeys([*named, *(pool.uuid for process in processes for pool in process.pools)]))


def _other(uuid: str, claims: Sequence[Any], processes: Sequence[Any]) -> Place:
    """Return a card of which only the ledger knows. It is called as in the list of leases."""
    card = Card(-1, uuid, "", "", (0, 0), "unknown", CardMemory("unknown", None, None, None, None), (), None, (), ())
    return _place((uuid[:12], uuid, "", card, card.memory, ()), claims, processes, host_pids=False)


def _ledger_rows() -> tuple[str | None, list[Any], list[Any], str | None]:
    from .ledger import open_ledger

    try:
        ledger = open_ledger(create=False)
        return ledger.folder, ledger.claims(holders=True), ledger.processes(), None
    except errors.NotFoundError:
        return None, [], [], None
    except errors.GpuconfError as error:
        return None, [], [], str(error)


_Seen = tuple[str, str, str, Card, CardMemory, Sequence[CardProcess]]  # number, UUID, name, card, memory, processes


def _places(found: Survey) -> Iterator[_Seen]:
    """Yield what is seen of each card, or of each of its MIG instances."""
    for card in found.cards:
        if not card.instances:
            yield str(card.index), card.uuid, card.name, card, card.memory, card.processes
        for i, instance in enumerate(card.instances):
            inside = [process for process in card.processes if process.instance == instance.uuid]
            yield f"{card.index}.{i}", instance.uuid, instance.name, card, instance.memory, inside


def _place(seen: _Seen, claims: Sequence[Any], processes: Sequence[Any], host_pids: bool) -> Place:
    number, uuid, name, card, memory, listed = seen
    known = {claim.id: claim for claim in claims}
    on_card = {claim.id: claim for claim in claims if any(lease.uuid == uuid for lease in claim.cards)}
    published = [process for process in processes if any(pool.uuid == uuid for pool in process.pools)]
    shares = list(_shares(uuid, listed, known, published, host_pids))
    busy = {share.claim for share in shares}
    shares += [one for claim in on_card.values() if claim.id not in busy for one in _idle(uuid, claim)]
    leased = sum(
        card.charge
        for claim in on_card.values()
        if claim.state == "granted"
        for card in claim.cards
        if card.uuid == uuid
    )
    if card.memory.source == "simulation":
        memory = _simulated(memory, shares)
    return Place(number, uuid, name, card.pci_bus_id, memory, leased, tuple(shares), card.errors)


def _shares(
    uuid: str, listed: Sequence[CardProcess], known: dict[str, Any], published: Sequence[Any], host_pids: bool
) -> Iterator[Share]:
    """Yield what the processes have that the driver lists, and then those that only the ledger knows."""
    rows = {(row.pid, row.start_time): row for row in published}
    for process in listed:
        seen = None if host_pids else proc.look_up(process.pid)
        row = rows.pop((seen.inner_pid, seen.start_time), None) if seen else None
        yield _share(uuid, process.pid, process.bytes, row, known, _notes_of(seen, host_pids), seen)
    for row in rows.values():
        notes = ["gone"] * row.gone + ["other container"] * (not row.local)
        yield _share(uuid, row.pid, None, row, known, notes, None)


def _notes_of(seen: proc.Process | None, host_pids: bool) -> list[str]:
    if seen is None:
        return ["host PID" if host_pids else "gone"]
    return ["zombie"] * (seen.state == "Z") + ["other container"] * seen.elsewhere


def _share(
    uuid: str, pid: int, count: int | None, row: Any, known: dict[str, Any], notes: list[str], seen: proc.Process | None
) -> Share:
    pools = [
        Pool(f"GPU:{pool.number}", pool.limit, pool.reserved, pool.in_use, pool.peak, pool.libraries)
        for pool in (row.pools if row else ())
        if pool.uuid == uuid
    ]
    user, command = proc.user_name(row.uid) if row else None, row.command if row else None
    if seen:
        user, command = seen.user, seen.command
    lease = _lease(known.get(row.claim_id) if row else None, uuid)
    return Share(pid=pid, user=user, command=command, bytes=count, pools=tuple(pools), notes=tuple(notes), **lease)


def _idle(uuid: str, claim: Any) -> Iterator[Share]:
    """Yield the rows of a claim of which no process uses the card: its process, or the children that have outlived it.

    ``gpuconf run`` may have been killed, and not its program.
    """
    notes = ["no memory in use" if claim.state == "granted" else claim.state]
    notes += ["stopped"] * claim.stopped + ["other container"] * (not claim.local)
    children: list[proc.Process | None] = [child for child in map(proc.look_up, claim.holders) if child]
    user, lease = proc.user_name(claim.uid), _lease(claim, uuid)
    for child in children or [None]:
        pid, command = (child.pid, child.command) if child else (claim.pid, claim.command)
        said = (*notes, *["parent ended" if child else "gone"] * claim.gone)
        yield Share(pid=pid, user=user, command=command, bytes=None, pools=(), notes=said, **lease)


def _lease(claim: Any | None, uuid: str) -> dict[str, Any]:
    """Return the fields of a process that say what its lease has of a card."""
    if claim is None:
        return {
            "name": "",
            "job": "",
            "claim": "",
            **dict.fromkeys(("lease", "contexts", "context_bytes", "lease_pid")),
        }
    cards = [lease for lease in claim.cards if lease.uuid == uuid]
    return {
        "name": claim.name,
        "job": claim.job,
        "lease": sum(lease.bytes for lease in cards) or None,
        "contexts": claim.contexts or None,
        "context_bytes": sum(lease.charge - lease.bytes for lease in cards) or None,
        "claim": claim.id,
        "lease_pid": claim.pid,
    }


def _simulated(memory: CardMemory, shares: Sequence[Share]) -> CardMemory:
    """Return a simulated card's memory: only the ledger knows what processes use of it."""
    used = sum(share.reserved or 0 for share in shares)
    return memory._replace(used=used, free=max(0, (memory.total or 0) - used), source="simulation and ledger")
