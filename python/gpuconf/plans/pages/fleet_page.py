# SPDX-License-Identifier: Apache-2.0
"""The HTML page of a fleet's plan."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable

from ..._core.files import replacing
from ..._core.table import human_bytes
from ..._typing import Any
from ..fleets.fleet import FleetPlan
from .frame import bytes_axis, figure, frame, table
from .report import plotly_script

_COLORS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#ff9da7", "#9c755f", "#86bcb6")
_FREE = "rgba(128,128,128,0.18)"
_MOST_NAMES = 30  # cards with their names below the figure


def write(plan: FleetPlan, path: str | os.PathLike[str]) -> None:
    """Write the page. Raises MissingPackageError without plotly, and OSError as ``open`` does."""
    text = render(plan, plotly_script(path))
    # File names may contain undecodable bytes.
    with replacing(path, encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def render(plan: FleetPlan, library: str) -> str:
    """Return the page. ``library`` is the text of plotly.min.js."""
    used, memory = sum(card.used for card in plan.cards), sum(card.memory for card in plan.cards)
    numbers = [
        ("jobs", f"{len(plan.jobs):,}"),
        ("cards used", f"{plan.cards_used:,} of {sum(gpus.count for gpus in plan.fleet):,}"),
        ("lower bound", f"{plan.lower_bound:,}"),
        ("gap", "-" if plan.gap is None else f"{100 * plan.gap:.2f}%"),
        ("without room", f"{len(plan.unplaced):,}"),
        ("memory in use on these cards", f"{100 * used / memory:.1f}%" if memory else "-"),
    ]
    parts = ["<dl>", *(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in numbers), "</dl>"]
    parts += [f"<p>Warning: {html.escape(plan.warning)}.</p>" if plan.warning else ""]
    unplaced = ((job.name, human_bytes(job.need), str(job.gpus)) for job in plan.unplaced)
    parts += [_section("No room", ("job", "need of each card", "cards"), unplaced, 1)]
    parts += [_section("Not planned", ("trace", "reason"), plan.failed, 2)]
    if plan.cards:
        parts += ["<h3>The cards and their jobs</h3>", '<div class="figure" id="cards" style="height:420px"></div>']
    parts += [_section("Jobs", ("job", "cards", "command", "limit", "need"), _jobs(plan), 3)]
    parts += [_section("Cards", ("card", "jobs", "in use", "left"), _cards(plan), 1)]
    head = ", ".join(f"{gpus.count} x {gpus.gpu}" for gpus in plan.fleet)
    return frame("fleet plan", head, "".join(parts), {"cards": _figure(plan)} if plan.cards else {}, library)


def _section(title: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]], left: int) -> str:
    rows = list(rows)
    return f"<h3>{title}</h3>{table(head, rows, left)}" if rows else ""


def _names(plan: FleetPlan) -> list[str]:
    return [f"{card.gpu} {card.number}" for card in plan.cards]


def _jobs(plan: FleetPlan) -> Iterable[tuple[str, ...]]:
    names = _names(plan)
    for job in plan.jobs:
        cards = ", ".join(names[place] for place in job.cards)
        yield job.name, cards or "-", f"{job.command} ...", human_bytes(job.limit), human_bytes(job.need)


def _cards(plan: FleetPlan) -> Iterable[tuple[str, ...]]:
    for name, card in zip(_names(plan), plan.cards, strict=True):
        yield name, str(len(card.jobs)), human_bytes(card.used), human_bytes(card.free)


def _figure(plan: FleetPlan) -> dict[str, Any]:
    names = _names(plan)
    needs = {job.name: job.need for job in plan.jobs}
    rows: dict[str, list[Any]] = {"x": [], "base": [], "y": [], "hovertext": []}
    colors = []
    for place, card in enumerate(plan.cards):
        base = 0
        pieces = [(needs[name], html.escape(name), _COLORS[i % len(_COLORS)]) for i, name in enumerate(card.jobs)]
        if not plan.phases:  # else the needs are not all at one time, and may be more than the card has
            pieces.append((card.free, "left", _FREE))
        for nbytes, name, color in pieces:
            shown = f"{names[place]}<br>{name}: {human_bytes(nbytes)}"
            for key, value in zip(rows, (place, base, nbytes, shown), strict=True):
                rows[key].append(value)
            colors.append(color)
            base += nbytes
    bar = {
        "type": "bar",
        **rows,
        "marker": {"color": colors, "line": {"width": 0}},
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
    axis: dict[str, Any] = {"title": {"text": "card"}}
    if len(names) <= _MOST_NAMES:
        axis = {"tickvals": list(range(len(names))), "ticktext": names, "automargin": True}
    gap, yaxis = 0.15 if len(names) <= 200 else 0, bytes_axis(max(card.memory for card in plan.cards))
    return figure([bar], 70, 20, barmode="overlay", bargap=gap, xaxis=axis, yaxis=yaxis)
