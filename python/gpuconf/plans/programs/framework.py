# SPDX-License-Identifier: Apache-2.0
"""What a rehearsal asks of the framework that a program uses: PyTorch or JAX."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..._typing import Any
from .launch import Heard, Outcome, Program
from .needs import Verdict
from .target_cards import Beside, Card


@dataclass
class Run:
    """One run of a program, for cards that its framework treats alike."""

    cards: list[Card]
    ended: Program | Outcome
    framework: Framework
    reports: list[dict[str, Any]]  # of its processes
    processes: list[dict[str, Any]]  # the peak of each process on each GPU
    alone: bool = True  # whether no other framework uses a GPU in it

    @property
    def gpus(self) -> list[list[dict[str, Any]]]:
        """The processes by GPU."""
        found: dict[str, list[dict[str, Any]]] = {}
        for one in self.processes:
            found.setdefault(one["uuid"], []).append(one)
        return list(found.values())


class Framework(ABC):
    """A framework. A *process* is what one process of the program needs of one GPU, as ``peaks`` returns it."""

    report: str  # the name of its report: TORCH_REPORT or JAX_REPORT

    @abstractmethod
    def recording(self, process: Heard) -> str:
        """Return the path of the file of a process's allocations."""

    @abstractmethod
    def peaks(self, process: Heard, report: Mapping[str, Any], card: Card, *, first: bool) -> list[dict[str, Any]]:
        """Return a process's peak on each GPU, and the least memory with which the allocator serves it.

        ``first`` is whether this is the rehearsal's first run, whose processes are in the answer.
        """

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

    def changes(self, _run: Run) -> dict[str, str]:
        """Return changes of the program that may save memory, which a run of its own can try, and how a program makes
        each.
        """
        return {}

    def paths(self, _runs: Sequence[Run]) -> list[str]:
        """Return which attention and convolution each group of cards takes."""
        return []

    def functions(self, _processes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return what each compiled function needs, of the process that needs most."""
        return []
