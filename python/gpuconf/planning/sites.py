# SPDX-License-Identifier: Apache-2.0
"""Memory by the line of the user's code that allocated it."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Iterator, Sequence

from .._core.humanbytes import human_bytes
from .._core.stacks import Frame, call_site, shown
from .._core.table import Table
from .._typing import Any
from ..memory._usage import UNTAGGED


class PlanSite(Table, namedtuple("PlanSite", ["library", "tag", "call_site", "bytes_in_use", "live_blocks"])):
    """Live memory of one library under one tag, allocated by the same line of a program, through whichever library functions."""

    __slots__ = ()

    library: str  # as in UsageRow; "" if unknown
    tag: str  # "" for untagged memory
    call_site: Frame | None  # the innermost call that is not in an installed library, else the innermost; None if unknown
    bytes_in_use: int
    live_blocks: int

    @property
    def known(self) -> bool:
        """Whether anything is known about who holds this."""
        return bool(self.library or self.tag or self.call_site)

    def __str__(self) -> str:
        who = (self.library, self.tag or UNTAGGED) if self.library or self.tag else ()
        at = ("at", shown(self.call_site)) if self.call_site else ()
        return f"{human_bytes(self.bytes_in_use)} in {_blocks(self.live_blocks)}: {' '.join((*who, *at)) or 'unknown'}"


def fold(holders: Iterable[Any]) -> tuple[PlanSite, ...]:
    """Add up PlanHolders whose stacks lead to the same line; the largest first."""
    return _fold((h, h.bytes_in_use, h.live_blocks) for h in holders)


def fold_blocks(blocks: Iterable[Any]) -> tuple[PlanSite, ...]:
    """Add up blocks in the same way."""
    return _fold((b, b.nbytes, 1) for b in blocks)


def _fold(parts: Iterable[tuple[Any, int, int]]) -> tuple[PlanSite, ...]:
    sums: dict[tuple[str, str, Frame | None], list[int]] = {}
    for part, nbytes, blocks in parts:
        total = sums.setdefault((part.library, part.tag, call_site(part.stack)), [0, 0])
        total[0] += nbytes
        total[1] += blocks
    return tuple(sorted((PlanSite(*key, *total) for key, total in sums.items()), key=lambda s: -s.bytes_in_use))


def lines(sites: Sequence[PlanSite], most: int) -> Iterator[str]:
    """Yield a line for each of the largest known sites."""
    known = [site for site in sites if site.known]
    for site in known[:most]:
        yield f"  {site}"
    if len(known) > most:
        yield f"  and {len(known) - most} smaller"


def _blocks(n: int) -> str:
    return "1 block" if n == 1 else f"{n} blocks"
