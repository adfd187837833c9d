# SPDX-License-Identifier: Apache-2.0
"""What a rehearsal asks of the framework that a program uses: PyTorch or JAX."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..._typing import Any
from ...memory import load_trace
from ..generated.policies import NEED_VIRTUAL
from ..recordings import sites
from ..recordings.replay import find
from . import needs, workspaces
from .launch import Heard, Outcome, Program
from .line import TORCH_REPORT
from .needs import SETTINGS, Beside, Card, Verdict
from .records import CAPABILITY, FREE, MEMORY, NAME, OfGPU, Report


@dataclass
class Run:
    """One run of a program, for cards that its framework treats alike."""

    cards: list[Card]
    ended: Program | Outcome
    framework: Framework
    reports: list[Report]  # of its processes
    processes: list[dict[str, Any]]  # the peak of each process on each GPU, and when it lived
    alone: bool = True  # whether no other framework uses a GPU in it
    limited: bool = False  # whether the card had its real memory

    @property
    def gpus(self) -> list[list[dict[str, Any]]]:
        """The processes that share a GPU at one time, by GPU: several lists of one on which others follow them."""
        found: dict[str, list[dict[str, Any]]] = {}
        for one in self.processes:
            found.setdefault(one["uuid"], []).append(one)
        return [sharing for of_gpu in found.values() for sharing in _at_one_time(of_gpu)]

    def follows(self) -> bool:
        """Whether a process used a GPU after another one had ended."""
        return len(self.gpus) > len({one["uuid"] for one in self.processes})

    def would_see_other_figures(self, card: Card) -> bool:
        """Whether the program requested how much is free and took more than a card has.

        There PyTorch releases what it caches.
        """
        taken = max((sum(one["reserved"] for one in gpu) for gpu in self.gpus), default=0)
        return taken > card.usable().low and any(report.counts.get(FREE) for report in self.reports)


def _at_one_time(processes: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the processes that live when one begins, for each that begins before any of these has ended."""
    groups: list[list[dict[str, Any]]] = []
    for begin in sorted({one["lived"][0] for one in processes}):
        living = [one for one in processes if one["lived"][0] <= begin < one["lived"][1]]
        if groups and all(any(one is other for other in living) for one in groups[-1]):
            groups.pop()  # these are all of the last ones, and more
        groups.append(living)
    return groups


class Framework(ABC):
    """A framework. A *process* is what one process of the program needs of one GPU, as ``peaks`` returns it."""

    report: str  # the name of its report: TORCH_REPORT or JAX_REPORT

    @abstractmethod
    def recording(self, process: Heard) -> str:
        """Return the path of the file of a process's allocations."""

    @abstractmethod
    def peaks(self, process: Heard, report: Report, cards: Sequence[Card], *, first: bool) -> list[dict[str, Any]]:
        """Return a process's peak on each GPU, and the least memory with which the allocator serves it.

        ``first`` is whether this is the rehearsal's first run, whose processes are in the answer.
        """

    def policies(self, _cards: Sequence[Card]) -> list[str] | None:
        """Return the planner's policies that a page shows; None for all."""
        return None

    @abstractmethod
    def may_differ(self, run: Run, card: Card) -> bool:
        """Whether the program may do otherwise on a card with the same compute capability as the run's first."""

    @abstractmethod
    def verdicts(self, cards: Sequence[Card], gpus: Sequence[Sequence[dict[str, Any]]]) -> list[Verdict]:
        """Return whether each card holds the program, under each setting of the allocator."""

    @abstractmethod
    def beside(self, card: Card, gpu: Sequence[dict[str, Any]]) -> list[Beside]:
        """Return what is taken beside the allocators of the processes that share a GPU."""

    @abstractmethod
    def tried(self, process: Mapping[str, Any]) -> dict[str, int]:
        """Return the least memory, in bytes, under each other setting of the allocator that a replay tried."""

    @abstractmethod
    def notes(self, runs: Sequence[Run], asked: Sequence[str]) -> list[str]:
        """Return what a reader has to know beside the figures. ``asked`` has the names of the requested cards."""

    def adapts(self, _run: Run) -> bool:
        """Whether the program catches out-of-memory errors, and does something else then."""
        return False

    def changes(self, run: Run) -> dict[str, str]:
        """Return changes that may save memory in the largest process, which a run of its own can try, and how a program
        makes each.
        """
        most = max(run.processes, key=lambda one: one["allocated"])["pid"]
        return next((report.changes for report in run.reports if report.pid == most), {})

    def paths(self, _runs: Sequence[Run]) -> list[str]:
        """Return which attention and convolution each group of cards takes."""
        return []

    def functions(self, _processes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return what each compiled function needs, of the process that needs most."""
        return []


# What a program of PyTorch needs of a card, from the recording of PyTorch's allocator.

_HELP = {"pytorch-max-split": "max_split_size_mb", "pytorch-roundup": "roundup_power2_divisions"}
_LINES = 6
_USES = ("most", "none")  # of workspaces: plan.Use in gocore/plan/plan


class PyTorch(Framework):
    """PyTorch."""

    report = TORCH_REPORT

    def recording(self, process: Heard) -> str:
        """Return the path of PyTorch's snapshot."""
        return process.snapshot

    def peaks(self, process: Heard, report: Report, cards: Sequence[Card], *, first: bool) -> list[dict[str, Any]]:
        """Replay the snapshot under the settings that the cards support, and in the first run under those that may
        help: with workspaces as expected, as large as they may be, and without any.
        """
        policies = self.policies(cards)
        rooms = {card.name: needs.rooms(card, [{"world": report.world}]) for card in cards}
        more: dict[str, Any] = {
            "workspaces": report.workspaces,
            "cards": [room for of_card in rooms.values() for room in of_card],
        }
        trace = load_trace(process.needed)
        planned = find(trace, None, None, policies + (list(_HELP) if first else []), **more)
        uses = [planned, *(find(trace, None, None, policies, use=use, **more) for use in _USES if report.workspaces)]
        usages = find(load_trace(process.snapshot), None, None, ["pytorch"]).usages if report.tried else planned.usages
        parts = {one.gpu: one for one in report.gpus}
        rows = []
        for usage in usages:
            results = {result.policy: result for result in planned.results if result.gpu == usage.gpu}
            of_gpu = parts.get(usage.gpu) or OfGPU(usage.gpu, str(usage.gpu), {}, 0, 0)
            made_of = dict(of_gpu.parts)
            rest = usage.peak_bytes_in_use - sum(made_of.values())
            if made_of and rest > 0:
                made_of["rounding of blocks"] = rest
            others = {
                name: {"least": results[policy].least_limit, "settings": results[policy].settings}
                for policy, name in _HELP.items()
                if policy in results
            }
            settings = {name: policy for name, policy in SETTINGS.items() if policy in results}
            limits = {
                name: [one.least_limit for use in uses for one in use.results if (one.gpu, one.policy) == key]
                for name, policy in settings.items()
                for key in [(usage.gpu, policy)]
            }
            one = {
                "pid": process.pid,
                "rank": report.rank,
                "world": report.world,
                "gpu": usage.gpu,
                "uuid": of_gpu.uuid,
                "allocated": usage.peak_bytes_in_use,
                "requested": usage.peak_bytes_requested,
                "reserved": usage.recorded_bytes_reserved or 0,
                "least": {name: min(found) for name, found in limits.items()},
                "most": {name: max(found) for name, found in limits.items()},
                "others": others,
                "parts": dict(sorted(made_of.items(), key=lambda part: -part[1])),
                "lines": [row.strip() for row in sites.lines(usage.sites_at_peak, _LINES)],
                "modules": of_gpu.modules,
                "phases": of_gpu.phases,
                "growth": of_gpu.growth,
                "host": report.host,
                "pinned": report.pinned,
                "largest": of_gpu.largest,
                "on_cards": {
                    name: {
                        card: [use._on_cards[usage.gpu, policy][3 * number : 3 * number + 3] for use in uses]
                        for number, card in enumerate(rooms)
                    }
                    for name, policy in settings.items()
                },
                "workspace": max(report.workspaces.values(), default=0),
                "sizes": workspaces.source(report, cards[0].capability),
                "unknown": report.unknown,
            }
            rows.append(one)
        return rows

    def policies(self, cards: Sequence[Card]) -> list[str]:
        """Return those of PyTorch's settings that the cards support."""
        return [one for one in SETTINGS.values() if cards[0].has_virtual_memory or one not in NEED_VIRTUAL]

    def may_differ(self, run: Run, card: Card) -> bool:
        """Whether the program reads what is not the same on this card, or convolves, with workspaces by capability."""
        asked, convolves = _asks(run), any(report.workspaces for report in run.reports)
        by_capability = convolves or CAPABILITY in asked
        return bool(asked - {CAPABILITY}) or (by_capability and card.capability != run.cards[0].capability)

    def adapts(self, run: Run) -> bool:
        """Whether the program catches out-of-memory errors."""
        return any(report.counts.get("catches") for report in run.reports)

    def verdicts(self, cards: Sequence[Card], gpus: Sequence[Sequence[dict[str, Any]]]) -> list[Verdict]:
        """Compare each card with the GPU that needs most."""
        return [
            needs.verdict(card, setting, gpus)
            for card in cards
            for setting, policy in SETTINGS.items()
            if card.has_virtual_memory or policy not in NEED_VIRTUAL
        ]

    def beside(self, card: Card, gpu: Sequence[dict[str, Any]]) -> list[Beside]:
        """Return the contexts, NCCL, and how large a workspace may be: in the needs of the allocator are all."""
        largest = max(gpu, key=lambda one: one["workspace"])
        rows = needs.beside(card, gpu)
        if largest["workspace"]:
            rows.append(Beside("workspaces of cuDNN", 0, largest["workspace"], largest["sizes"]))
        return rows

    def tried(self, process: Mapping[str, Any]) -> dict[str, int]:
        """Return what each setting of PYTORCH_CUDA_ALLOC_CONF needs."""
        found = {f"{name}:True": size for name, size in process["least"].items() if name != "default"}
        found |= {one["settings"]: one["least"] for one in process["others"].values()}
        return {f"PYTORCH_CUDA_ALLOC_CONF={setting}": least for setting, least in found.items()}

    def notes(self, runs: Sequence[Run], asked: Sequence[str]) -> list[str]:
        """Return which card a program saw that acts by how much memory there is."""
        texts = []
        if runs[0].limited:
            texts.append("the program catches out-of-memory errors, and was run on each card with that card's memory")
            return texts
        others = [card.name for run in runs for card in run.cards if run.would_see_other_figures(card)]
        if others:
            texts.append(f"the program took more than {', '.join(others)} has, where other free memory is reported")
        questions = _asks(runs[0])
        if len(asked) > 1 and len(runs) == 1:
            questions &= {MEMORY, FREE}  # of one card for all, in a notebook
        if len(asked) < 2 or not questions:
            return texts
        what = " and ".join(dict.fromkeys(text for one, text in _QUESTIONS.items() if one in questions))
        each = "was run on each" if len(runs) > 1 else f"saw {asked[0]}"
        return [*texts, f"the program reads {what}, and {each}"]

    def paths(self, runs: Sequence[Run]) -> list[str]:
        """Return which attention and convolution each group of cards takes."""
        by_path: dict[tuple[str, ...], list[str]] = {}
        for run in runs:
            taken = tuple(sorted({name for report in run.reports for name in report.paths}))
            if taken:
                by_path.setdefault(taken, []).extend(card.name for card in run.cards)
        return [
            f"{', '.join(name.strip('_') for name in taken)}: on {', '.join(names)}" for taken, names in by_path.items()
        ]


_QUESTIONS = {
    MEMORY: "the card's memory",
    FREE: "the card's memory",
    NAME: "the card's name",
    CAPABILITY: "its compute capability",
}


def _asks(run: Run) -> set[str]:
    """Return what the program reads of its card."""
    return {one for one in _QUESTIONS for report in run.reports if report.counts.get(one)}
