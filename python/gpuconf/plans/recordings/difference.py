# SPDX-License-Identifier: Apache-2.0
"""What grew, line by line: between the peaks of two traces, or between two moments of one."""

from __future__ import annotations

import html
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain

from ..._core.stacks import Frame, call_site, shown
from ..._core.table import human_bytes
from ..._typing import Any, NamedTuple
from ...memory._trace import Trace
from ...memory._usage import UNTAGGED
from ..pages.figures import over_events
from ..pages.frame import frame, table
from ..pages.history import History, by_event, histories

# Memory of one library and tag that one line holds at the peak: of the newer trace, or of the older one if the line is
# gone.
Site = tuple[str, str, "Frame | None"]
Sums = dict[Site, tuple[int, int]]  # bytes, blocks


class Change(NamedTuple):
    """What one line of a program holds at the peak, before and after."""

    library: str
    tag: str
    call_site: Frame | None
    bytes_before: int
    bytes_after: int
    blocks_before: int
    blocks_after: int

    @property
    def bytes_grown(self) -> int:
        """The growth in bytes; negative if it shrank."""
        return self.bytes_after - self.bytes_before

    @property
    def blocks_grown(self) -> int:
        """The growth in blocks."""
        return self.blocks_after - self.blocks_before

    @property
    def who(self) -> str:
        """The library and the tag."""
        return " ".join(filter(None, (self.library, self.tag or (UNTAGGED if self.library else ""))))

    @property
    def where(self) -> str:
        """The line, as ``model.py:88 (forward)``."""
        return "unknown line" if self.call_site is None else shown(self.call_site)

    def __str__(self) -> str:
        blocks = self.blocks_grown or self.blocks_after
        counted = f"{blocks:+,}" if self.blocks_grown else f"{blocks:,}"
        who = f" of {self.who}" if self.who else ""
        return f"{signed(self.bytes_grown)} at {self.where}, {counted} block{'' if abs(blocks) == 1 else 's'}{who}"


class Difference:
    """The difference between the peaks of one logical GPU, or between two ``moments``, in seconds since its first
    event.
    """

    def __init__(self, gpu: int, before: Sums, after: Sums, moments: tuple[float, float] | None = None) -> None:
        self.gpu = gpu
        self.moments = moments
        self.bytes_before: int = sum(size for size, _ in before.values())
        self.bytes_after: int = sum(size for size, _ in after.values())
        self.changes: list[Change] = _changes(before, after)  # those that grew most first, those that shrank most last

    @property
    def bytes_grown(self) -> int:
        """The growth in bytes."""
        return self.bytes_after - self.bytes_before

    def __str__(self) -> str:
        before, after = human_bytes(self.bytes_before), human_bytes(self.bytes_after)
        at = ("", "") if self.moments is None else tuple(f" at {decimal(moment)} s" for moment in self.moments)
        what = "peak " if self.moments is None else ""
        if not self.bytes_grown:
            return f"GPU:{self.gpu}: {what}{after}{at[1]}, as {at[0].strip() or 'before'}"
        percent = f", {100 * self.bytes_grown / self.bytes_before:+.1f}%" if self.bytes_before else ""
        return f"GPU:{self.gpu}: {what}{before}{at[0]} -> {after}{at[1]} ({signed(self.bytes_grown)}{percent})"

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON has, with sizes in bytes."""
        changes = [
            {**change._asdict(), "call_site": list(change.call_site) if change.call_site else None}
            for change in self.changes
        ]
        row = {"gpu": self.gpu, "bytes_before": self.bytes_before, "bytes_after": self.bytes_after, "changes": changes}
        return row if self.moments is None else {**row, "seconds": list(self.moments)}


def signed(count: int) -> str:
    """Return bytes with a sign.

    >>> signed(432013312), signed(-1024), signed(0)
    ('+412.00MiB', '-1.0KiB', '+0B')
    """
    return human_bytes(count) if count < 0 else f"+{human_bytes(count)}"


def difference(before: Trace, after: Trace) -> list[Difference]:
    """Compare the peaks of two traces, for each logical GPU that either has."""
    old, new = ({history.gpu: at_peak(history) for history in histories(trace)} for trace in (before, after))
    return [Difference(gpu, old.get(gpu, {}), new.get(gpu, {})) for gpu in sorted(old.keys() | new.keys())]


def decimal(seconds: float) -> str:
    """Return a time as ``--between`` takes it, without an exponent."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def between(trace: Trace, first: float, second: float) -> list[Difference]:
    """Compare what is live on each logical GPU of a trace after so many seconds, counted from the GPU's first event. A
    moment after the last event is the last event.
    """
    then, now = (live_at(trace, seconds) for seconds in (first, second))
    old, new = (
        {history.gpu: at_peak(history) for history in histories(trace, [*chain(*live.values())])}
        for _, live in (then, now)
    )
    return [Difference(gpu, old.get(gpu, {}), new.get(gpu, {}), (then[0][gpu], now[0][gpu])) for gpu in sorted(then[0])]


def live_at(trace: Trace, seconds: float) -> tuple[dict[int, float], dict[int, list[str]]]:
    """Return by GPU the moment, at most that of its last event, and the lines of a trace's CSV that allocate what is
    live then: they reach their peak at their end.
    """
    live: dict[str, dict[str, str]] = {}  # by GPU and address
    begun: dict[str, float] = {}
    passed: dict[str, float] = {}  # since then
    seen: set[tuple[str, str]] = set()
    for page in trace._pages:
        for line in page.splitlines():
            _, time, action, pointer, _, _, gpu, _ = line.split(",", 7)
            blocks = live.setdefault(gpu, {})
            passed[gpu] = float(time) - begun.setdefault(gpu, float(time))
            late = passed[gpu] > seconds
            if action == "allocate" and not late:
                blocks[pointer] = line
            elif action == "free" and (gpu, pointer) not in seen:
                # The trace does not say where it was allocated.
                blocks[pointer] = line.replace(",free,", ",allocate,", 1)
            if action == "free" and not late:
                blocks.pop(pointer, None)
            if action in ("allocate", "free"):
                seen.add((gpu, pointer))
    moments = {int(gpu): min(seconds, last) for gpu, last in passed.items()}
    return moments, {int(gpu): [f"{line}\n" for line in blocks.values()] for gpu, blocks in live.items()}


def at_peak(history: History, without: str = "") -> Sums:
    """Return what each line holds at the peak. Calls in files below ``without`` are left out."""
    sums: dict[Site, list[int]] = defaultdict(lambda: [0, 0])
    for block in history.blocks:
        library, tag = history.holders[block.allocation.holder]
        stack = block.allocation.stack
        if without:
            stack = tuple(frame for frame in stack if not frame[0].startswith(without))
        total = sums[library, tag, call_site(stack)]
        total[0] += block.nbytes
        total[1] += 1
    return {site: (size, blocks) for site, (size, blocks) in sums.items()}


def _changes(before: Sums, after: Sums) -> list[Change]:
    """Pair the lines of both.

    A line that has moved within its function, or whose folder is another, is the same line.
    """
    pairs: list[tuple[Site | None, Site | None]] = [(site, site) for site in after if site in before]
    gone, new = _by_function(before.keys() - after.keys()), _by_function(after.keys() - before.keys())
    for function in gone.keys() | new.keys():
        ours, theirs = new.get(function, []), gone.get(function, [])
        if len(ours) == len(theirs):
            pairs += zip(theirs, ours, strict=True)
        else:
            pairs += [(each, None) for each in theirs]
            pairs += [(None, each) for each in ours]
    changes = []
    for old, fresh in pairs:
        had, has = before.get(old, (0, 0)) if old else (0, 0), after.get(fresh, (0, 0)) if fresh else (0, 0)
        site = fresh or old
        if had != has and site is not None:
            changes.append(Change(*site, had[0], has[0], had[1], has[1]))
    return sorted(changes, key=lambda change: (-change.bytes_grown, -change.blocks_grown, change.where, change.who))


def _by_function(sites: Iterable[Site]) -> dict[tuple[str, ...], list[Site]]:
    groups: dict[tuple[str, ...], list[Site]] = defaultdict(list)
    for site in sorted(sites, key=str):
        library, tag, at = site
        key = (library, tag, *((os.path.basename(at[0]), at[2]) if at else ()))
        groups[key].append(site)
    for each in groups.values():
        each.sort(key=lambda site: site[2][1] if site[2] else 0)
    return groups


def lines(differences: Sequence[Difference], most: int) -> Iterable[str]:
    """Yield a report: for each GPU its peaks, the lines that grew or shrank most, and how many are left out."""
    for each in differences:
        yield str(each)
        for change in sorted(each.changes, key=lambda change: -abs(change.bytes_grown))[:most]:
            yield f"  {change}"
        if len(each.changes) > most:
            yield f"  and {len(each.changes) - most:,} more lines"
    if not differences:
        yield "neither trace has allocations"


def page(
    differences: Sequence[Difference], names: tuple[str, str], traces: Sequence[Trace] = (), library: str = ""
) -> str:
    """Return an HTML page with all lines, which can be opened without a network.

    With plotly's ``library``, it draws the memory of these traces above each other, to one scale.
    """
    drawn = [{one.gpu: over_events(one) for one in histories(trace, by_event(trace))} for trace in traces]
    figures: dict[str, Any] = {}
    head = ("call site", "library and tag", "growth", "before", "after", "blocks before", "blocks after")
    body = []
    for each in differences:
        rows = [
            (
                change.where,
                change.who,
                signed(change.bytes_grown),
                *map(human_bytes, (change.bytes_before, change.bytes_after)),
                *map("{:,}".format, (change.blocks_before, change.blocks_after)),
            )
            for change in each.changes
        ]
        body.append(f"<section><h2>{html.escape(str(each))}</h2>")
        of_gpu = [(name, of[each.gpu]) for name, of in zip(names, drawn, strict=False) if each.gpu in of]
        for number, (name, figure) in enumerate(of_gpu):
            highest = max((one["layout"]["yaxis"] for _, one in of_gpu), key=lambda axis: axis["range"][1])
            figure["layout"]["yaxis"] = highest
            figures[f"memory-{each.gpu}-{number}"] = figure
            at = f'class="figure" id="memory-{each.gpu}-{number}" style="height:300px"'
            body.append(f"<h3>{html.escape(name)}</h3><div {at}></div>")
        body += [table(head, rows, 2) if rows else "", "</section>"]
    return frame(
        "memory difference",
        f"{names[0]} -> {names[1]}",
        "".join(body) or "<p>Neither trace has allocations.</p>",
        figures,
        library,
    )
