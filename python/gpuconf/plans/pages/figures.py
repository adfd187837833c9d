# SPDX-License-Identifier: Apache-2.0
"""The HTML page of a report: figures for plotly's JavaScript library, which the page contains, and tables."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Sequence

from ..._core.stacks import call_site, shown
from ..._core.table import human_bytes, human_limit
from ..._typing import Any
from ..recordings.replay import Plan, PlanResult, PlanUsage
from . import segments
from .frame import bytes_axis, figure, frame, line, over_time, pieces, table
from .history import Allocation, Block, History, Site
from .program import OfProgram, marked

# Ten colors that differ in light and in dark, for the largest holders; the last is for all others.
_COLORS = (
    "#4e79a7",
    "#f28e2b",
    "#59a14f",
    "#e15759",
    "#b07aa1",
    "#76b7b2",
    "#edc948",
    "#ff9da7",
    "#9c755f",
    "#86bcb6",
    "#8f8f8f",
)
_OTHER = len(_COLORS) - 1
_LIMITS = ("dash", "dot", "dashdot", "longdash")
_MOST_SITES, _MOST_FRAMES = 20, 12
_ROWS, _PER_ROW = 24, 150  # of the map: rows, and the most rectangles in one


def render(histories: Sequence[History], plan: Plan, library: str, of: OfProgram | None = None) -> str:
    """Return the page. ``library`` is the text of plotly.min.js."""
    failed = {failure.gpu for failure in plan.out_of_memory}
    ordered = sorted(histories, key=lambda h: (h.gpu not in failed, h.gpu))
    sections = [_Section(history, plan, of) for history in ordered]
    body = "".join(section.text() for section in sections) or "<p>The trace has no events.</p>"
    figures = {name: figure for section in sections for name, figure in section.figures.items()}
    top = [line for line in plan._top() if line]
    if of is not None:
        body = of.top() + body
    elif top:
        body = f"<pre class=verdict>{html.escape(chr(10).join(top))}</pre>{body}"
    body += "".join(f"<p>Note: {html.escape(note)}</p>" for note in plan._notes())
    head = plan._head()
    if plan.lost:
        head += f"; {_count(plan.lost, 'older event')} lost: an earlier peak may be missing"
    return frame("memory report" if of is None else "rehearsal", head, body, figures, library)


def over_events(history: History) -> dict[str, Any]:
    """Return the figure of the memory in use, of a history by event."""
    return _Section(history, None, None)._over_time()


_NO_USAGE = PlanUsage(0, 0, 0, 0, 0, 0, 0, 0)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


class _Section:
    """What the page says about one logical GPU."""

    def __init__(self, history: History, plan: Plan | None, of: OfProgram | None) -> None:
        self.history = history
        self.of = of
        self.by_event = plan is None or of is not None  # what a rehearsal takes in time says nothing
        self.results = [r for r in plan.results if r.gpu == history.gpu] if plan else []
        self.usage = next((u for u in plan.usages if u.gpu == history.gpu), _NO_USAGE) if plan else _NO_USAGE
        self.plan = plan
        self.limit = plan.limit if plan else None
        self.colors = self._choose_colors()
        self.sites = history.sites
        self.figures: dict[str, Any] = {}

    def _choose_colors(self) -> list[int]:
        """Return a color for each holder: one of its own for those with the most memory at any moment, -1 for those
        without.
        """
        holders = self.history.holders
        most = [max((moment.in_use[i] for moment in self.history.moments), default=0) for i in range(len(holders))]
        order = sorted((i for i in range(len(holders)) if most[i]), key=lambda i: -most[i])
        colors = [_OTHER if nbytes else -1 for nbytes in most]
        for color, holder in enumerate(order if len(order) <= len(_COLORS) else order[:_OTHER]):
            colors[holder] = color
        return colors

    def text(self) -> str:
        """Return the section, whose figures are in ``figures`` then."""
        history, name = self.history, f"GPU:{self.history.gpu}"
        peak = history.peak
        most = sum(peak.in_use)
        free = [nbytes for _, nbytes in history.free()]
        lost = 1 - max(free) / sum(free) if free else 0.0
        of_torch = self.usage.recorded_bytes_reserved is not None
        numbers = [
            ("allocated at the peak" if of_torch else "peak in use", human_bytes(most)),
            *self._other_peaks(),
            *([] if self.by_event else [("reached after", f"{peak.time:.3f} s")]),
            ("blocks at the peak", f"{len(history.blocks):,}"),
            ("failed allocations", f"{history.failed:,}"),
        ]
        if self.results:
            # Of equal ones the last, which is gpuconf's.
            best = min(reversed(self.results), key=lambda r: r.least_limit)
            numbers.append(("least limit", f"{human_limit(best.least_limit)} ({best.policy})"))
        parts = [
            f"<section><h2>{name}</h2><dl>",
            *(f"<div><dt>{k}</dt><dd>{html.escape(v)}</dd></div>" for k, v in numbers),
            "</dl>",
        ]
        parts += self._out_of_memory()
        title = "Memory in use, allocation by allocation" if self.by_event else "Memory in use over time"
        parts.append(self._figure("time", title, self._over_time(), 380))
        if self.of is not None:
            parts.append(self.of.tree())
        else:
            parts += self._policies()
        parts += ["<h3>Held at the peak</h3>", self._holders()]
        if self.sites:
            parts.append(
                self._figure("sites", "Call sites at the peak", self._call_sites(), 60 + 26 * self._site_rows())
            )
            head = ("call site", "at the peak", "blocks", "allocations", "allocated in all")
            parts.append(table(head, map(_site_row, self._shown_sites()), 1))
        else:
            parts.append("<h3>Call sites</h3><p>None were recorded. Use gpuconf.memory.record(stacks=True).</p>")
        of = "segments" if history.segments else "the address space between blocks; the trace has no segments"
        note = (
            f"{human_bytes(most)} in {_count(len(history.blocks), 'block')}, {human_bytes(sum(free))} free in "
            f"{_count(len(free), 'piece')} of {of}; largest free piece {human_bytes(max(free, default=0))}, "
            f"fragmentation {100 * lost:.1f}%. Rows run from low to high addresses."
        )
        spans, hidden = self._drawn()
        if hidden:
            note += f" {human_bytes(hidden)} behind the last block are free and not drawn."
        parts.append(self._figure("map", "Memory at the peak", self._map(spans), 520, note))
        return "".join([*parts, "</section>"])

    def _policies(self) -> Iterable[str]:
        """Yield what each policy needs."""
        yield "<h3>What each policy needs</h3>"
        yield table(_POLICY_HEAD, map(_policy_row, self.results), 1)
        if self.results and self.plan is not None:
            figure = segments.over_time(self.plan, self.history.gpu, _COLORS)
            yield self._figure("policies", "In use, and reserved by each policy", figure, 420)

    def _holders(self) -> str:
        """Return the table of who holds memory at the peak: parts of a program, which is of one library."""
        if self.of is not None:
            return table(("part", "in use", "share"), (row[1:] for row in self._holder_rows()), 1)
        return table(("library", "tag", "in use", "share"), self._holder_rows(), 2)

    def _other_peaks(self) -> Iterable[tuple[str, str]]:
        """Yield the sums beside the peak that the trace determines."""
        usage = self.usage
        if usage.recorded_bytes_reserved is not None:
            yield "requested", human_bytes(usage.peak_bytes_requested)
            yield "peak reserved, as recorded", human_bytes(usage.recorded_bytes_reserved)
        if usage.needed_bytes:
            yield "needed, with the request that failed", human_bytes(usage.needed_bytes)
        if usage.bytes_before:
            yield "allocated before the recording", human_bytes(usage.bytes_before)

    def _out_of_memory(self) -> Iterable[str]:
        """Yield what is known of the failed allocation that ends a PyTorch snapshot."""
        for failure in self.plan.out_of_memory if self.plan else ():
            if failure.gpu == self.history.gpu:
                yield f"<h3>Out of memory</h3><pre>{html.escape(chr(10).join(failure.lines(width=0)))}</pre>"
                if failure.segments:
                    figure = segments.segments(failure, _COLORS)
                    drawn = len(segments.shown_segments(failure))
                    note = f"{drawn} of {_count(len(failure.segments), 'segment')}: those with the most free memory. "
                    note += "A color is a line of the program; gray is free."
                    yield self._figure("segments", "Segments when it ran out", figure, 80 + 18 * drawn, note)

    def _figure(self, kind: str, title: str, figure: dict[str, Any], height: int, note: str = "") -> str:
        name = f"{kind}-{self.history.gpu}"
        self.figures[name] = figure
        below = f"<p>{html.escape(note)}</p>" if note else ""
        return f'<h3>{title}</h3>{below}<div class="figure" id="{name}" style="height:{height}px"></div>'

    def _over_time(self) -> dict[str, Any]:
        history = self.history
        times = [moment.event if self.by_event else moment.time for moment in history.moments]
        shown: dict[int, list[int]] = {}
        for holder, color in enumerate(self.colors):
            if color < 0:
                continue
            values = [moment.in_use[holder] for moment in history.moments]
            shown[color] = list(map(sum, zip(shown[color], values, strict=True))) if color in shown else values
        data: list[dict[str, Any]] = []
        for color, values in sorted(shown.items()):
            style = {"shape": "hv", "width": 0.5, "color": _COLORS[color]}
            data.append(line(times, values, self._name(color), stackgroup="in use", line=style))
        failures = history.failures
        if failures:
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": "failed allocation",
                    "x": [failure.event if self.by_event else failure.time for failure in failures],
                    "y": [sum(_in_use_before(history, failure.event)) for failure in failures],
                    "marker": {"symbol": "x", "size": 9, "color": "#d62728"},
                    "text": [f"failed: {self._described(failure)}" for failure in failures],
                    "hovertemplate": "%{text}<extra></extra>",
                }
            )
        lines = self._lines_of_needs() if self.of is None else []
        shown_lines = lines[:1]
        if self.of is not None:
            near = {card: size for card, size in self.of.cards.items() if size <= 4 * sum(history.peak.in_use)}
            shown_lines += [(size, f"{card}, for the allocator: {human_bytes(size)}") for card, size in near.items()]
        if self.limit is not None:
            shown_lines.append((self.limit, f"limit: {human_bytes(self.limit)}"))
        ends = [times[0], times[-1]] if times else [0, 1]
        for number, (value, name) in enumerate([*shown_lines, *lines[1:]]):  # a click in the legend shows the others
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": html.escape(name),
                    "x": ends,
                    "y": [value, value],
                    "line": {"width": 1.5, "dash": _LIMITS[number % len(_LIMITS)], "color": "#d62728"},
                    "hoverinfo": "skip",
                    "visible": True if number < len(shown_lines) else "legendonly",
                }
            )
        most = max([sum(history.peak.in_use), *(value for value, _ in shown_lines)])
        drawn = over_time(data, most, "" if self.by_event else "s")
        if self.of is not None:
            drawn["layout"] = marked(drawn["layout"], self.of.phases, times[-1] if times else 1)
        return drawn

    def _lines_of_needs(self) -> list[tuple[int, str]]:
        limits: dict[int, list[str]] = {}
        for result in self.results:
            limits.setdefault(result.least_limit, []).append(result.policy)
        needs = []
        for value, names in sorted(limits.items()):
            who = ", ".join(names) if len(names) < 4 else f"{len(names)} policies"
            needs.append((value, f"least limit, {who}: {human_limit(value)}"))
        return needs

    def _name(self, color: int) -> str:
        holders = [self.history.holders[i] for i, c in enumerate(self.colors) if c == color]
        if len(holders) != 1:
            return f"{len(holders)} others"
        library, tag = holders[0]
        return " · ".join(part for part in (library, tag) if part) or "memory in use"

    def _described(self, allocation: Allocation) -> str:
        """Return what the trace says about an allocation, in plotly's subset of HTML."""
        library, tag = self.history.holders[allocation.holder]
        lines = [f"{human_bytes(allocation.requested)} ({allocation.requested:,} bytes)"]
        if library or tag:
            lines[0] += f", {' · '.join(part for part in (library, tag) if part)}"
        after = "" if self.by_event else f", after {allocation.time:.6f} s"
        begun = f"event {allocation.event + 1}{after}" if allocation.event >= 0 else "allocated before the recording"
        lines.append(begun)
        return "<br>".join(html.escape(line) for line in (*lines, *_frames(allocation.stack)))

    def _holder_rows(self) -> Iterable[tuple[str, ...]]:
        total = sum(self.history.peak.in_use) or 1
        rows = sorted(
            zip(self.history.peak.in_use, self.history.holders, strict=True), key=lambda row: (-row[0], row[1])
        )
        for nbytes, (library, tag) in rows:
            if nbytes:
                yield library or "(unknown)", tag or "(untagged)", human_bytes(nbytes), f"{100 * nbytes / total:.1f}%"

    def _shown_sites(self) -> list[Site]:
        return self.sites[:_MOST_SITES]

    def _site_rows(self) -> int:
        """Return the rows of the figure: plotly shows no text that is higher than the figure, and a stack has many
        lines.
        """
        return max(len(self._shown_sites()), 8)

    def _call_sites(self) -> dict[str, Any]:
        sites = self._shown_sites()[::-1]
        bar = {
            "type": "bar",
            "orientation": "h",
            "x": [site.peak_bytes for site in sites],
            "y": list(range(len(sites))),
            "marker": {"color": _COLORS[0]},
            "text": [f"{human_bytes(site.peak_bytes)}  {html.escape(_label(site.stack))}" for site in sites],
            "textposition": "auto",
            "insidetextanchor": "start",
            "customdata": ["<br>".join(map(html.escape, _frames(site.stack))) for site in sites],
            "hovertemplate": "%{customdata}<extra></extra>",
        }
        xaxis = bytes_axis(max((site.peak_bytes for site in sites), default=0))
        yaxis = {"visible": False, "range": [len(sites) - self._site_rows() - 0.5, len(sites) - 0.5]}
        return figure([bar], 10, 10, xaxis=xaxis, yaxis=yaxis, bargap=0.15)

    def _drawn(self) -> tuple[list[tuple[int, int]], int]:
        """Return the spans for the map, without free memory behind their last block that would dwarf the rest, and its
        bytes.
        """
        spans, hidden, blocks = [], 0, self.history.blocks
        large = sum(block.nbytes for block in blocks)
        for start, nbytes in self.history.spans():
            end = max((b.address + b.nbytes for b in blocks if start <= b.address < start + nbytes), default=start)
            rest = start + nbytes - end
            if rest > large:
                nbytes, hidden = end - start, hidden + rest
            if nbytes:
                spans.append((start, nbytes))
        return spans, hidden

    def _map(self, spans: Sequence[tuple[int, int]]) -> dict[str, Any]:
        total = sum(nbytes for _, nbytes in spans)
        width = max(-(-total // _ROWS), 256)
        parts = _pieces(self.history.blocks, spans, width // _PER_ROW)
        rows: dict[str, list[Any]] = {"x": [], "base": [], "y": [], "color": [], "customdata": []}
        for start, nbytes, blocks in parts:
            text = self._piece_text(nbytes, blocks)
            color = self._color(blocks)
            while nbytes > 0:  # a piece may continue in the next row
                row, column = divmod(start, width)
                part = min(nbytes, width - column)
                for key, value in zip(rows, (part, column, row, color, text), strict=True):
                    rows[key].append(value)
                start, nbytes = start + part, nbytes - part
        colors = rows.pop("color")
        # The text of a piece in several rows is stored once.
        texts = list(dict.fromkeys(rows["customdata"]))
        number = {text: i for i, text in enumerate(texts)}
        rows["customdata"] = [number[text] for text in rows["customdata"]]
        bars = pieces(rows, colors, "hovertext")
        xaxis, yaxis = {**bytes_axis(width), "range": [0, width]}, {"autorange": "reversed", "visible": False}
        drawn = figure([bars], 10, 10, barmode="overlay", bargap=0.12, xaxis=xaxis, yaxis=yaxis)
        return {**drawn, "texts": texts}

    def _color(self, blocks: Sequence[Block]) -> str:
        """Return the color of the holder of the largest block, or that of free memory."""
        if not blocks:
            return "rgba(128,128,128,0.18)"
        return _COLORS[self.colors[max(blocks, key=_size).allocation.holder]]

    def _piece_text(self, nbytes: int, blocks: Sequence[Block]) -> str:
        if not blocks:
            return f"{human_bytes(nbytes)} ({nbytes:,} bytes) free"
        largest = max(blocks, key=_size)
        described = self._described(largest.allocation)
        if len(blocks) == 1:
            return f"0x{largest.address:x}: {described}"
        in_use = sum(block.nbytes for block in blocks)
        return f"{len(blocks)} blocks with {human_bytes(in_use)} in {human_bytes(nbytes)}. The largest:<br>{described}"


def _in_use_before(history: History, event: int) -> list[int]:
    """Return what each holder has at the last moment up to an event."""
    found: list[int] = []
    for moment in history.moments:
        if moment.event > event:
            break
        found = moment.in_use
    return found


def _size(block: Block) -> int:
    return int(block.nbytes)


def _pieces(
    blocks: Sequence[Block], spans: Sequence[tuple[int, int]], least: int
) -> Iterable[tuple[int, int, list[Block]]]:
    """Yield the pieces of the map: the position, the bytes, and the blocks; none for free memory.

    Positions count from the first span on, without what lies between spans. Neighbors smaller than ``least`` are one
    piece.
    """
    begin, at = 0, 0
    for start, nbytes in spans:
        parts: list[tuple[int, int, Block | None]] = []
        end = start
        while at < len(blocks) and blocks[at].address < start + nbytes:
            block = blocks[at]
            if block.address > end:
                parts.append((end, block.address - end, None))
            parts.append((block.address, block.nbytes, block))
            end = block.address + block.nbytes
            at += 1
        if end < start + nbytes:
            parts.append((end, start + nbytes - end, None))
        yield from ((begin + first - start, size, inside) for first, size, inside in _joined(parts, least))
        begin += nbytes


def _joined(parts: Iterable[tuple[int, int, Block | None]], least: int) -> Iterable[tuple[int, int, list[Block]]]:
    """Join neighbors until they are large enough."""
    first, size = 0, 0
    inside: list[Block] = []
    for start, nbytes, block in parts:
        if size and (size >= least or nbytes >= least):
            yield first, size, inside
            size = 0
        if not size:
            first, inside = start, []
        size += nbytes
        if block is not None:
            inside.append(block)
    if size:
        yield first, size, inside


_POLICY_HEAD = ("policy", "least limit", "fits", "peak in use", "peak reserved", "fragmentation at the peak")


def _policy_row(result: PlanResult) -> tuple[str, ...]:
    fits = {True: "yes", False: "no", None: "-"}[result.fits]
    sizes = map(human_bytes, (result.peak_bytes_in_use, result.peak_bytes_reserved))
    return result.policy, human_limit(result.least_limit), fits, *sizes, f"{100 * result.fragmentation:.1f}%"


def _site_row(site: Site) -> tuple[str, ...]:
    counts = f"{site.peak_blocks:,}", f"{site.count:,}"
    return _label(site.stack), human_bytes(site.peak_bytes), *counts, human_bytes(site.total)


def _label(stack: Sequence[Any]) -> str:
    """Return the innermost frame of the program's own code, if there is one."""
    site = call_site(tuple(stack))
    if site is None:
        return "allocated before the recording, or without a call site"
    file, line, function = site
    return f"{os.path.basename(file)}:{line} {function}" if file else shown(site)


def _frames(stack: Sequence[Any]) -> list[str]:
    shown = [f"{function} at {_short(file)}:{line}" for file, line, function in stack[:_MOST_FRAMES]]
    return shown + ([f"and {len(stack) - _MOST_FRAMES} more"] if len(stack) > _MOST_FRAMES else [])


def _short(file: str) -> str:
    return file if len(file) <= 60 else "..." + file[-57:]
