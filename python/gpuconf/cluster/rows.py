# SPDX-License-Identifier: Apache-2.0
"""The memory of many processes: what one process reports, and the table of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .._core import html, runtime
from .._core.native import loaded
from .._core.table import Fields, Printed, Table, columns, counted, human_bytes
from .._typing import Any
from ..machine.cards import visible_devices
from ..memory import stats, usage
from ..memory._usage import UNTAGGED
from .share import limit_of


class ProcessRow(Table):
    """The memory of one library under one tag on one GPU of one process.

    An idle process has one row, without a library.
    """

    process: str  # the worker, actor or task
    address: str
    card: str  # the GPU's UUID; "" if the process has no GPU, or has not listed its GPUs yet
    device: str  # such as "GPU:0"
    library: str  # "torch", "cupy", "numba", "gpuconf" or "c"; "" if nothing has been allocated
    tag: str
    bytes_in_use: int
    peak_bytes_in_use: int
    live_blocks: int
    bytes_limit: int  # of the logical GPU; 0 for no limit
    problem: str  # why this process could not report its memory; "" if it did

    @classmethod
    def of(cls, process: str, address: str, row: Iterable[Any]) -> ProcessRow:
        """Return a row that a process reported."""
        return cls(process, address, *row, "")  # type: ignore[call-arg]


def report() -> list[list[Any]]:
    """Return the rows of this process, from ``card`` to ``bytes_limit``. Neither lists nor initializes the devices."""
    if not (loaded() and runtime.enumerated()):
        return [["", "", "", "", 0, 0, 0, 0]]
    cards = visible_devices()
    if not runtime.initialized():
        listed = {device.name: device for device in runtime.physical_devices()}
        idle = [
            [c.uuid, f"GPU:{i}", "", "", 0, 0, 0, limit_of(listed[c.physical_device]) if c.physical_device else 0]
            for i, c in enumerate(cards)
        ]
        return idle or [["", "", "", "", 0, 0, 0, 0]]
    uuids = {card.cuda_ordinal: card.uuid for card in cards}
    rows: list[list[Any]] = []
    for number, ordinal in enumerate(runtime.ordinals()):
        device = f"GPU:{number}"
        limit = stats(device).bytes_limit
        held = [[r.library, r.tag, r.bytes_in_use, r.peak_bytes_in_use, r.live_blocks] for r in usage(device)]
        rows += ([uuids.get(ordinal, ""), device, *figures, limit] for figures in held or [["", "", 0, 0, 0]])
    return rows or [["", "", "", "", 0, 0, 0, 0]]


class ClusterMemory(Printed, Fields):
    """The memory of all processes of a cluster. ``print`` shows it as a table; iterating yields the rows."""

    _fields = ("rows",)
    __slots__ = _fields

    rows: tuple[ProcessRow, ...]

    def __init__(self, rows: Iterable[ProcessRow]) -> None:
        self.rows = tuple(
            sorted(rows, key=lambda r: (_natural(r.process), r.device, -r.bytes_in_use, r.library, r.tag))
        )

    def __iter__(self) -> Iterator[ProcessRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterMemory) and self.rows == other.rows

    __hash__: None = None  # type: ignore[assignment]

    @property
    def bytes_in_use(self) -> int:
        """The total of all rows, in bytes."""
        return sum(row.bytes_in_use for row in self.rows)

    def by_card(self) -> dict[str, int]:
        """Return the bytes in use on each card, by UUID."""
        found: dict[str, int] = {}
        for row in self.rows:
            if row.card:
                found[row.card] = found.get(row.card, 0) + row.bytes_in_use
        return found

    def _summary(self) -> str:
        processes, cards = len({(row.process, row.address) for row in self.rows}), len(self.by_card())
        return (
            f"{human_bytes(self.bytes_in_use)} in use by {counted(processes, 'process', 'processes')} "
            f"on {counted(cards, 'card')}"
        )

    def __str__(self) -> str:
        lines = [self._summary()]
        if self.rows:
            lines += ("  " + line for line in columns([_HEAD, *map(_cells, self.rows)], 4))
        lines += (f"  {row.process} ({row.address}): {row.problem}" for row in self.rows if row.problem)
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<gpuconf.ClusterMemory: {self.bytes_in_use} bytes in use, {len(self.rows)} rows>"

    def _repr_html_(self) -> str:
        rows = []
        for row in self.rows:
            process, card, library, tag, *numbers = _cells(row)
            bar = html.memory_bar(row.bytes_in_use, row.peak_bytes_in_use, 0, row.bytes_limit or row.peak_bytes_in_use)
            rows.append((process, html.code(card), library, tag, bar, *numbers, row.problem))
        return html.listed(self._summary(), (*_HEAD[:4], "", *_HEAD[4:], "problem"), rows, left=5)


_HEAD = ("process", "card", "library", "tag", "in use", "peak", "limit", "blocks")


def _cells(row: ProcessRow) -> tuple[str, ...]:
    tag = (row.tag or UNTAGGED) if row.library else "-"
    limit = human_bytes(row.bytes_limit) if row.bytes_limit else "-"
    sizes = (human_bytes(row.bytes_in_use), human_bytes(row.peak_bytes_in_use), limit)
    return row.process, row.card[:12] or "-", row.library or "-", tag, *sizes, str(row.live_blocks)


def _natural(name: str) -> tuple[Any, ...]:
    """Return a sort key that puts gpu10-0 behind gpu2-0."""
    parts, digits = [""], False
    for letter in name:
        if letter.isdigit() != digits:
            parts.append("")
            digits = not digits
        parts[-1] += letter
    return tuple((int(part) if i % 2 and part.isdecimal() else 0, part) for i, part in enumerate(parts))
