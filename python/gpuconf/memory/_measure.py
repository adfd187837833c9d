# SPDX-License-Identifier: Apache-2.0
"""Measure the memory that a section of a program uses on a logical GPU."""

from __future__ import annotations

from .. import errors
from .._core import html, runtime
from .._core.block import Block, refuse_copy
from .._core.generated.stats import PeakStart, Usage
from .._core.message import loads
from .._core.native import core, loaded
from .._core.scope import Device, check_scope, gpu_number
from .._core.table import Printed, Table, columns, human_bytes
from .._typing import Any
from ._usage import UNTAGGED


class MeasureRow(Table):
    """The memory of one library under one tag during a measurement, in bytes."""

    library: str  # as in UsageRow
    tag: str  # "" for untagged memory
    before: int
    after: int
    peak: int

    @property
    def increase(self) -> int:
        """The growth of memory in use over the block: ``after - before``."""
        return self.after - self.before

    @property
    def peak_increase(self) -> int:
        """The growth of memory in use up to the peak: ``peak - before``."""
        return self.peak - self.before


class Measurement(Block, Printed):
    """The memory use of one logical GPU during a ``with`` block, in bytes. The numbers are set when the block ends.

    ``before`` and ``after`` are the memory in use at the start and at the end, ``peak`` is the maximum in between.
    ``rows`` splits them by library and tag (see :func:`tag`), the largest peak first; peaks of rows may have been
    reached at different times. ``print`` shows all of them as a table. Measurements may be nested and may overlap, in
    any threads. They do not change the peak of ``get_memory_info``.
    """

    before: int
    after: int
    peak: int
    rows: tuple[MeasureRow, ...]

    def __init__(self, device: Device | None) -> None:
        self._device = device
        self._token: tuple[int, int, int] | None = None  # number of the GPU, id of the measurement, generation
        self._before: dict[tuple[str, str], int] = {}  # bytes in use by library and tag

    @property
    def increase(self) -> int:
        """The growth of memory in use over the block: ``after - before``."""
        return self.after - self.before

    @property
    def peak_increase(self) -> int:
        """The growth of memory in use up to the peak: ``peak - before``."""
        return self.peak - self.before

    def __getattr__(self, name: str) -> Any:
        why = ""
        if name in ("before", "after", "peak", "rows", "increase", "peak_increase"):
            why = f": this measurement {_UNFINISHED}"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{why}")

    def to_dict(self) -> dict[str, Any]:
        """All numbers by name, in bytes, and the rows as dictionaries.

        Raises RuntimeError before the block has ended.
        """
        if not hasattr(self, "peak"):
            raise errors.FailedPreconditionError(f"this measurement {_UNFINISHED}")
        numbers = {name: getattr(self, name) for name in ("before", "after", "peak", "increase", "peak_increase")}
        return {**numbers, "rows": [row.to_dict() for row in self.rows]}

    def __enter__(self) -> Measurement:
        if self._token is not None:
            raise errors.FailedPreconditionError(
                "this measurement is running; create another with gpuconf.memory.measure()"
            )
        with runtime.unchanged():  # so that both numbers are of this generation
            number = gpu_number(self._device, "memory.measure")
            try:
                gpu, peak_id, (self.before, _, _, rows) = PeakStart._read(loads(core.pybind_StartPeak(number)))
            except errors.InvalidArgumentError:
                if number < 0:
                    check_scope()
                raise
            self._token = (gpu, peak_id, runtime.current.generation)
            self._before = {(row.library, row.tag): row.bytes_in_use for row in rows}
        return self

    def _leave(self, kind: type[BaseException] | None, *_: Any) -> None:
        token, self._token = self._token, None
        if not loaded():  # in a forked child
            return
        with runtime.unchanged():  # after a reset, the new pool reuses measurement ids
            if token is not None and token[2] == runtime.current.generation:
                self._finish(core.pybind_StopPeak(token[0], token[1]))
                return
        if kind is None:  # otherwise let the block's own error propagate
            raise errors.FailedPreconditionError("the runtime was reset during the measurement")

    def _finish(self, told: str) -> None:
        self.after, peak, _, rows = Usage._read(loads(told))
        before = self._before.get
        split = (
            MeasureRow(r.library, r.tag, before((r.library, r.tag), 0), r.bytes_in_use, r.peak_bytes_in_use)
            for r in rows
        )
        self.rows = tuple(sorted(split, key=lambda r: (-r.peak, r.library, r.tag)))
        self.peak = peak  # last: it says that the measurement has finished

    def __reduce_ex__(self, protocol: Any) -> Any:
        return super().__reduce_ex__(protocol) if self._token is None else refuse_copy(self, protocol)

    def __repr__(self) -> str:
        if not hasattr(self, "peak"):
            return "<gpuconf.Measurement, not finished>"
        return f"<gpuconf.Measurement: before {self.before}, peak {self.peak}, after {self.after} bytes>"

    def _lines(self) -> list[tuple[str, str, int, int, int]]:
        split = [(row.library, row.tag or UNTAGGED, row.before, row.peak, row.after) for row in self.rows]
        return [("all", "", self.before, self.peak, self.after), *split]

    def __str__(self) -> str:
        if not hasattr(self, "peak"):
            return repr(self)
        cells = [(*line[:2], *map(human_bytes, line[2:])) for line in self._lines()]
        return "\n".join(columns([_HEAD, *cells], 2))

    def _repr_html_(self) -> str:
        if not hasattr(self, "peak"):
            return html.shown(html.line(html.bold("Measurement"), "not finished"))
        rows = [
            (library, tag, html.change_bar(before, peak, after, self.peak), *map(html.size, (before, peak, after)))
            for library, tag, before, peak, after in self._lines()
        ]
        return html.listed("Measurement", (*_HEAD[:2], "", *_HEAD[2:]), rows, left=3)


_UNFINISHED = "has not finished: leave its with block first"
_HEAD = ("library", "tag", "before", "peak", "after")


def measure(device: Device | None = None) -> Measurement:
    """Measure the memory that a ``with`` block uses on a logical GPU.

    ``device`` and its default are as for :func:`allocate`.

    >>> with measure() as m:
    ...     allocate(1000, "GPU:0").free()
    >>> m.increase, m.peak_increase
    (0, 1024)
    >>> print(m)
    library  tag         before    peak  after
    all                      0B  1.0KiB     0B
    gpuconf  (untagged)      0B  1.0KiB     0B
    """
    return Measurement(device)
