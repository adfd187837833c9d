# SPDX-License-Identifier: Apache-2.0
"""The rows of processes that ``gpuconf ps`` and ``gpuconf top`` show, and their JSON."""

from __future__ import annotations

from collections.abc import Sequence

from .. import errors
from .._core.generated.cards import Card
from .._core.texts import plain_machine
from .._typing import Any, NamedTuple
from ..jobs.budget_file import CARDS, existing
from ..leases.view import Place, Share, View
from ..machine.cards import Survey
from .output import Cell, print_table, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._core.generated.ledger import ClaimRow
    from ..jobs.job_memory import JobMemory
    from ..jobs.simulated_cards import CardUse


HEADER = (
    "GPU", "PID", "user", "memory", "lease", "contexts", "lease PID", "limit", "reserved", "in use", "command",
    "notes",
)  # fmt: skip
RIGHT = ("PID", "memory", "lease", "contexts", "lease PID", "limit", "reserved", "in use")
DROP = ("contexts", "limit", "reserved", "user", "lease PID")  # on a narrow terminal, in this order

_WARNINGS = ("gone", "zombie")


def rows_of(machine: View) -> list[tuple[Place, Share]]:
    """Return the processes that have something of a card. A process that could use a card, and does not, is not listed.

    A request that waits for some of several cards is one row, below those of the cards. Its place is called by the
    cards' numbers.
    """
    pairs = [(place, share) for place in (*machine.places, *machine.others) for share in place.shares]
    waiting: dict[str, list[tuple[Place, Share]]] = {}
    for place, share in pairs:
        if "waiting" in share.notes:
            waiting.setdefault(share.claim, []).append((place, share))
    rows = [(place, share) for place, share in pairs if _has(share) and "waiting" not in share.notes]
    for asked in waiting.values():
        numbers = "any" if len(asked) == len(machine.places) > 1 else ",".join(place.gpu for place, _ in asked)
        rows.append((asked[0][0]._replace(gpu=numbers), asked[0][1]))
    return rows


def _has(share: Share) -> bool:
    return bool(share.bytes is not None or share.notes or share.lease or share.reserved)


def row_of(place: Place, share: Share) -> list[Cell]:
    """Return the cells of one process on one card."""
    notes = ", ".join([*share.notes, *_by_library(share)])
    style = (
        "red" if any(note in _WARNINGS for note in share.notes) else "dim" if "no memory in use" in share.notes else ""
    )
    taken = map(size, (share.bytes, share.lease, share.context_bytes))
    leased_by = "-" if share.lease_pid is None else str(share.lease_pid)
    pools = map(size, (share.limit, share.reserved, share.in_use))
    return [place.gpu, str(share.pid), share.user or "?", *taken, leased_by, *pools, label(share), (notes, style)]


def label(share: Share) -> str:
    """Return the name of a process's lease, if it has one, and its command."""
    command = without_folder(share.command or "?")
    return f"{share.name}: {command}" if share.name else command


def without_folder(command: str) -> str:
    """Return a command without the folder of its program, which would be most of what fits on a terminal."""
    program, space, rest = command.partition(" ")
    return (program.rpartition("/")[2] or program) + space + rest


def leased_memory(row: ClaimRow) -> str:
    """Return the memory of a lease, of each of its cards where it differs; of a request, the most of a card."""
    sizes = [size(card.bytes) for card in row.cards]
    return " ".join(sizes) if row.state != "waiting" and len(set(sizes)) > 1 else size(max(c.bytes for c in row.cards))


def _by_library(share: Share) -> list[str]:
    return [f"{library} {size(count)}" for library, count in sorted(share.libraries.items()) if count]


def no_gpus(survey: Survey) -> str:
    """Return the line of a command that finds no GPU. doctor names the files that were looked for, too."""
    return f"no GPUs: {survey.why_none_shortly}; gpuconf doctor says more" if survey.why_none else "no GPUs"


def as_json(machine: View) -> dict[str, Any]:
    """Return the machine as the fields of a JSON object."""
    return {
        "simulated": machine.survey.simulated,
        "driver": machine.survey.driver,
        "ledger": machine.ledger,
        "gpus": [_card(place) for place in machine.places],
        "processes": [_share(place, share) for place in (*machine.places, *machine.others) for share in place.shares],
        "errors": errors_of(machine),
    }


WHOLE_CARD_UNKNOWN = (
    "the driver refuses queries of the whole card here, as in containers with MIG: the card's memory and what other "
    "programs use of it are unknown here; the instances' memory is known"
)


def refused_queries(card: Card) -> list[str]:
    """Return the errors of queries of a card that a container with some of its MIG instances may not make."""
    return [text for text in card.errors if card.instances and "NVML_ERROR_NO_PERMISSION" in text]


def errors_of(machine: View) -> list[str]:
    """Return what could not be read."""
    said = []
    for card in machine.survey.cards:
        refused = refused_queries(card)
        said += [text for text in card.errors if text not in refused]
        if refused:
            said.append(f"GPU {card.index}: {WHOLE_CARD_UNKNOWN}")
        elif card.processes_error:
            said.append(f"GPU {card.index}: the driver's processes are unknown: {card.processes_error}")
    if machine.ledger_error:
        said.append(f"the ledger cannot be read: {machine.ledger_error}")
    return said


def _card(place: Place) -> dict[str, Any]:
    names = ("gpu", "uuid", "name", "pci_bus_id", "memory", "leased", "reserved", "in_use")
    return {**{name: getattr(place, name) for name in names}, "memory": place.memory.to_dict()}


def _share(place: Place, share: Share) -> dict[str, Any]:
    fields = share.to_dict()
    figures = {name: getattr(share, name) for name in ("limit", "reserved", "in_use", "peak", "libraries")}
    return {"gpu": place.gpu, "uuid": place.uuid, **fields, **figures}


# How the jobs of ``gpuconf run`` use their limits, as ``gpuconf ps`` and ``gpuconf stats`` show it.


def jobs_on(machine: View) -> list[JobMemory]:
    """Return what each job that has a lease has of each card, also of cards that only the ledger knows."""
    leases = {(share.claim, place.uuid) for place in (*machine.places, *machine.others) for share in place.shares}
    if not leases:
        return []
    from ..jobs.job_memory import of_all_jobs

    return [job for job in of_all_jobs() if (job.job, job.uuid) in leases]


def print_jobs(machine: View, jobs: Sequence[JobMemory]) -> None:
    """Print a line for each card of a job, and below it one for each process if there are several."""
    places = (*machine.places, *machine.others)
    gpus = {place.uuid: f"GPU {place.gpu}" for place in machine.places}
    gpus |= {place.uuid: place.gpu for place in machine.others}  # called by its UUID
    names = {share.claim: label(share) for place in places for share in place.shares}
    for job in jobs:
        print(f"{gpus[job.uuid]}, job {names[job.job]}: {job}")
        for one in job.processes if len(job.processes) > 1 else ():
            print(f"  PID {one.pid} {one.name}: pools {size(one.pools)}, outside {size(one.outside)}")


# Simulated cards that the processes of a job share, as ``gpuconf ps`` shows them: apart from the cards of the
# machine.


class SimulatedCard(NamedTuple):
    """One card of one job."""

    launcher: int  # the PID of what started the job
    spec: str  # the first 63 bytes
    index: int  # type: ignore[assignment]  # hides tuple's
    uuid: str
    use: CardUse

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, in bytes."""
        processes = [{"pid": one.pid, "name": one.name, "bytes": one.used + one.pools} for one in self.use.processes]
        return {
            "launcher": self.launcher,
            "simulated": self.spec,
            "index": self.index,
            "uuid": self.uuid,
            "total": self.use.limit,
            "used": min(self.use.used + self.use.pools, self.use.limit),
            "processes": processes,
        }


def simulated_cards() -> list[SimulatedCard]:
    """Return the cards of every living job of this user."""
    if next(existing(CARDS), None) is None:
        return []  # without the modules that read their files
    from ..jobs.simulated_cards import all_shared

    cards = []
    for job in all_shared():
        try:
            use = job.usage()
        except errors.UnavailableError:  # it has just ended
            continue
        cards += [
            SimulatedCard(job.launcher, job.spec, index, uuid, one) for index, (uuid, one) in enumerate(use.items())
        ]
    return cards


def print_simulated(cards: Sequence[SimulatedCard]) -> None:
    """Print a row for each process that has memory or a context on a card, and one for a card that has none."""
    rows = []
    for card in cards:
        machine = plain_machine(card.spec) + " (rehearsal)" * (plain_machine(card.spec) != card.spec)
        place = (machine, str(card.index), size(card.use.limit))
        using = [one for one in card.use.processes if one.used or one.pools or one.contexts]
        rows += [(*place, str(one.pid), size(one.used + one.pools), one.name) for one in using] or [
            (*place, "-", "-", "-")
        ]
    if rows:
        print("simulated cards, each shared by the processes of one job:")
        print_table(("simulated", "GPU", "total", "PID", "memory", "process"), rows, right=("total", "PID", "memory"))
