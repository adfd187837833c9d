"""The picture of a pool: its regions and what lies in them."""

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
    """A piece of a region: a block that is in use, or free memory."""

    __slots__ = ()

    address: int
    nbytes: int
    requested: int  # what was asked for; 0 for free memory
    in_use: bool


class Region(Table, namedtuple("Region", ["address", "nbytes", "chunks"])):
    """Memory that the pool has taken from the GPU in one piece. Its chunks cover it, in the order of their addresses."""

    __slots__ = ()

    address: int
    nbytes: int
    chunks: tuple[Chunk, ...]


class MemoryMap(Table, namedtuple("MemoryMap", ["device", "bytes_limit", "regions", "oversubscribed_bytes"])):
    """Everything that a pool holds, in the order of addresses. ``print`` draws it."""

    __slots__ = ()

    device: str
    bytes_limit: int
    regions: tuple[Region, ...]
    oversubscribed_bytes: int  # as in ``MemoryStats``

    def draw(self, width: int = 64) -> str:
        """Draw each region as a bar of ``width`` cells: ``█`` in use, ``▒`` partly, ``·`` free.

        Where the encoding of ``sys.stdout`` lacks these, they are ``#``, ``+`` and ``.``. Raises ValueError for a width outside
        1 to 10,000, and TypeError for one that is not an int.
        """
        glyphs, width = glyphs_of(sys.stdout), _checked(width)
        in_use = sum(c.nbytes for r in self.regions for c in r.chunks if c.in_use)
        reserved = sum(r.nbytes for r in self.regions)
        limit = human_bytes(self.bytes_limit)
        lines = [f"{self.device}: {human_bytes(in_use)} in use of {human_bytes(reserved)} reserved, limit {limit}"]
        if self.oversubscribed_bytes:
            lines.append(
                f"  the memory in use on this GPU exceeds it by {human_bytes(self.oversubscribed_bytes)}, which host memory holds"
            )
        for region in self.regions:
            blocks = sum(c.in_use for c in region.chunks)
            lines.append(f"  {region.address:#014x} {_bar(region, width, glyphs)} {human_bytes(region.nbytes)}, {blocks} in use")
        if not self.regions:
            lines.append("  nothing is taken from the GPU yet")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.draw()

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """Draw it as the result of a cell in IPython and notebooks."""
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
    """Cell i stands for the bytes [i, i+1) * nbytes / width of the region."""
    used = [0] * width  # in units of 1/width byte, so that everything stays whole
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
    """Return what a logical GPU's pool holds. Initializes the runtime; raises as :func:`stats` does.

    ``device`` and its default are as for :func:`allocate`.

    >>> print(memory_map("GPU:0"))
    GPU:0: 0B in use of 0B reserved, limit 78.24GiB
      nothing is taken from the GPU yet
    """
    text = core.pybind_MemoryMap(gpu_text(device, "memory.memory_map"))
    import json

    told = json.loads(text)
    regions = tuple(Region(address, nbytes, tuple(Chunk(*c) for c in chunks)) for address, nbytes, chunks in told["regions"])
    return MemoryMap(told["device"], told["limit"], regions, told["oversubscribed_bytes"])
