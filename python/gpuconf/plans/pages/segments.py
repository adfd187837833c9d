# SPDX-License-Identifier: Apache-2.0
"""A report's figures of policies and of segments, for plotly's JavaScript library."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from ..._core.stacks import call_site, shown
from ..._core.table import human_bytes
from ..._typing import Any
from ..recordings.out_of_memory import OutOfMemory, Segment, SegmentBlock
from ..recordings.replay import Plan
from . import frame
from .frame import line

_DASHES = ("solid", "dot", "dash", "longdash", "dashdot", "longdashdot")
_SEGMENTS, _PER_SEGMENT = 40, 150  # the most rows, and the most bars in one
_FREE, _OTHER = "rgba(128,128,128,0.18)", "#8f8f8f"


def over_time(plan: Plan, gpu: int, colors: Sequence[str]) -> dict[str, Any]:
    """Return what is in use and what each policy reserves over time."""
    data: list[dict[str, Any]] = []
    most = 0
    tried = [p for p in plan.policies if any(r.gpu == gpu and r.policy == p for r in plan.results)]
    for number, policy in enumerate(tried):
        points = plan.timeline(gpu, policy)
        times = [round(p.time, 6) for p in points]
        if not data:
            in_use = [p.bytes_in_use for p in points]
            style: dict[str, Any] = {"shape": "vh", "width": 0.5, "color": "#8f8f8f"}
            data.append(line(times, in_use, f"in use ({policy})", fill="tozeroy", line=style))
        reserved = [p.bytes_reserved for p in points]
        color, dash = colors[number % len(colors)], _DASHES[number % len(_DASHES)]
        style = {"shape": "vh", "width": 1.5, "color": color, "dash": dash}
        data.append(line(times, reserved, f"reserved by {policy}", line=style))
        most = max([most, *reserved])
    if plan.limit is not None and data:
        ends = [data[0]["x"][0], data[0]["x"][-1]] if data[0]["x"] else [0, 1]
        style = {"width": 1.5, "dash": "dash", "color": "#d62728"}
        data.append(line(ends, [plan.limit] * 2, "limit", line=style))
        most = max(most, plan.limit if plan.limit <= 4 * most else 0)
    return frame.over_time(data, most, "s")


def shown_segments(failure: OutOfMemory) -> list[Segment]:
    """Return the segments with the most free memory, by address."""
    ordered = sorted(failure.segments, key=lambda s: (-s.free, -s.nbytes, s.address))
    return sorted(ordered[:_SEGMENTS], key=lambda s: int(s.address))


def segments(failure: OutOfMemory, colors: Sequence[str]) -> dict[str, Any]:
    """Return a row for each segment, with its blocks in the color of the line of code that allocated them."""
    color = {site.call_site: colors[i] for i, site in enumerate(failure.sites[: len(colors)])}
    rows: dict[str, list[Any]] = {"x": [], "base": [], "y": [], "customdata": []}
    filled: list[str] = []
    drawn = shown_segments(failure)
    for y, segment in enumerate(drawn):
        for at, nbytes, blocks in _joined(segment):
            largest = max(blocks, key=lambda b: int(b.nbytes))
            text = _text(largest, nbytes, len(blocks))
            for name, value in zip(rows, (nbytes, at, y, text), strict=True):
                rows[name].append(value)
            filled.append(color.get(call_site(largest.stack), _OTHER) if largest.requested else _FREE)
    bars = frame.pieces(rows, filled, "customdata")
    names, size = [f"{s.address:#x}" for s in drawn], {"size": 10}
    xaxis = frame.bytes_axis(max((int(s.nbytes) for s in drawn), default=0))
    yaxis = {"autorange": "reversed", "tickvals": list(range(len(names))), "ticktext": names, "tickfont": size}
    return frame.figure([bars], 120, 20, barmode="overlay", bargap=0.12, xaxis=xaxis, yaxis=yaxis)


def _joined(segment: Segment) -> Iterator[tuple[int, int, list[SegmentBlock]]]:
    """Yield the pieces of a segment: neighbors that are too small to draw are one, free ones and others apart."""
    least = segment.nbytes // _PER_SEGMENT
    at, size = 0, 0
    blocks: list[SegmentBlock] = []
    for block in segment.blocks:
        if blocks and (size >= least or block.nbytes >= least or bool(block.requested) != bool(blocks[0].requested)):
            yield at, size, blocks
            at, size, blocks = at + size, 0, []
        blocks.append(block)
        size += block.nbytes
    if blocks:
        yield at, size, blocks


def _text(block: SegmentBlock, nbytes: int, count: int) -> str:
    if not block.requested:
        return f"{human_bytes(nbytes)} ({nbytes:,} bytes) free"
    what = f"{human_bytes(block.requested)} requested, at {block.address:#x}" + (
        ", freed: another stream uses it" if block.waiting else ""
    )
    lines = [f"{count} blocks in {human_bytes(nbytes)}. The largest:", what] if count > 1 else [what]
    lines += [shown(frame) for frame in block.stack[:12]]
    return "<br>".join(map(html.escape, lines))
