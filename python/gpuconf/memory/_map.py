# SPDX-License-Identifier: Apache-2.0
"""A map of a pool: its regions and their chunks."""

from __future__ import annotations

import itertools
import sys

from .. import errors
from .._core import html, sizes
from .._core.generated import memorymap as wire
from .._core.generated.memorymap import Region
from .._core.message import loads
from .._core.native import core
from .._core.scope import Device, gpu_text
from .._core.table import glyphs_of, human_bytes
from .._typing import Any


class MemoryMap(html.InLists, wire.MemoryMap):
    """All regions of a pool, in order of address. ``print`` draws it."""

    __slots__ = ()

    def draw(self, width: int = 64) -> str:
        """Draw each region as a bar of ``width`` cells: ``█`` in use, ``▒`` partly in use, ``·`` free.

        If blocks have tags or several libraries, a line names the largest holders. If the encoding of ``sys.stdout``
        lacks the characters, they are ``#``, ``+`` and ``.``. Raises ValueError for a width outside 1 to 10,000, and
        TypeError for a width that is not an int.
        """
        glyphs, width = glyphs_of(sys.stdout), _checked(width)
        lines = [self._summary(), *(f"  {note}" for note in self._notes())]
        for region in self.regions:
            cells = "".join(map((glyphs.free, glyphs.part, glyphs.full).__getitem__, _cells(region, width)))
            bar = f"{glyphs.left}{cells}{glyphs.right}"
            lines.append(f"  {region.address:#014x} {bar} {human_bytes(region.nbytes)}, {_blocks(region)} in use")
        if not self.regions:
            lines.append("  nothing reserved yet")
        holders = self._holders()
        if holders:
            lines.append(
                "  in use by " + ", ".join(f"{_name(holder)} {human_bytes(nbytes)}" for holder, nbytes in holders)
            )
        return "\n".join(lines)

    def _holders(self) -> list[tuple[Holder, int]]:
        """Return the largest holders and their bytes, the last for all others; [] if there is nothing to tell apart."""
        sums: dict[Holder, int] = {}
        for region in self.regions:
            for chunk in region.chunks:
                if chunk.in_use:
                    sums[chunk.library, chunk.tag] = sums.get((chunk.library, chunk.tag), 0) + chunk.nbytes
        if len(sums) < 2 and not any(tag for _, tag in sums):
            return []
        ordered = sorted(sums.items(), key=lambda each: (-each[1], each[0]))
        shown, rest = ordered[: len(_HOLDERS)], ordered[len(_HOLDERS) :]
        return [*shown, *([(_OTHERS, sum(nbytes for _, nbytes in rest))] if rest else [])]

    def _summary(self) -> str:
        in_use = sum(c.nbytes for r in self.regions for c in r.chunks if c.in_use)
        reserved = sum(r.nbytes for r in self.regions)
        limit = human_bytes(self.bytes_limit)
        return f"{self.device}: {human_bytes(in_use)} in use of {human_bytes(reserved)} reserved, limit {limit}"

    def _notes(self) -> list[str]:
        if not self.oversubscribed_bytes:
            return []
        over = human_bytes(self.oversubscribed_bytes)
        return [f"memory in use exceeds this GPU's memory by {over}, which is in host memory"]

    def __str__(self) -> str:
        return self.draw()

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """Draw the map as a cell's result in IPython and notebooks."""
        printer.text(self.draw())

    def _repr_html_(self) -> str:
        shown = self.regions[:_REGIONS]
        holders = self._holders()
        colors = dict(zip((holder for holder, _ in holders), (*_HOLDERS, _REST), strict=False))
        rows = [
            (html.code(f"{r.address:#014x}"), _html_bar(r, colors), html.size(r.nbytes), f"{_blocks(r):,}")
            for r in shown
        ]
        notes = [html.line(note) for note in self._notes()]
        if len(self.regions) > _REGIONS:
            notes.append(html.line(f"and {len(self.regions) - _REGIONS:,} more regions"))
        if holders:
            notes.append(
                html.line(*(_html_holder(colors[holder], _name(holder), nbytes) for holder, nbytes in holders))
            )
        table = html.table(("region", "", "size", "blocks in use"), rows, left=2)
        body = table if rows else html.line("nothing reserved yet")
        return html.shown(html.titled(self._summary(), body, *notes))


def _checked(width: int) -> int:
    cells = sizes.whole("width", width)
    if not 1 <= cells <= 10_000:
        raise errors.InvalidArgumentError(f"width must be 1 to 10000 cells, but got {sizes.shown(cells)}")
    return cells


_REGIONS = 40  # as many as are shown in HTML
_COLORS = (html.FREE, html.PEAK, html.USED)
# Of the largest holders, which contrast with white, with black and with each other; and of all others.
_HOLDERS = ("#3b82d0", "#d9730d", "#2f9e58", "#b05cc0", "#c9372c")
_REST = html.RESERVED

Holder = tuple[str, str]  # library and tag
_OTHERS: Holder = ("others", "")


def _name(holder: Holder) -> str:
    return " ".join(filter(None, holder))


def _html_holder(color: str, name: str, nbytes: int) -> html.Html:
    square = f'<span style="color:{color}" aria-hidden="true">&#9632;</span>'
    return html.Html(f'<span style="white-space:nowrap">{square} {html.escape(name)} {html.size(nbytes)}</span>&ensp;')


def _blocks(region: Region) -> int:
    return sum(chunk.in_use for chunk in region.chunks)


def _html_bar(region: Region, colors: dict[Holder, str]) -> html.Html:
    """Return a bar of cells, each in the color of the holder with most of it if there are several."""
    cells = [_COLORS[cell] for cell in _cells(region, _CELLS)]
    for cell, holder in _main_holders(region).items() if colors else ():
        cells[cell] = colors.get(holder, _REST)
    runs = ((len(list(run)), color) for color, run in itertools.groupby(cells))
    return html.bar(runs, _CELLS, "24em", "30vw")


_CELLS = 120


def _main_holders(region: Region) -> dict[int, Holder]:
    """Return who has most of what is in use of each cell."""
    sums: dict[int, dict[Holder, int]] = {}
    for chunk in region.chunks:
        if not chunk.in_use:
            continue
        start, end = chunk.address - region.address, chunk.address - region.address + chunk.nbytes
        for cell in range(start * _CELLS // region.nbytes, min(_CELLS, -(-end * _CELLS // region.nbytes))):
            part = min(end * _CELLS, (cell + 1) * region.nbytes) - max(start * _CELLS, cell * region.nbytes)
            held = sums.setdefault(cell, {})
            held[chunk.library, chunk.tag] = held.get((chunk.library, chunk.tag), 0) + part
    return {cell: max(held, key=held.__getitem__) for cell, held in sums.items()}


def _cells(region: Region, width: int) -> list[int]:
    """Divide a region into cells: 0 free, 1 partly in use, 2 in use. Cell i is the bytes [i, i+1) * nbytes / width."""
    used = [0] * width  # in units of 1/width byte, to stay with integers
    for chunk in region.chunks:
        if not chunk.in_use:
            continue
        start = (chunk.address - region.address) * width
        end = start + chunk.nbytes * width
        for cell in range(start // region.nbytes, min(width, -(-end // region.nbytes))):
            used[cell] += min(end, (cell + 1) * region.nbytes) - max(start, cell * region.nbytes)
    return [0 if u == 0 else 2 if u == region.nbytes else 1 for u in used]


def memory_map(device: Device | None = None) -> MemoryMap:
    """Return the regions and chunks of a logical GPU's pool. Initializes the runtime.

    ``device`` and its default are as for :func:`allocate`. Raises the same errors as :func:`stats`.

    >>> print(memory_map("GPU:0"))
    GPU:0: 0B in use of 0B reserved, limit 77.42GiB
      nothing reserved yet
    """
    text = core.pybind_MemoryMap(gpu_text(device, "memory.memory_map"))
    return MemoryMap(*wire.MemoryMap._read(loads(text)))
