# SPDX-License-Identifier: Apache-2.0
"""The answer of a rehearsal, as text of 80 columns and as plain values."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from ..._core.table import Made, Printed, columns, counted, human_bytes, human_limit
from ..._typing import Any
from .needs import DEPENDS, DOES_NOT_FIT, FITS, SETTINGS

SCHEMA = 1
WIDTH = 80


class Rehearsal(Printed, metaclass=Made):
    """What a program needs of a GPU, found by running it on a simulated one. ``print`` shows it.

    Attributes: ``ran``, what ran and why it ended; ``processes``, the peak of each process on each GPU and what it is
    made of, for the first group of cards that PyTorch treats alike; ``cards``, a verdict for each card and setting of
    PyTorch's allocator;
    ``unseen``, what the program may do that was not seen, because of which no card surely holds it;
    ``helps``, the settings and changes that were tried, and what they save; ``remedies``, the changes of ``--help-fit``
    that gain a card, with the lines to write, None if none was tried; ``tried``, those that gain none;
    ``functions``, what the compiled functions of a JAX program need; ``why_no_verdict``, "" if there is one.
    Sizes are in bytes. :meth:`to_dict` has the same under the same names.
    """

    __module__ = "gpuconf"

    _made_by = "use gpuconf.plan(command=[...])"

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        self.command: list[str] = fields["command"]
        self.ran: dict[str, Any] = fields["ran"]
        self.processes: list[dict[str, Any]] = fields["processes"]
        self.cards: list[dict[str, Any]] = fields["cards"]
        self.beside: list[dict[str, Any]] = fields["beside"]
        self.unseen: list[str] = fields["unseen"]
        self.helps: list[dict[str, Any]] = fields["helps"]
        self.remedies: list[dict[str, Any]] | None = fields["remedies"]
        self.tried: list[dict[str, Any]] = fields["tried"]
        self.functions: list[dict[str, Any]] = fields["functions"]
        self.why_no_verdict: str = fields["why_no_verdict"]

    @property
    def peak_allocated(self) -> int:
        """The most that PyTorch had allocated on one GPU for one process, in bytes; 0 if nothing was allocated."""
        return max((one["allocated"] for one in self.processes), default=0)

    @property
    def peak_reserved(self) -> int:
        """The most that PyTorch had reserved on one GPU for one process, in bytes, with its default settings.

        0 if nothing was.
        """
        return max((one["reserved"] for one in self.processes), default=0)

    @property
    def fitting(self) -> tuple[str, ...]:
        """The cards that hold the program under at least one setting, in the order in which they were given."""
        return tuple(dict.fromkeys(one["card"] for one in self.cards if one["verdict"] == FITS))

    @property
    def fits(self) -> bool | None:
        """Whether a card holds the program; None if it depends, or if there is no verdict."""
        if any(one["verdict"] == FITS for one in self.cards):
            return True
        known = [one["verdict"] for one in self.cards]
        return False if known and all(one == DOES_NOT_FIT for one in known) else None

    def to_dict(self) -> dict[str, Any]:
        """Return everything, as ``gpuconf plan --json -- PROGRAM`` prints it. Sizes are in bytes."""
        return {"schema": SCHEMA, **self._fields}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return f"<gpuconf.Rehearsal: {human_bytes(self.peak_allocated)} allocated, fits: {self.fits}>"

    def _lines(self) -> Iterator[str]:
        yield from wrapped("cover: ", self._fields["cover"])
        yield from wrapped("ran: ", _ran(self.ran))
        for note in self._fields["notes"]:
            yield from wrapped("note: ", note)
        if self.processes:
            yield ""
            yield from self._peaks()
        if self.cards:
            yield ""
            yield from self._table()
        for one in self.helps:
            yield from wrapped("helps: ", _help(one))
        if self.remedies is not None:
            yield from self._remedies()
        for note in self._fields["outputs"]:
            yield from wrapped("", note)
        for text in self.unseen:
            yield from wrapped("not seen: ", text)
        yield from wrapped("", self.verdict())

    def verdict(self) -> str:
        """Return the last line of the text."""
        if self.why_no_verdict:
            return f"no verdict: {self.why_no_verdict}"
        if not self.cards:
            return "no cards: name them with --gpu"
        by_verdict: dict[str, list[str]] = {}
        for card in dict.fromkeys(one["card"] for one in self.cards):
            found = {one["verdict"] for one in self.cards if one["card"] == card}
            best = next(one for one in (FITS, DEPENDS, DOES_NOT_FIT) if one in found)
            by_verdict.setdefault(best, []).append(card)
        names = {FITS: "fits on", DEPENDS: "depends on", DOES_NOT_FIT: "does not fit on"}
        return "; ".join(f"{names[one]} {', '.join(by_verdict[one])}" for one in names if one in by_verdict)

    def _peaks(self) -> Iterator[str]:
        most = max(self.processes, key=lambda one: one["allocated"])
        if len(self.processes) > 1:
            yield from columns(
                [("process", "GPU", "allocated", "reserved"), *map(_process, self.processes[:16])], left=2
            )
            if len(self.processes) > 16:
                yield f"and {len(self.processes) - 16} more"
            yield ""
        reserved = human_bytes(most["reserved"])
        needs = f"JAX's allocator needs {reserved} for it" if self.ran["jax"] else f"{reserved} reserved by PyTorch"
        first, *others = self._fields["groups"]
        on = f" on {', '.join(first['cards'])}" if others else ""
        yield from wrapped(f"peak{on}: ", f"{human_bytes(most['allocated'])} allocated, {needs}")
        rows = [(f"  {part}", human_bytes(size)) for part, size in most["parts"].items()]
        yield from columns(rows, left=1) if rows else ()
        if most["lines"]:
            yield "lines that hold most of it:"
            yield from (f"  {line}" for line in most["lines"])
        if most.get("host"):
            pinned = f", {human_bytes(most['pinned'])} of it pinned" if most["pinned"] >= 1 << 20 else ""
            yield f"the process's own memory: {human_bytes(most['host'])}{pinned}"
        for one in others:
            figures = f"{human_bytes(one['allocated'])} allocated, {human_bytes(one['reserved'])} reserved"
            yield from wrapped(f"peak on {', '.join(one['cards'])}: ", figures)
        if self.functions:
            yield ""
            yield from self._functions()

    def _functions(self) -> Iterator[str]:
        rows = [("compiled function", "calls", "peak", "arguments", "outputs", "temporary")]
        for one in self.functions:
            name = one["name"] if len(one["name"]) <= 24 else one["name"][:23] + "…"
            outputs = one["outputs"] - one["aliased"]
            rows.append(
                (name, str(one["calls"]), *map(human_bytes, (one["peak"], one["arguments"], outputs, one["temporary"])))
            )
        yield from columns(rows, left=1)
        if len({one["gpus"] for one in self.functions} | {1}) > 1:
            yield "on each GPU"

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table of cards, its head first."""
        settings = settings_of(self.cards)
        rows = [("card", "JAX's share" if self.ran["jax"] else "memory", *(_heading(name) for name in settings))]
        for card in dict.fromkeys(one["card"] for one in self.cards):
            of_card = {one["setting"]: one for one in self.cards if one["card"] == card}
            first = next(iter(of_card.values()))
            cells = [_cell(of_card[name]) if name in of_card else "-" for name in settings]
            rows.append((card, _range(first["usable_low"], first["usable_high"]), *cells))
        return rows

    def _table(self) -> Iterator[str]:
        rows = self.rows()
        yield from columns(rows, left=len(rows[0]))
        reserved_by = {card: group["reserved"] for group in self._fields["groups"] for card in group["cards"]}
        for one in self.cards:
            fills = reserved_by[one["card"]] > one["usable_low"]
            if one["setting"] == "default" and fills and 0 < one["reserved"] < reserved_by[one["card"]]:
                reserved = _range(one["reserved_low"], one["reserved_high"])
                yield from wrapped("", f"on {one['card']}, which it fills, PyTorch reserves {reserved}")
        yield ""
        yield "besides JAX's share of the card:" if self.ran["jax"] else "included above, besides PyTorch's allocator:"
        for one in self.beside:
            yield from wrapped("  ", f"{one['what']}: {_range(one['low'], one['high'])} ({one['source']})", "    ")
        for path in self._fields["paths"]:
            yield from wrapped("  ", path, "    ")

    def _remedies(self) -> Iterator[str]:
        assert self.remedies is not None
        yield ""
        if not self.remedies:
            yield "no change that was tried makes another card hold it"
        else:
            seen = ", as far as was seen" if self.unseen else ""
            rows = [("change", "saves", "allocated", "reserved", f"then fits on{seen}")]
            for number, one in enumerate(self.remedies, 1):
                saves, allocated, reserved = (human_bytes(one[name]) for name in ("saves", "allocated", "reserved"))
                rows.append((str(number), saves, allocated, reserved, ", ".join(one["gains"])))
            yield from columns(rows, left=1)
        for number, one in enumerate(self.remedies, 1):
            yield from wrapped(f"change {number}: ", one["title"])
            yield from (f"    {line}" for line in one["write"])
        for one in self.tried:
            what = one["why"] or (f"saves {human_bytes(one['saves'])}" if one["saves"] > 0 else "saves nothing")
            yield from wrapped("gains no card: ", f"{one['title']} ({what})")
        yield ""


def _heading(setting: str) -> str:
    return f"{'needs with defaults' if setting == 'default' else setting}, GiB"


def wrapped(start: str, text: str, further: str = "  ") -> Iterable[str]:
    """Return lines of at most 80 columns."""
    return textwrap.wrap(start + text, WIDTH, initial_indent="", subsequent_indent=further, break_on_hyphens=False) or [
        start
    ]


def _range(low: int, high: int) -> str:
    a, b = f"{low / (1 << 30):.2f}", f"{high / (1 << 30):.2f}"
    return f"{a}GiB" if a == b else f"{a}-{b}GiB"


def settings_of(cards: Iterable[dict[str, Any]]) -> list[str]:
    """Return the allocator's settings: PyTorch's, or those of JAX if the cards were compared with these."""
    found = list(dict.fromkeys(one["setting"] for one in cards))
    return list(SETTINGS) if set(found) <= set(SETTINGS) else found


def _cell(one: dict[str, Any]) -> str:
    return f"{one['verdict']:<13}{_range(one['needs_low'], one['needs_high']).removesuffix('GiB')}"


def _process(one: dict[str, Any]) -> tuple[str, ...]:
    name = f"rank {one['rank']}" if one["rank"] is not None else f"PID {one['pid']}"
    return name, str(one["gpu"]), human_bytes(one["allocated"]), human_bytes(one["reserved"])


def _help(one: dict[str, Any]) -> str:
    return (
        f"{one['setting']} saves {human_bytes(one['saves'])}: the allocator needs {human_limit(one['least'])} "
        f"({one['how']})"
    )


def _ran(ran: dict[str, Any]) -> str:
    steps = ran["optimizer_steps"]
    if ran["jax"]:
        calls = (
            f"{counted(ran['calls'], 'call')} of compiled functions"
            if ran["calls"]
            else "single operations, no compiled function"
        )
        return f"{counted(steps, 'step') if steps else calls}; {_ended(ran)}"
    what = (
        counted(steps, "step")
        if steps
        else counted(ran["evaluations"] + ran["forwards"], "forward pass", "forward passes")
    )
    parts = [what + (f", batches of {ran['batch']}" if ran["batch"] else "")]
    if steps:
        evaluations, files = ran["evaluations"], ran["saved"]
        parts.append(counted(evaluations, "evaluation pass", "evaluation passes") if evaluations else "")
        parts.append(counted(files, "saved checkpoint") if files else "nothing saved" if evaluations else "")
        parts.append("" if evaluations or files else "nothing evaluated or saved")
    elif ran["saved"]:
        parts.append(counted(ran["saved"], "saved checkpoint"))
    parts += [
        f"the loop at {one['place']} was cut short: {one['iterations']} of {one['of'] or 'its'} rounds"
        for one in ran["cut"]
    ]
    if ran["compiled"]:
        parts.append("torch.compile ran eagerly (see --compile)" if ran["eager"] else "torch.compile compiled")
    if ran["ended"] != "block":
        parts.append(_ended(ran))
    return "; ".join(filter(None, parts))


def _ended(ran: dict[str, Any]) -> str:
    after = f"after {ran['seconds']:.0f} s"
    return f"stopped {after}: the steps repeat" if ran["ended"] == "repeated" else f"{_WHY[ran['ended']]} {after}"


_WHY = {
    "steps": "stopped by --steps",
    "seconds": "stopped by --seconds",
    "interrupted": "interrupted",
    "program": "the program ended",
    "full": "ended because its recording was full",
}
