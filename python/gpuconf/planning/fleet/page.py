# SPDX-License-Identifier: Apache-2.0
"""The HTML page of a fleet's plan."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable

from ..._core.humanbytes import human_bytes
from ..._typing import Any
from ..frame import bytes_axis, frame, table
from ..report import plotly_script
from .plan import FleetPlan

_COLORS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#ff9da7", "#9c755f", "#86bcb6")
_FREE = "rgba(128,128,128,0.18)"
_MOST_NAMES = 30  # cards with their names below the figure


def write(found: FleetPlan, path: str | os.PathLike[str]) -> None:
    """Write the page. Raises MissingPackageError without plotly, and OSError as ``open`` does."""
    text = render(found, plotly_script())
    with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:  # file names may contain undecodable bytes
        file.write(text)


def render(found: FleetPlan, library: str) -> str:
    """Return the page. ``library`` is the text of plotly.min.js."""
    used, memory = sum(card.used for card in found.cards), sum(card.memory for card in found.cards)
    numbers = [
        ("jobs", f"{len(found.jobs):,}"),
        ("cards used", f"{found.cards_used:,} of {sum(gpus.count for gpus in found.fleet):,}"),
        ("lower bound", f"{found.lower_bound:,}"),
        ("gap", "-" if found.gap is None else f"{100 * found.gap:.2f}%"),
        ("without room", f"{len(found.unplaced):,}"),
        ("memory in use on these cards", f"{100 * used / memory:.1f}%" if memory else "-"),
    ]
    parts = ["<dl>", *(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in numbers), "</dl>"]
    parts += [f"<p>Warning: {html.escape(found.warning)}.</p>" if found.warning else ""]
    parts += [_section("No room", ("job", "need of each card", "cards"), _unplaced(found), 1)]
    parts += [_section("Not planned", ("trace", "reason"), found.failed, 2)]
    if found.cards:
        parts += ["<h3>The cards and their jobs</h3>", '<div class="figure" id="cards" style="height:420px"></div>']
    parts += [_section("Jobs", ("job", "cards", "command", "limit", "need"), _jobs(found), 3)]
    parts += [_section("Cards", ("card", "jobs", "in use", "left"), _cards(found), 1)]
    head = ", ".join(f"{gpus.count} x {gpus.gpu}" for gpus in found.fleet)
    return frame("fleet plan", head, "".join(parts), {"cards": _figure(found)} if found.cards else {}, library)


def _section(title: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]], left: int) -> str:
    rows = list(rows)
    return f"<h3>{title}</h3>{table(head, rows, left)}" if rows else ""


def _unplaced(found: FleetPlan) -> Iterable[tuple[str, ...]]:
    return ((job.name, human_bytes(job.need), str(job.gpus)) for job in found.unplaced)


def _names(found: FleetPlan) -> list[str]:
    return [f"{card.gpu} {card.number}" for card in found.cards]


def _jobs(found: FleetPlan) -> Iterable[tuple[str, ...]]:
    names = _names(found)
    for job in found.jobs:
        cards = ", ".join(names[place] for place in job.cards)
        yield job.name, cards or "-", f"{job.command} ...", human_bytes(job.limit), human_bytes(job.need)


def _cards(found: FleetPlan) -> Iterable[tuple[str, ...]]:
    for name, card in zip(_names(found), found.cards, strict=True):
        yield name, str(len(card.jobs)), human_bytes(card.used), human_bytes(card.free)


def _figure(found: FleetPlan) -> dict[str, Any]:
    names = _names(found)
    needs = {job.name: job.need for job in found.jobs}
    rows: dict[str, list[Any]] = {"x": [], "base": [], "y": [], "hovertext": []}
    colors = []
    for place, card in enumerate(found.cards):
        base = 0
        pieces = [(needs[name], html.escape(name), _COLORS[i % len(_COLORS)]) for i, name in enumerate(card.jobs)]
        if not found.phases:  # else the needs are not all at one time, and may be more than the card has
            pieces.append((card.free, "left", _FREE))
        for nbytes, name, color in pieces:
            for key, value in zip(rows, (place, base, nbytes, f"{names[place]}<br>{name}: {human_bytes(nbytes)}"), strict=True):
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
    layout = {
        "barmode": "overlay",
        "bargap": 0.15 if len(names) <= 200 else 0,
        "xaxis": axis,
        "yaxis": bytes_axis(max(card.memory for card in found.cards)),
        "margin": {"l": 70, "r": 20, "t": 10, "b": 40},
    }
    return {"data": [bar], "layout": layout}
