# SPDX-License-Identifier: Apache-2.0
"""What a program of PyTorch needs of a card, from the recording of PyTorch's allocator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..._typing import Any
from ...memory import load_trace
from ..generated.policies import NEED_VIRTUAL
from ..recordings import sites
from ..recordings.replay import find
from . import needs
from .framework import Framework, Run
from .launch import Heard
from .line import TORCH_REPORT
from .needs import SETTINGS, Verdict, convolutions_of
from .target_cards import Beside, Card

_HELP = {"pytorch-max-split": "max_split_size_mb", "pytorch-roundup": "roundup_power2_divisions"}
_LINES = 6


class PyTorch(Framework):
    """PyTorch."""

    report = TORCH_REPORT

    def recording(self, process: Heard) -> str:
        """Return the path of PyTorch's snapshot."""
        return process.snapshot

    def peaks(self, process: Heard, report: Mapping[str, Any], card: Card, *, first: bool) -> list[dict[str, Any]]:
        """Replay the snapshot under the settings that the card supports, and in the first run under those that may
        help.
        """
        policies = [one for one in SETTINGS.values() if card.has_virtual_memory or one not in NEED_VIRTUAL]
        planned = find(load_trace(process.needed), None, None, policies + (list(_HELP) if first else []))
        usages = (
            find(load_trace(process.snapshot), None, None, ["pytorch"]).usages if report["tried"] else planned.usages
        )
        parts = {gpu["gpu"]: gpu for gpu in report["gpus"]}
        rows = []
        for usage in usages:
            results = {result.policy: result for result in planned.results if result.gpu == usage.gpu}
            of_gpu = parts.get(usage.gpu, {"parts": {}, "growth": 0, "uuid": str(usage.gpu), "largest": 0})
            made_of = dict(of_gpu["parts"])
            rest = usage.peak_bytes_in_use - sum(made_of.values())
            if made_of and rest > 0:
                made_of["rounding of blocks"] = rest
            others = {
                name: {"least": results[policy].least_limit, "settings": results[policy].settings}
                for policy, name in _HELP.items()
                if policy in results
            }
            one = {
                "pid": process.pid,
                "rank": report["rank"],
                "world": report["world"],
                "gpu": usage.gpu,
                "uuid": of_gpu["uuid"],
                "allocated": usage.peak_bytes_in_use,
                "requested": usage.peak_bytes_requested,
                "reserved": usage.recorded_bytes_reserved or 0,
                "least": {name: results[policy].least_limit for name, policy in SETTINGS.items() if policy in results},
                "others": others,
                "parts": dict(sorted(made_of.items(), key=lambda part: -part[1])),
                "lines": [row.strip() for row in sites.lines(usage.sites_at_peak, _LINES)],
                "growth": of_gpu["growth"],
                "largest": of_gpu["largest"],
                "convolutions": convolutions_of(report),
            }
            rows.append(one)
        return rows

    def may_differ(self, run: Run, _card: Card) -> bool:
        """Whether the program asks how much memory the card has."""
        return _asks_for_memory(run)

    def verdicts(self, cards: Sequence[Card], gpus: Sequence[Sequence[dict[str, Any]]]) -> list[Verdict]:
        """Compare each card with the GPU that needs most."""
        return [
            needs.verdict(card, setting, gpus)
            for card in cards
            for setting, policy in SETTINGS.items()
            if card.has_virtual_memory or policy not in NEED_VIRTUAL
        ]

    def beside(self, card: Card, gpu: Sequence[dict[str, Any]]) -> list[Beside]:
        """Return the contexts, NCCL, and the workspaces that were not counted."""
        return needs.beside(card, gpu)

    def tried(self, process: Mapping[str, Any]) -> dict[str, int]:
        """Return what each setting of PYTORCH_ALLOC_CONF needs."""
        found = {f"{name}:True": size for name, size in process["least"].items() if name != "default"}
        found |= {one["settings"]: one["least"] for one in process["others"].values()}
        return {f"PYTORCH_ALLOC_CONF={setting}": least for setting, least in found.items()}

    def notes(self, runs: Sequence[Run], asked: Sequence[str]) -> list[str]:
        """Return which card a program saw that asks how much memory there is."""
        if len(asked) < 2 or not _asks_for_memory(runs[0]):
            return []
        each = "was run with each card's" if len(runs) > 1 else f"saw that of {asked[0]}"
        return [f"the program asks how much memory the card has, and {each}"]

    def paths(self, runs: Sequence[Run]) -> list[str]:
        """Return which attention and convolution each group of cards takes."""
        by_path: dict[tuple[str, ...], list[str]] = {}
        for run in runs:
            taken = tuple(sorted({name for report in run.reports for name in report["paths"]}))
            if taken:
                by_path.setdefault(taken, []).extend(card.name for card in run.cards)
        return [
            f"{', '.join(name.strip('_') for name in taken)}: on {', '.join(names)}" for taken, names in by_path.items()
        ]


def _asks_for_memory(run: Run) -> bool:
    return any(report["counts"].get("memory") for report in run.reports)
