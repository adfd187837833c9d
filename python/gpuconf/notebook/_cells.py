# SPDX-License-Identifier: Apache-2.0
"""The device memory that cells use: ``%%gpumem``, and the line after each cell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import cell_magic, leading_indent
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from .. import errors
from .._core import html, runtime
from .._core.table import columns, human_bytes
from .._typing import Any, NamedTuple
from ..memory import Measurement, measure, stats, usage
from ._devices import gpus, ready


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
        return html.listed(self._summary(), (*_HEAD[:2], "", *_HEAD[2:]), rows, left=3)


_HEAD = ("device", "memory of", "took", "left", "peak", "after")


def _deed(row: Row) -> str:
    left = f"freed {human_bytes(-row.left)}" if row.left < 0 else f"left {human_bytes(row.left)}"
    if row.took == 0:
        return left
    return f"took {human_bytes(row.took)} at its peak and {left}"


def signed(count: int) -> str:
    """Return a difference with its sign."""
    return f"+{human_bytes(count)}" if count > 0 else human_bytes(count)


_MAGIC = re.compile(r"%%gpumem(?=\s|$)(.*)")


def without_first_line(lines: list[str]) -> list[str]:
    """Transform a cell that begins with ``%%gpumem``: the line magic starts the measurement, and the rest runs as a
    plain cell.

    So the cell keeps what a cell inside a magic loses: the value of its last line, ``await``, and line numbers in
    tracebacks.
    """
    match = _MAGIC.match(lines[0]) if lines else None
    if match is None or not "".join(lines[1:]).strip():
        return lines
    return [f"get_ipython().run_line_magic('gpumem', {match[1].strip()!r})\n", *cell_magic(leading_indent(lines[1:]))]


class _Run:
    """One execution of a cell."""

    def __init__(self, info: object) -> None:
        self.info = info  # IPython's; None for the cell that loads the extension
        self.measured = False
        self.shown = False  # whether %%gpumem was in it
        self._generation = -1
        self._measurements: list[tuple[str, Measurement]] = []

    def start(self) -> None:
        """Measure from here.

        Initializes nothing: devices that the cell initializes are measured from their first byte.
        """
        self.measured = True
        with suppress(errors.GpuconfError), runtime.unchanged():
            self.stop()
            if ready():
                self._generation = runtime.current.generation
                for gpu in gpus():
                    self._measurements.append((gpu, measure(gpu).__enter__()))

    def stop(self) -> CellMemory:
        """End the measurement."""
        measurements, self._measurements = self._measurements, []
        with runtime.unchanged():
            same = self._generation == runtime.current.generation
            for _, one in measurements:
                with suppress(errors.GpuconfError):  # the devices were reset in the cell
                    one.__exit__(None, None, None)
            if same:
                return CellMemory([(gpu, _measured(one)) for gpu, one in measurements if hasattr(one, "peak")])
            if not ready():
                return CellMemory([], "not measured: only sessions have used the GPUs" if runtime.initialized() else "")
            # A reset is refused while memory is in use, so nothing that was there before the cell is left.
            return CellMemory([(gpu, _since_the_start(gpu)) for gpu in gpus()])


def _measured(one: Measurement) -> list[Row]:
    return [
        Row("", "", one.before, one.peak, one.after),
        *(Row(r.library, r.tag, r.before, r.peak, r.after) for r in one.rows),
    ]


def _since_the_start(gpu: str) -> list[Row]:
    total = stats(gpu)
    rows = [Row(row.library, row.tag, 0, row.peak_bytes_in_use, row.bytes_in_use) for row in usage(gpu)]
    return [Row("", "", 0, total.peak_bytes_in_use, total.bytes_in_use), *rows]


class Cells:
    """Measures the cells of one shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self.watching = False
        self._runs: list[_Run] = []  # outermost first: a magic may run a cell inside a cell

    def gpumem(self, line: str) -> None:
        """Show the device memory that a cell used: before it, at its peak and after it, by library and tag.

        Write ``%%gpumem`` as the first line of the cell. As a line magic, ``%gpumem`` measures the rest of its cell.
        The report covers all logical GPUs that the cell used, and all threads while it ran. The devices are not
        initialized for
        it.
        """
        if line.strip():
            raise UsageError(f"%gpumem takes no arguments, but got {line.strip()!r}")
        if not self._runs:
            self._runs.append(_Run(None))
        self._runs[-1].shown = True
        self._runs[-1].start()

    def gpumem_cell(self, line: str, cell: str) -> None:
        """Show the device memory that a cell used; see ``%gpumem?``."""
        self.gpumem(line)  # only for run_cell_magic: without_first_line transforms the cells that users run
        self._shell.ex(self._shell.transform_cell(cell))

    gpumem_cell.__doc__ = gpumem.__doc__

    def before(self, info: object) -> None:
        """Begin a cell. IPython calls this."""
        del self._runs[:-8]  # what an interrupt between two steps of IPython has left
        self._runs.append(_Run(info))
        if self.watching:
            self._runs[-1].start()

    def after(self, result: Any) -> None:
        """End a cell, and show its memory. IPython calls this."""
        ended = [run for run in self._runs if run.info is None or run.info is result.info]
        self._runs = [run for run in self._runs if run not in ended]
        for run in ended:
            if not run.measured or not (run.shown or self.watching):
                continue
            try:
                memory = run.stop()
            except errors.GpuconfError:  # in a forked child, and after an internal error
                continue
            if run.shown:
                display(memory)
            elif memory.line():
                print(memory.line())
