# SPDX-License-Identifier: Apache-2.0
"""Memory in use, by library and tag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .._core import html
from .._core.generated.stats import DeviceUsage, UsageRow
from .._core.message import loads
from .._core.native import core
from .._core.scope import Device, gpu_text
from .._core.table import Fields, Printed, columns, counted, human_bytes

UNTAGGED = "(untagged)"


class MemoryUsage(Printed, Fields):
    """The memory in use on one logical GPU, by library and tag.

    ``print`` shows it as a table; iterating yields the rows.

    The rows are sorted by ``bytes_in_use``, the largest first. Rows whose memory was freed stay until
    ``reset_memory_stats``, for their peaks. The rows add up to ``bytes_in_use`` and ``live_blocks``, which are those of
    :func:`stats`; peaks of rows may have been reached at different times, so they may add up to more than
    ``peak_bytes_in_use``.
    """

    _fields = ("device", "bytes_in_use", "peak_bytes_in_use", "live_blocks", "rows")
    __slots__ = _fields

    device: str
    bytes_in_use: int
    peak_bytes_in_use: int
    live_blocks: int
    rows: tuple[UsageRow, ...]

    def __init__(
        self, device: str, bytes_in_use: int, peak_bytes_in_use: int, live_blocks: int, rows: tuple[UsageRow, ...]
    ) -> None:
        self.device, self.rows = device, rows
        self.bytes_in_use, self.peak_bytes_in_use, self.live_blocks = bytes_in_use, peak_bytes_in_use, live_blocks

    def __iter__(self) -> Iterator[UsageRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryUsage) and self.to_dict() == other.to_dict()

    __hash__: None = None  # type: ignore[assignment]

    def _summary(self) -> str:
        in_use = f"{human_bytes(self.bytes_in_use)} in use in {counted(self.live_blocks, 'block')}"
        return f"{self.device}: {in_use}, peak {human_bytes(self.peak_bytes_in_use)}"

    def __str__(self) -> str:
        lines = [self._summary()]
        if self.rows:
            cells = [_HEAD, *map(_cells, self.rows)]
            lines += ("  " + line for line in columns(cells, 2))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"<gpuconf.MemoryUsage of {self.device}: {self.bytes_in_use} bytes in {self.live_blocks} blocks, "
            f"{len(self.rows)} rows>"
        )

    def _repr_html_(self) -> str:
        peak = max((row.peak_bytes_in_use for row in self.rows), default=0)
        rows = [
            (
                row.library,
                row.tag or UNTAGGED,
                html.memory_bar(row.bytes_in_use, row.peak_bytes_in_use, 0, peak),
                *map(html.size, (row.bytes_in_use, row.peak_bytes_in_use)),
                f"{row.live_blocks:,}",
            )
            for row in self.rows
        ]
        return html.listed(self._summary(), (*_HEAD[:2], "", *_HEAD[2:]), rows, left=3)


_HEAD = ("library", "tag", "in use", "peak", "blocks")


def _cells(row: UsageRow) -> tuple[str, ...]:
    sizes = map(human_bytes, (row.bytes_in_use, row.peak_bytes_in_use))
    return row.library, row.tag or UNTAGGED, *sizes, str(row.live_blocks)


def by_size(rows: Iterable[UsageRow]) -> tuple[UsageRow, ...]:
    """Return the rows with the largest first."""
    return tuple(sorted(rows, key=lambda r: (-r.bytes_in_use, -r.peak_bytes_in_use, r.library, r.tag)))


def usage(device: Device | None = None) -> MemoryUsage:
    """Return the memory in use on a logical GPU by library and tag. Initializes the runtime.

    ``device`` and its default are as for :func:`allocate`. All numbers are in bytes and of one moment. Raises the same
    errors as
    :func:`stats`. See :func:`tag` for what a tag covers.

    >>> with tag("weights"), allocate(1 << 20, "GPU:0"):
    ...     print(usage("GPU:0"))
    GPU:0: 1.00MiB in use in 1 block, peak 1.00MiB
      library  tag       in use     peak  blocks
      gpuconf  weights  1.00MiB  1.00MiB       1
    """
    text = core.pybind_MemoryUsage(gpu_text(device, "memory.usage"))
    name, (in_use, peak, blocks, rows) = DeviceUsage._read(loads(text))
    return MemoryUsage(name, in_use, peak, blocks, by_size(rows))
