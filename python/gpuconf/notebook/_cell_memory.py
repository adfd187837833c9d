# SPDX-License-Identifier: Apache-2.0
"""What a cell did with device memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .._core import html
from .._core.columns import columns
from .._core.humanbytes import human_bytes
from .._typing import NamedTuple


class Row(NamedTuple):
    """Bytes of one library under one tag; of all, if both are empty."""

    library: str
    tag: str
    before: int
    peak: int
    after: int

    @property
    def took(self) -> int:
        """The growth up to the peak."""
        return self.peak - self.before

    @property
    def left(self) -> int:
        """The growth that remained, negative if the cell freed memory."""
        return self.after - self.before

    @property
    def changed(self) -> bool:
        """Whether the cell allocated or freed memory of this row."""
        return self.took != 0 or self.left != 0


class CellMemory:
    """The report of ``%%gpumem``. For each logical GPU, the first row is the total."""

    def __init__(self, gpus: Sequence[tuple[str, list[Row]]], note: str = "") -> None:
        self._all = gpus
        self._note = note
        self._used = [(gpu, rows) for gpu, rows in gpus if any(row.changed for row in rows)]

    def line(self) -> str:
        """Return one line for the end of a cell, "" without initialized devices."""
        parts = [
            f"{gpu} {human_bytes(rows[0].after)} in use ({signed(rows[0].left)}, peak {human_bytes(rows[0].peak)})"
            for gpu, rows in self._used
        ]
        if not parts and self._all:
            parts = [
                f"{', '.join(f'{gpu} {human_bytes(rows[0].after)} in use' for gpu, rows in self._all)} (unchanged)"
            ]
        return "  ".join(parts)

    def _summary(self) -> str:
        if not self._used:
            return self._note or "this cell used no device memory"
        return f"this cell {'; '.join(f'{_deed(rows[0])} on {gpu}' for gpu, rows in self._used)}"

    def _rows(self) -> Iterator[tuple[str, str, Row]]:
        for gpu, rows in self._used:
            yield gpu, "all", rows[0]
            if len(rows) > 2 or any(row.tag for row in rows):
                for row in rows[1:]:
                    if row.changed:
                        yield "", f"{row.library} {row.tag or '(untagged)'}", row

    def __str__(self) -> str:
        rows = [
            (gpu, part, human_bytes(row.took), signed(row.left), human_bytes(row.peak), human_bytes(row.after))
            for gpu, part, row in self._rows()
        ]
        return "\n".join([self._summary(), *(columns([_HEAD, *rows], left=2) if rows else ())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = []
        most = 1
        for gpu, part, row in self._rows():
            if gpu:
                most = row.peak  # a part's bar is relative to its GPU's peak
            bar = html.change_bar(row.before, row.peak, row.after, most)
            sizes = (html.size(row.took), signed(row.left), html.size(row.peak), html.size(row.after))
            rows.append((html.code(gpu) if gpu else "", part, bar, *sizes))
        return html.shown(
            html.titled(self._summary(), html.table((*_HEAD[:2], "", *_HEAD[2:]), rows, left=3) if rows else "")
        )


_HEAD = ("device", "memory of", "took", "left", "peak", "after")


def _deed(row: Row) -> str:
    left = f"freed {human_bytes(-row.left)}" if row.left < 0 else f"left {human_bytes(row.left)}"
    if row.took == 0:
        return left
    return f"took {human_bytes(row.took)} at its peak and {left}"


def signed(count: int) -> str:
    """Return a difference with its sign."""
    return f"+{human_bytes(count)}" if count > 0 else human_bytes(count)
