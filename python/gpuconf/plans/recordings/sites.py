# SPDX-License-Identifier: Apache-2.0
"""Memory by the line of the user's code that allocated it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..._core.stacks import Frame, call_site, shown
from ..._core.table import Table, counted, human_bytes
from ..._typing import Any
from ...memory._usage import UNTAGGED

_WIDTH = 80


class PlanSite(Table):
    """Live memory of one library under one tag, allocated by the same line of a program, through whichever library
    functions.
    """

    library: str  # as in UsageRow; "" if unknown
    tag: str  # "" for untagged memory
    call_site: Frame | None  # the program's line or, ("", 0, name), a node of the backward pass; None if unknown
    bytes_in_use: int
    live_blocks: int
    before: bool = False  # allocated before the trace began, and nothing else is known
    lines: int = 1  # of the program; more than 1: a sum of those with less than all others

    @property
    def known(self) -> bool:
        """Whether anything is known about who holds this."""
        return bool(self.library or self.tag or self.call_site)

    def text(self, width: int = _WIDTH) -> str:
        """Return a description. A long file name is cut at its beginning."""
        amount = f"{human_bytes(self.bytes_in_use)} in {counted(self.live_blocks, 'block')}"
        if self.lines > 1:
            return f"{amount}: {self.lines} more lines"
        if self.before:
            return f"{amount}: allocated before the recording"
        tag = self.tag or (UNTAGGED if self.library else "")
        who = " ".join(filter(None, (self.library, tag)))
        if self.call_site is None:
            return f"{amount}: {who or 'without a call site'}"
        start = f"{amount}: {who} at " if who else f"{amount}: at " if self.call_site[0] else f"{amount}: in "
        return start + cut(self.call_site, width - len(start))

    def __str__(self) -> str:
        return self.text(1 << 16)


def cut(frame: Frame, width: int) -> str:
    """Return a call as text, without the first folders of a file whose name is too long; its last folder stays."""
    text = shown(frame)
    while len(text) > width and frame[0]:
        _, slash, rest = frame[0].removeprefix(".../").partition("/")
        if not slash or "/" not in rest:
            break
        frame = (f".../{rest}", frame[1], frame[2])
        text = shown(frame)
    return text


def fold(holders: Iterable[Any]) -> tuple[PlanSite, ...]:
    """Add up PlanHolders whose stacks lead to the same line; the largest first."""
    return _fold((h, h.bytes_in_use, h.live_blocks, h.before) for h in holders)


def fold_blocks(blocks: Iterable[Any]) -> tuple[PlanSite, ...]:
    """Add up blocks in the same way."""
    return _fold((b, b.nbytes, 1, b.before) for b in blocks)


def _fold(parts: Iterable[tuple[Any, int, int, bool]]) -> tuple[PlanSite, ...]:
    sums: dict[tuple[str, str, Frame | None, bool], list[int]] = {}
    for part, nbytes, blocks, before in parts:
        total = sums.setdefault((part.library, part.tag, call_site(part.stack), before), [0, 0])
        total[0] += nbytes
        total[1] += blocks
    rows = (PlanSite(library, tag, at, nbytes, n, before) for (library, tag, at, before), (nbytes, n) in sums.items())
    return tuple(sorted(rows, key=lambda s: -s.bytes_in_use))


def first(sites: Sequence[PlanSite], most: int) -> tuple[PlanSite, ...]:
    """Return the largest sites and what the others add up to: first all that are known, then the rest."""
    known = [site for site in sites if site.known]
    if len(known) > most + 1:
        left = known[most:]
        rest = PlanSite(
            "", "", None, sum(s.bytes_in_use for s in left), sum(s.live_blocks for s in left), False, len(left)
        )
        known = [*known[:most], rest]
    return (*known, *(site for site in sites if not site.known))


def lines(sites: Sequence[PlanSite], most: int) -> Iterator[str]:
    """Yield a line for each of the largest sites, and for the rest. Where nothing is known of any, there are none."""
    if any(site.known or site.before for site in sites):
        for site in first(sites, most):
            yield f"  {site.text(_WIDTH - 2)}"
