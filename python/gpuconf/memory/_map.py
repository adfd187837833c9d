"""A map of a pool: its regions and their chunks."""

from __future__ import annotations

import operator
import sys
from collections import namedtuple

from .. import errors
from .._core import sizes, texts
from .._core.device_argument import Device
from .._core.glyphs import Glyphs, glyphs_of
from .._core.humanbytes import human_bytes
from .._core.native import core
from .._core.scope import gpu_text
from .._core.table import Table
from .._typing import Any


class Chunk(Table, namedtuple("Chunk", ["address", "nbytes", "requested", "in_use"])):
    """A chunk of a region: a block in use, or free memory."""

    __slots__ = ()

    address: int
    nbytes: int
    requested: int  # the requested size; 0 for free memory
    in_use: bool


class Region(Table, namedtuple("Region", ["address", "nbytes", "chunks"])):
    """A contiguous range that the pool has reserved on the GPU. Its chunks cover it, in order of address."""

    __slots__ = ()

    address: int
    nbytes: int
    chunks: tuple[Chunk, ...]


class MemoryMap(Table, namedtuple("MemoryMap", ["device", "bytes_limit", "regions", "oversubscribed_bytes"])):
    """All regions of a pool, in order of address. ``print`` draws it."""

    __slots__ = ()

    device: str
    bytes_limit: int
    regions: tuple[Region, ...]
    oversubscribed_bytes: int  # as in ``MemoryStats``

    def draw(self, width: int = 64) -> str:
        """Draw each region as a bar of ``width`` cells: ``█`` in use, ``▒`` partly in use, ``·`` free.

        If the encoding of ``sys.stdout`` lacks these characters, they are ``#``, ``+`` and ``.``. Raises ValueError for a width
        outside 1 to 10,000, and TypeError for a width that is not an int.
        """
        glyphs, width = glyphs_of(sys.stdout), _checked(width)
        in_use = sum(c.nbytes for r in self.regions for c in r.chunks if c.in_use)
        reserved = sum(r.nbytes for r in self.regions)
        limit = human_bytes(self.bytes_limit)
        lines = [f"{self.device}: {human_bytes(in_use)} in use of {human_bytes(reserved)} reserved, limit {limit}"]
        if self.oversubscribed_bytes:
            lines.append(
                f"  memory in use exceeds this GPU's memory by {human_bytes(self.oversubscribed_bytes)}, which is in host memory"
            )
        for region in self.regions:
            blocks = sum(c.in_use for c in region.chunks)
            lines.append(f"  {region.address:#014x} {_bar(region, width, glyphs)} {human_bytes(region.nbytes)}, {blocks} in use")
        if not self.regions:
            lines.append("  nothing reserved yet")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.draw()

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """Draw the map as a cell's result in IPython and notebooks."""
        printer.text(self.draw())


def _checked(width: int) -> int:
    try:
        cells = operator.index(width)
    except TypeError:
        raise errors.InvalidTypeError(f"width must be an int, but got {type(width).__name__}: {texts.shown(width)}") from None
    if not 1 <= cells <= 10_000:
        raise errors.InvalidArgumentError(f"width must be 1 to 10000 cells, but got {sizes.shown(cells)}")
    return cells


def _bar(region: Region, width: int, glyphs: Glyphs) -> str:
    """Draw a region. Cell i is the bytes [i, i+1) * nbytes / width."""
    used = [0] * width  # in units of 1/width byte, to stay with integers
    for chunk in region.chunks:
        if not chunk.in_use:
            continue
        start = (chunk.address - region.address) * width
        end = start + chunk.nbytes * width
        for cell in range(start // region.nbytes, min(width, -(-end // region.nbytes))):
            used[cell] += min(end, (cell + 1) * region.nbytes) - max(start, cell * region.nbytes)
    cells = (glyphs.free if u == 0 else glyphs.full if u == region.nbytes else glyphs.part for u in used)
    return glyphs.left + "".join(cells) + glyphs.right


def memory_map(device: Device | None = None) -> MemoryMap:
    """Return the regions and chunks of a logical GPU's pool. Initializes the runtime.

    ``device`` and its default are as for :func:`allocate`. Raises the same errors as :func:`stats`.

    >>> print(memory_map("GPU:0"))
    GPU:0: 0B in use of 0B reserved, limit 78.24GiB
      nothing reserved yet
    """
    text = core.pybind_MemoryMap(gpu_text(device, "memory.memory_map"))
    import json

    fields = json.loads(text)
    regions = tuple(Region(address, nbytes, tuple(Chunk(*c) for c in chunks)) for address, nbytes, chunks in fields["regions"])
    return MemoryMap(fields["device"], fields["limit"], regions, fields["oversubscribed_bytes"])
