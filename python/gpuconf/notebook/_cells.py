# SPDX-License-Identifier: Apache-2.0
"""The device memory that cells use: ``%%gpumem``, and the line after each cell."""

from __future__ import annotations

import re
from contextlib import suppress

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import cell_magic, leading_indent
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from .. import errors
from .._core import runtime
from .._typing import Any
from ..memory import Measurement, measure, stats, usage
from ._cell_memory import CellMemory, Row
from ._devices import ready

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
                for number in range(len(runtime.ordinals())):
                    gpu = f"GPU:{number}"
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
            return CellMemory(
                [(f"GPU:{number}", _since_the_start(f"GPU:{number}")) for number in range(len(runtime.ordinals()))]
            )


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
            raise UsageError(f"%%gpumem takes no arguments, but got {line.strip()!r}")
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
