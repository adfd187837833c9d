# SPDX-License-Identifier: Apache-2.0
"""Determine how many cards of a fleet hold many recorded jobs, and which jobs share a card."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping

from ... import errors
from ..._core import sizes as _sizes
from ..._core import texts
from ..._core.native import refuse_in_child
from ..._core.table import Fields, Made, Printed, Table, human_bytes, human_limit, make
from ..._typing import Any
from ..recordings import ranks
from ..recordings.replay import check_policies
from . import lease_packing
from . import phases as _phases
from .phases import replay
from .recorded_jobs import AUTO, FleetGpus, Need, parse

SCHEMA = 1
RESERVE = "512MiB"
_MIB = 1 << 20
_MOST_UNITS = 1 << 18  # in the largest card: of 256 GiB and more, a unit is larger than 1 MiB

Progress = Callable[[str, "float | None"], None]


class FleetJob(Table):
    """A job, and its place in the fleet. Sizes are in bytes."""

    name: str  # of the trace
    gpus: int  # the cards that it needs: the logical GPUs in its trace
    need: int  # of each card: the limit, and what the context and libraries take
    limit: int  # for `gpuconf run --memory`
    policy: str
    settings: str  # of PYTORCH_CUDA_ALLOC_CONF; "" if the policy needs none
    cards: tuple[int, ...]  # places in FleetPlan.cards; () if there is no room for it
    command: str  # the beginning of the command that runs the job within its limit


def _command(need: Need, phases: bool) -> str:
    settings = f"PYTORCH_CUDA_ALLOC_CONF={shlex.quote(need.settings)} " if need.settings else ""
    gpus = f" --gpus {need.gpus}" if need.gpus > 1 else ""
    limit = f"{need.limit // _MIB}MiB"
    growth = " --no-growth" if need.policy == "regions" else ""
    if phases:  # the limits of a card's jobs may add up to more than its memory, so they cannot be leases
        return f"{settings}GPUCONF_LIMIT={limit} gpuconf run --"
    return f"{settings}gpuconf run --memory {limit}{gpus}{growth} --"


class FleetCard(Table):
    """A card that holds jobs. Sizes are in bytes."""

    gpu: str  # the model
    number: int  # among the fleet's cards of this entry, from 0
    memory: int
    used: int  # the sum of the needs; with phases, the most at one time
    jobs: tuple[str, ...]  # names; the largest need first

    @property
    def free(self) -> int:
        """The memory that is left."""
        return int(self.memory - self.used)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, and the free memory."""
        return {**super().to_dict(), "free": self.free}


class FleetPlan(Printed, Fields, metaclass=Made):
    """The result of :func:`gpuconf.plan_fleet`. ``print`` shows the cards with their jobs, and how to run each job.

    Attributes: ``fleet``, FleetGpus for each entry; ``reserve`` in bytes; ``jobs``, a FleetJob for each trace, the
    largest need first; ``cards``, a FleetCard for each card that is used; ``failed``, for each trace that could not be
    replayed its name and the reason; ``phases``, whether jobs share a card because their peaks are staggered;
    ``lower_bound``, the number of cards below which no packing exists; ``first_fit``, the number that first-fit
    decreasing alone uses, or
    None if it
    does not
    place all jobs.
    """

    __module__ = "gpuconf"

    _made_by = "use gpuconf.plan_fleet()"
    _fields = ("fleet", "reserve", "phases", "fits", "cards_used", "lower_bound", "gap", "first_fit", "cards", "jobs")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fleet: tuple[FleetGpus, ...] = fields["fleet"]
        self.reserve: int = fields["reserve"]
        self.jobs: tuple[FleetJob, ...] = fields["jobs"]
        self.cards: tuple[FleetCard, ...] = fields["cards"]
        self.failed: tuple[tuple[str, str], ...] = fields["failed"]
        self.phases: bool = fields["phases"]
        self.lower_bound: int = fields["lower_bound"]
        self.first_fit: int | None = fields["first_fit"]

    @property
    def cards_used(self) -> int:
        """The number of cards that hold jobs."""
        return len(self.cards)

    @property
    def unplaced(self) -> tuple[FleetJob, ...]:
        """The jobs for which there is no room."""
        return tuple(job for job in self.jobs if not job.cards)

    @property
    def fits(self) -> bool:
        """Whether the fleet has room for all jobs."""
        return not self.unplaced

    @property
    def gap(self) -> float | None:
        """How many more cards are used than the lower bound, as a fraction of it; None unless all jobs have room."""
        if not self.fits:
            return None
        return (self.cards_used - self.lower_bound) / self.lower_bound if self.lower_bound else 0.0

    @property
    def warning(self) -> str:
        """What a plan with phases relies on; empty without them."""
        if not self.phases:
            return ""
        return (
            "the limits on a card add up to more than its memory. Its jobs must start together, run at the recorded "
            "pace, and return memory when they no longer need it; a delay can end in an out-of-memory error"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as ``gpuconf plan --fleet --json`` prints it. Sizes are in bytes."""
        unplaced = [job.name for job in self.unplaced]
        failed = [{"name": name, "error": error} for name, error in self.failed]
        return {"schema": SCHEMA, **super().to_dict(), "unplaced": unplaced, "failed": failed}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return f"<gpuconf.FleetPlan of {_count(len(self.jobs), 'job')} on {_count(self.cards_used, 'card')}>"

    def _lines(self) -> Iterator[str]:
        yield f"fleet: {', '.join(f'{gpus.count}x{gpus.gpu}' for gpus in self.fleet)}"
        reserve = f"{human_bytes(self.reserve)} for the CUDA context and libraries"
        yield f"{_count(len(self.jobs), 'job')}; each need includes {reserve}"
        on_card: dict[int, list[FleetJob]] = {}
        for job in self.jobs:
            for place in job.cards:
                on_card.setdefault(place, []).append(job)
        for place, card in enumerate(self.cards):
            yield ""
            yield (
                f"{card.gpu} {card.number}: {_count(len(card.jobs), 'job')}, "
                f"{human_bytes(card.used)} of {human_bytes(card.memory)}, {human_bytes(card.free)} left"
            )
            for job in on_card[place]:
                if place == job.cards[0]:
                    yield f"  {job.command} ...  # {job.name}"
                else:
                    first = self.cards[job.cards[0]]
                    yield f"  # {job.name}: see {first.gpu} {first.number}"
        yield ""
        for job in self.unplaced:
            cards = f" on each of {job.gpus} cards" if job.gpus > 1 else ""
            most = max(gpus.leasable for gpus in self.fleet)
            if job.limit > most:
                limit, leasable = human_limit(job.limit), human_bytes(most)
                yield f"no room: {job.name} needs a limit of {limit}{cards}; of a card, {leasable} can be leased"
            else:
                yield f"no room: {job.name} needs {human_bytes(job.need)}{cards}"
        for name, error in self.failed:
            yield f"not planned: {name}: {error}"
        if self.warning:
            yield f"warning: {self.warning}"
        yield from self._verdict()

    def _verdict(self) -> Iterator[str]:
        bound = f"at least {_count(self.lower_bound, 'card')} {'is' if self.lower_bound == 1 else 'are'} needed"
        if not self.fits:
            yield f"does not fit: {_count(len(self.unplaced), 'job')} of {len(self.jobs)} without room; {bound}"
            return
        if self.first_fit is not None:
            yield f"first-fit decreasing alone: {_count(self.first_fit, 'card')}"
        yield f"fits on {_count(self.cards_used, 'card')}; {bound}, gap {100 * (self.gap or 0):.2f}%"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def plan_fleet(
    jobs: str | os.PathLike[str] | Iterable[Any] | Mapping[str, Any],
    fleet: str,
    policy: str | Iterable[str] = AUTO,
    reserve: int | str = RESERVE,
    phases: bool = False,
    dask: Any = None,
) -> FleetPlan:
    """Determine how many cards of a fleet hold many recorded jobs, which jobs share a card, and the limit for each.

    Needs no GPU.

    ``jobs`` is a file, a folder of traces, a list of files for :func:`gpuconf.memory.load_trace`, or a mapping of
    names to files, traces or recordings. ``fleet`` lists the cards as ``"64xA100-80GB,128xH100-80GB"``; models are
    those of :func:`gpuconf.simulate`.

    The need of a job is its least limit under ``policy`` as :func:`gpuconf.plan` finds it, plus ``reserve`` for the
    CUDA context and for what libraries take outside of their allocators; at least what a lease takes for the context.
    By default the policy is what ``gpuconf run`` gives a job: ``"pytorch"`` for a snapshot that PyTorch recorded, and
    ``"virtual"`` for other traces. With several policies, the one that needs the least counts. A job
    whose trace has several logical GPUs takes that many cards, and the same limit on each.

    Few cards are found by OR-tools (``gpuconf[fleet]``), or by first-fit decreasing and a search without it. ``gap`` of
    the result is how far from the best packing it can be at most.

    With ``phases``, jobs whose peaks are at different times share a card where that saves cards. This relies on what a
    limit cannot enforce: the jobs of a card start together and run at the recorded pace, their traces are complete, and
    a job returns memory when it no longer needs it. A delay can end in an out-of-memory error.

    ``dask`` replays the traces on a Dask cluster: the address of a scheduler, a Client, or a number of processes to
    start. The workers must see the files under the same paths. A trace that cannot be read is in ``failed`` of the
    result.

    Raises ValueError for an invalid fleet, policy or reserve, and for no jobs or a folder without traces;
    MissingPackageError without a library that is needed; OSError as ``os.listdir`` does.
    """
    return find(jobs, fleet, policy, reserve, phases, dask)


def find(
    jobs: Any,
    fleet: str,
    policy: str | Iterable[str],
    reserve: int | str,
    phases: bool,
    dask: Any,
    progress: Progress = lambda *_: None,
) -> FleetPlan:
    """Do what plan_fleet does, with progress."""
    refuse_in_child()
    policies = (AUTO,) if policy == AUTO else tuple(check_policies(policy))
    if not policies:
        raise errors.InvalidArgumentError("policy must name at least one policy")
    gpus = parse(fleet, policies)  # loads the core, which must precede all imports
    kept = _reserve(reserve)
    traces = _traces(jobs)
    if not traces:
        raise errors.InvalidArgumentError("jobs is empty: name at least one trace, or a folder that has one")
    outcomes = replay(
        list(traces.values()),
        (policies, phases),
        dask,
        lambda done: progress(f"replaying {done} of {_count(len(traces), 'trace')}", done / len(traces)),
    )
    needs = {name: need for name, need in zip(traces, outcomes, strict=True) if isinstance(need, Need)}
    failed = tuple((name, need) for name, need in zip(traces, outcomes, strict=True) if isinstance(need, str))
    return _packed(needs, failed, gpus, kept, phases, lambda what: progress(what, None))


def _reserve(reserve: int | str) -> int:
    nbytes = _sizes.size("reserve", reserve)
    if not 0 <= nbytes < 1 << 50:
        raise errors.InvalidArgumentError(
            f"reserve must be at least 0 and less than 1 PiB, but got {_sizes.shown(nbytes)}"
        )
    return nbytes


def _traces(jobs: Any) -> dict[str, Any]:
    if isinstance(jobs, Mapping):
        return _named(list(map(str, jobs)), list(jobs.values()))
    if isinstance(jobs, (str, os.PathLike)):
        jobs = [jobs] if os.path.isfile(jobs) else ranks.files_of(os.fspath(jobs))
    try:
        paths = list(map(os.fspath, jobs))
    except TypeError:
        text = "jobs must be a folder, a list of files, or a mapping of names to traces, such as {'train': recording}"
        raise errors.InvalidTypeError(f"{text}, but got {texts.shown(jobs)}") from None
    names = [os.path.basename(path) for path in paths]
    return _named(names if len(set(names)) == len(names) else paths, paths)


def _named(names: list[str], traces: list[Any]) -> dict[str, Any]:
    twice = next((name for name in names if names.count(name) > 1), "") if len(set(names)) < len(names) else ""
    if twice:
        raise errors.InvalidArgumentError(
            f"two jobs are named {texts.shown(twice)}: give each a name, as in {{'first': file, 'second': file}}"
        )
    return dict(zip(names, traces, strict=True))


def _packed(
    needs: Mapping[str, Need],
    failed: tuple[tuple[str, str], ...],
    fleet: tuple[FleetGpus, ...],
    reserve: int,
    phases: bool,
    progress: Callable[[str], None],
) -> FleetPlan:
    # The largest cards first; of the same memory, in the order of the fleet.
    slots = [(gpus, number) for gpus in sorted(fleet, key=lambda gpus: -gpus.memory) for number in range(gpus.count)]
    unit = _MIB * max(-(-slots[0][0].memory // _MIB // _MOST_UNITS), 1)
    ordered = sorted(needs.items(), key=lambda named: -named[1].limit)
    beside = max(reserve, *(gpus.context for gpus in fleet))  # a lease takes at least the context
    limits, parts = [need.limit for _, need in ordered], [need.gpus for _, need in ordered]
    packing = lease_packing.pack(limits, parts, beside, [gpus for gpus, _ in slots], unit, progress)
    assigned, bound = packing.jobs, packing.bound
    loads = [sum(limits[job] + beside for job in jobs) for jobs in assigned]
    if phases:
        progress("packing by phases")
        memories = [gpus.memory // unit for gpus, _ in slots]
        curves = _phases.curves([need for _, need in ordered], reserve, unit)
        fitting = [
            job
            for job in range(len(curves))
            if -(-(limits[job] + reserve) // unit) <= memories[0] and parts[job] <= len(slots)
        ]
        staggered, bound = _phases.pack([curves[job] for job in fitting], [parts[job] for job in fitting], memories)
        phases = _cost(staggered) < _cost(assigned)
        if phases:
            assigned = [[fitting[job] for job in jobs] for jobs in staggered]
            beside = reserve  # there are no leases
            loads = [
                max(map(sum, zip(*(curves[job] for job in jobs), strict=True)), default=0) * unit for jobs in assigned
            ]
    places: dict[str, list[int]] = {name: [] for name in needs}
    cards: list[FleetCard] = []
    for (gpus, number), jobs, load in zip(slots, assigned, loads, strict=True):
        if jobs:
            names = tuple(ordered[job][0] for job in sorted(jobs))
            for name in names:
                places[name].append(len(cards))
            cards.append(FleetCard(gpus.gpu, number, gpus.memory, load, names))
    return make(
        FleetPlan,
        {
            "fleet": fleet,
            "reserve": beside,
            "phases": phases,
            "jobs": tuple(_job(name, need, beside, tuple(places[name]), phases) for name, need in ordered),
            "cards": tuple(cards),
            "failed": failed,
            "lower_bound": max(bound, *(need.gpus for need in needs.values()), 0),
            "first_fit": None if packing.first.unplaced else packing.first.used,
        },
    )


def _cost(assigned: list[list[int]]) -> tuple[int, int]:
    """Return what a better assignment has less of."""
    return -sum(map(len, assigned)), sum(map(bool, assigned))


def _job(name: str, need: Need, reserve: int, cards: tuple[int, ...], phases: bool) -> FleetJob:
    command = _command(need, phases and bool(cards))
    return FleetJob(name, need.gpus, need.limit + reserve, need.limit, need.policy, need.settings, cards, command)
