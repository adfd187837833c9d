# SPDX-License-Identifier: Apache-2.0
"""What commands print: JSON objects, and tables, on a terminal in rich's colors if it is installed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from .._core.table import human_bytes
from .._typing import Any
from .console import plain, raw

SCHEMA = 1

# A cell is a text, or a text and its style on a terminal, such as "bold" or "red".
Cell = str | tuple[str, str]

_GAP = 2  # spaces between columns
_LEAST = 20  # what remains at least of a text that is cut


def print_json(fields: dict[str, Any]) -> None:
    """Print one object: ``schema`` and the fields."""
    import json

    print(json.dumps({"schema": SCHEMA, **fields}, indent=2, allow_nan=False))


def size(count: int | None) -> str:
    """Return a byte count for people; - for unknown."""
    return "-" if count is None else human_bytes(count)


def terminal_width(default: int = 80) -> int:
    """Return the number of columns, as shutil.get_terminal_size does: its import takes as long as that of all
    commands.
    """
    try:
        return int(os.environ.get("COLUMNS", "")) or default
    except ValueError:
        pass
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or default  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):  # closed, or no terminal
        return default


def colors(stream: Any = None) -> bool:
    """Whether to color what is written to a stream, standard output by default: only on a terminal, and not with
    NO_COLOR.
    """
    stream = sys.stdout if stream is None else stream
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    right: Sequence[str] = (),
    drop: Sequence[str] = (),
    cut: Sequence[str] = (),
) -> None:
    """Print a table.

    The columns named in ``right`` are right-aligned. On a terminal, those in ``drop`` are left out, in this order,
    until the table is no wider than the terminal, and texts in those of ``cut`` end in an ellipsis where they are too
    long. In a pipe or a file every column is printed, and no text is cut.
    """
    width = terminal_width() if sys.stdout.isatty() else sys.maxsize
    kept = _kept(header, rows, drop, cut, width)
    header = [header[i] for i in kept]
    rows = _cut(header, [[row[i] for i in kept] for row in rows], cut, width)
    widths = _widths(header, rows)
    styled = _painter()
    for row in [[(name, "bold") for name in header], *rows]:
        cells = []
        for name, cell, width in zip(header, row, widths, strict=True):
            padding = " " * (width - len(text_of(cell)))
            cells.append(padding + styled(cell) if name in right else styled(cell) + padding)
        print((" " * _GAP).join(cells).rstrip(), file=raw(sys.stdout))


def print_colored(before: str, text: str, color: int, after: str = "") -> None:
    """Print a line or more, a part of which has one of a terminal's colors if colors are wanted."""
    text = plain(text)
    if colors():
        text = f"\033[{color}m{text}\033[0m"
    print(f"{plain(before)}{text}{plain(after)}", file=raw(sys.stdout))


def _painter() -> Callable[[Cell], str]:
    """Return what writes a cell: in its style if rich is installed, and colors are wanted."""
    if not colors():
        return text_of
    try:
        from rich.style import Style
    except ImportError:
        return text_of
    return lambda cell: Style.parse(style_of(cell)).render(text_of(cell))


def text_of(cell: Cell) -> str:
    """Return a cell without its style, on one line."""
    return plain(cell if isinstance(cell, str) else cell[0]).replace("\n", "\\n").replace("\t", "\\t")


def style_of(cell: Cell) -> str:
    """Return a cell's style."""
    return "" if isinstance(cell, str) else cell[1]


def _kept(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], drop: Sequence[str], cut: Sequence[str], width: int
) -> list[int]:
    """Return the columns to print."""
    widths = _widths(header, rows)
    widths = [min(_LEAST, one) if name in cut else one for name, one in zip(header, widths, strict=True)]
    kept = list(range(len(header)))
    for name in drop:
        if sum(widths[i] for i in kept) + _GAP * (len(kept) - 1) <= width:
            break
        kept.remove(header.index(name))
    return kept


def _cut(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], cut: Sequence[str], width: int
) -> Sequence[Sequence[Cell]]:
    """Return the rows with shorter texts in the columns that are named in ``cut``, in this order, until the table
    fits.
    """
    for column in (header.index(name) for name in cut if name in header):
        widths = _widths(header, rows)
        room = max(_LEAST, widths[column] - max(0, sum(widths) + _GAP * (len(widths) - 1) - width))
        rows = [[_shortened(cell, room) if i == column else cell for i, cell in enumerate(row)] for row in rows]
    return rows


def _shortened(cell: Cell, room: int) -> Cell:
    text = text_of(cell)
    if len(text) > room:
        text = text[: room - 1] + "…"
    return text if isinstance(cell, str) else (text, cell[1])


def _widths(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[int]:
    return [max(len(text_of(row[i])) for row in [header, *rows]) for i in range(len(header))]
