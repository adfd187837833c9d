# SPDX-License-Identifier: Apache-2.0
"""What the page of a rehearsed program has beside the report of its memory: the answer, and the modules."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from ..._core.table import human_bytes
from ..._typing import Any, NamedTuple
from .frame import table


class OfProgram(NamedTuple):
    """What is known of the program whose process, on one GPU, a page shows."""

    answer: str  # its text
    verdict: str  # its last line
    command: str
    verdicts: Sequence[tuple[str, ...]]  # a row for each card, after a head
    cards: Mapping[str, int]  # bytes for the allocator, at least, by the name of each card
    phases: Sequence[tuple[float, str]]  # after a part of all events, what it does from then on
    modules: Mapping[str, Mapping[str, int]]  # at the peak, the bytes of each part of each

    def top(self) -> str:
        """Return the beginning of the page: command, cards, and the answer with its verdict first."""
        return (
            f"<p><code>{html.escape(self.command)}</code></p><p><b>{html.escape(self.verdict)}</b></p>"
            f"{table(self.verdicts[0], self.verdicts[1:], 1)}"
            f"<details><summary>the answer as text</summary><pre>{html.escape(self.answer)}</pre></details>"
        )

    def tree(self) -> str:
        """Return the tree of modules, those that hold most first."""
        root = _Node("")
        for path, parts in self.modules.items():
            node = root
            for name in path.split(".") if path else ["outside of forward passes"]:
                node = node.children.setdefault(name, _Node(name))
            node.own.update(parts)
        if not root.children:
            return ""
        return f"<h3>Modules at the peak</h3>{''.join(one.text() for one in root.ordered())}"


class _Node:
    """A module and those in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: dict[str, _Node] = {}
        self.own: dict[str, int] = {}

    @property
    def size(self) -> int:
        return sum(self.own.values()) + sum(one.size for one in self.children.values())

    def ordered(self) -> list[_Node]:
        return sorted(self.children.values(), key=lambda one: -one.size)

    def text(self) -> str:
        head = f"{html.escape(self.name)} <b>{human_bytes(self.size)}</b>"
        rows = [(part, human_bytes(size)) for part, size in sorted(self.own.items(), key=lambda one: -one[1])]
        inside = (table(("of its own", "at the peak"), rows, 1) if rows else "") + "".join(
            one.text() for one in self.ordered()
        )
        return f"<details class=module><summary>{head}</summary>{inside}</details>"


def marked(layout: dict[str, Any], phases: Sequence[tuple[float, str]], end: float) -> dict[str, Any]:
    """Return a layout of a figure over events with lines where phases begin."""
    drawn, last = [], -1.0
    for begin, name in phases:
        if begin - last > 1 / _MOST:  # else their names would lie on each other
            drawn.append((begin * end, name))
            last = begin
    line = {"width": 1, "dash": "dot", "color": "#8f8f8f"}
    across = {"yref": "paper", "type": "line", "y0": 0, "y1": 1, "line": line}
    label = {"yref": "paper", "y": 1, "xanchor": "left", "yanchor": "top", "showarrow": False, "textangle": 90}
    shapes = [{**across, "x0": begin, "x1": begin} for begin, _ in drawn]
    texts = [{**label, "x": begin, "text": name} for begin, name in drawn]
    return {**layout, "shapes": shapes, "annotations": texts}


_MOST = 16  # lines
