# SPDX-License-Identifier: Apache-2.0
"""The largest number in a command with which each card holds the program: a search that rehearses each number once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product

from ... import errors
from ..._core import texts
from ..._core.table import Table, columns, human_bytes, human_limit
from ..._typing import Any, NamedTuple
from .answer import SCHEMA, Rehearsal, settings_of
from .needs import FITS

_COMBINATIONS = 32
_UNSEEN = "what comes after the steps that repeat, such as a validation"
_GUESSES = 8  # afterwards each try halves the range


class Range(NamedTuple):
    """A name in the command, and the numbers that it may become."""

    name: str
    low: int
    high: int


class Found(Table):
    """The largest number for one card and setting of the allocator.

    ``needs`` is at most, and ``usable`` at least, in bytes.
    """

    card: str
    setting: str
    largest: int | None  # None if not even the smallest fits
    needs: int
    usable: int
    untried: int | None = None  # the largest number that may fit, too, if the search was interrupted


class _InterruptedError(Exception):
    """A try was interrupted, which says nothing of its number."""


def parse(text: str) -> Range:
    """Return the range of ``BATCH=1..512``. Raises InvalidArgumentError for another text."""
    match = re.fullmatch(r"([A-Za-z_]\w*)=(\d+)\.\.(\d+)", text)
    if match is None:
        form = "write NAME=LOW..HIGH, such as BATCH=1..512"
        raise errors.InvalidArgumentError(f"{texts.shown(text)} is no range: {form}")
    name, low, high = match[1], int(match[2]), int(match[3])
    if low > high:
        raise errors.InvalidArgumentError(
            f"{texts.shown(text)} is empty: the lowest number comes first, as in {name}={high}..{low}"
        )
    return Range(name, low, high)


def parse_all(texts_of: Iterable[str], words: Sequence[str]) -> list[Range]:
    """Return several ranges for a command.

    Raises InvalidArgumentError for invalid ones, and for too many combinations.
    """
    asked = [parse(text) for text in texts_of]
    names = [one.name for one in asked]
    for one in asked:
        if names.count(one.name) > 1:
            raise errors.InvalidArgumentError(f"{one.name} has two ranges")
        substituted(words, one.name, one.low)
    count = len(combinations(asked))
    if count > _COMBINATIONS:
        others = ", ".join(names[1:])
        raise errors.InvalidArgumentError(
            f"{others} have {count} combinations by doubling; at most {_COMBINATIONS} are tried"
        )
    return asked


def combinations(asked: Sequence[Range]) -> list[dict[str, int]]:
    """Return the numbers of all ranges but the first, each doubled from its lowest to its highest."""
    values = []
    for one in asked[1:]:
        steps = [one.low]
        while steps[-1] < one.high:
            steps.append(min(max(2 * steps[-1], 1), one.high))
        values.append(steps)
    return [dict(zip([one.name for one in asked[1:]], numbers, strict=True)) for numbers in product(*values)]


def substituted(words: Sequence[str], name: str, value: int) -> list[str]:
    """Return the words with the number in place of ``{NAME}``. Raises InvalidArgumentError if none of them has it."""
    place = f"{{{name}}}"
    if not any(place in word for word in words):
        raise errors.InvalidArgumentError(f"the command has no {place}: put it where the number belongs")
    return [word.replace(place, str(value)) for word in words]


class Search:
    """A search for all cards at once. ``rehearse`` is called with a number, at most once for each."""

    def __init__(self, asked: Range, rehearse: Callable[[int], Rehearsal]) -> None:
        self.asked = asked
        self._rehearse = rehearse
        self.answers: dict[int, Rehearsal] = {}
        self.interrupted = False

    def answer(self, value: int) -> Rehearsal:
        """Return what is known with a number."""
        if value not in self.answers:
            one = self._rehearse(value)
            self.interrupted = one.ran["ended"] == "interrupted"
            if self.interrupted and self.answers:
                raise _InterruptedError
            self.answers[value] = one
        return self.answers[value]

    def _verdict(self, value: int, card: str, setting: str) -> dict[str, Any] | None:
        rows = self.answer(value).cards
        return next((one for one in rows if (one["card"], one["setting"]) == (card, setting)), None)

    def largest(self, card: str, setting: str) -> Found:
        """Search for one card. What a program needs grows with the number, nearly always in proportion."""
        low, high = self.asked.low, self.asked.high
        first = self._verdict(low, card, setting)
        if first is None:
            return Found(card, setting, None, 0, 0)
        if first["verdict"] != FITS:
            return Found(card, setting, None, first["needs_high"], first["usable_low"])
        best, last = first, self._verdict(high, card, setting)
        if last is not None and last["verdict"] == FITS:
            return Found(card, setting, high, last["needs_high"], last["usable_low"])
        tries, fitted = 0, True
        while high - low > _grain(low):
            middle = (low + high) // 2
            if tries < _GUESSES and tries % 2 == 0:
                middle = _guess(low, best, high, last)
            elif tries < _GUESSES:  # next to the last guess, which is nearly right
                middle = low + _grain(low) if fitted else high - _grain(low)
            one = self._verdict(middle, card, setting)
            fitted = one is not None and one["verdict"] == FITS
            if one is not None and fitted:
                low, best = middle, one
            else:
                high, last = middle, one
            tries += 1
        return Found(card, setting, low, best["needs_high"], best["usable_low"])

    def run(self) -> list[Found]:
        """Search for all cards. Stops at a program of which nothing is known with the smallest number."""
        cards = dict.fromkeys((one["card"], one["setting"]) for one in self.answer(self.asked.low).cards)
        if self.interrupted:
            return []
        try:
            return [self.largest(*one) for one in cards]
        except _InterruptedError:
            return [self._known(*one) for one in cards]

    def _known(self, card: str, setting: str) -> Found:
        """Return what the tries so far say of one card."""
        rows = {value: self._verdict(value, card, setting) for value in sorted(self.answers)}
        fits = {value: row for value, row in rows.items() if row is not None and row["verdict"] == FITS}
        if not fits:
            return self.largest(card, setting)  # the smallest number is too large
        best = max(fits)
        beyond = min((value for value in rows if value > best), default=self.asked.high + 1)
        untried = beyond - 1 if beyond - best > _grain(best) else None
        return Found(card, setting, best, fits[best]["needs_high"], fits[best]["usable_low"], untried)


def _grain(value: int) -> int:
    """Return how far apart two numbers may be in the end: 1, or 1 % of large ones."""
    return max(1, value // 100)


def _guess(low: int, fits: dict[str, Any], high: int, fails: dict[str, Any] | None) -> int:
    """Return the number between two others that needs just what the card has, if needs grow in proportion; else the
    middle.
    """
    if fails is None or fails["needs_high"] <= fits["needs_high"]:
        return (low + high) // 2
    part = (fits["usable_low"] - fits["needs_high"]) / (fails["needs_high"] - fits["needs_high"])
    return min(max(low + int(part * (high - low)), low + 1), high - 1)


def table(asked: Range, results: Sequence[Found], answers: dict[int, Rehearsal]) -> list[str]:
    """Return the result as lines."""
    settings = settings_of({"setting": one.setting} for one in results)
    rows = [("card", *settings)]
    for card in dict.fromkeys(one.card for one in results):
        of_card = {one.setting: one for one in results if one.card == card}
        rows.append((card, *(_cell(asked, of_card.get(setting)) for setting in settings)))
    lines = [f"the largest {asked.name} from {asked.low} to {asked.high} that fits:", "", *columns(rows, left=3), ""]
    tried = sorted(answers.items())
    lines += columns([(asked.name, "allocated", "reserved"), *(_tried(*one) for one in tried)], left=0)
    lines += [f"{asked.name}={value}: {one.why_no_verdict}" for value, one in tried if one.why_no_verdict]
    return lines + [f"not seen: {text}" for text in _unseen(answers)]


def accumulated(asked: Range, results: Sequence[Found]) -> list[str]:
    """Return how to train with the highest number where only smaller ones fit: with gradients of several batches."""
    rows = [("card", "setting", "batches", f"of {asked.name}")]
    rows += [(one.card, one.setting, str(count), str(one.largest)) for one, count in batches(asked, results)]
    if len(rows) == 1:
        return []
    return [
        "",
        f"gradients of several batches, as with {asked.name}={asked.high}, fit:",
        "",
        *columns(rows, left=2),
        "with N batches write, or TrainingArguments(gradient_accumulation_steps=N), or",
        "Lightning's Trainer(accumulate_grad_batches=N):",
        "    (loss / N).backward()",
        "    if (step + 1) % N == 0:",
        "        optimizer.step()",
        "        optimizer.zero_grad()",
    ]


def batches(asked: Range, results: Sequence[Found]) -> list[tuple[Found, int]]:
    """Return how many batches of the largest size that fits make one of the highest."""
    fitting = [(one, one.largest) for one in results if one.largest]
    return [(one, -(-asked.high // size)) for one, size in fitting if size < asked.high]


def _unseen(answers: Mapping[int, Rehearsal]) -> list[str]:
    """Return what was not seen of the program with some number."""
    return list(dict.fromkeys([_UNSEEN, *(text for one in answers.values() for text in one.unseen)]))


def _cell(asked: Range, one: Found | None) -> str:
    if one is None:
        return "-"
    if one.largest is None:
        return f"none: {asked.low} needs up to {human_limit(one.needs)}" if one.needs else "none"
    if one.untried is not None:
        return f"{one.largest} or more, up to {one.untried}: interrupted"
    return f"{one.largest}  (up to {human_limit(one.needs)} of {human_bytes(one.usable)})"


def _tried(value: int, one: Rehearsal) -> tuple[str, ...]:
    return str(value), human_bytes(one.peak_allocated), human_bytes(one.peak_reserved)


def to_dict(asked: Range, results: Sequence[Found], answers: dict[int, Rehearsal]) -> dict[str, Any]:
    """Return the result as plain values."""
    return {
        "schema": SCHEMA,
        "name": asked.name,
        "low": asked.low,
        "high": asked.high,
        "largest": [one.to_dict() for one in results],
        "unseen": _unseen(answers),
        "tried": [{"value": value, **one.to_dict()} for value, one in sorted(answers.items())],
    }


def table_of_all(asked: Sequence[Range], searches: Sequence[tuple[Mapping[str, int], Sequence[Found]]]) -> list[str]:
    """Return the results of searches with other numbers as lines: a row for each combination and card."""
    first = asked[0]
    settings = settings_of({"setting": one.setting} for _, results in searches for one in results)
    rows: list[tuple[str, ...]] = [(*(one.name for one in asked[1:]), "card", *settings)]
    for values, results in searches:
        start = tuple(map(str, values.values()))
        for card in dict.fromkeys(one.card for one in results):
            of_card = {one.setting: one.largest for one in results if one.card == card}
            cells = ["-" if setting not in of_card else str(of_card[setting] or "none") for setting in settings]
            rows.append((*start, card, *cells))
        if not results:
            rows.append((*start, "nothing is known", *("" for _ in settings)))
    head = f"the largest {first.name} from {first.low} to {first.high} that fits:"
    return [head, "", *columns(rows, left=len(asked)), "", f"not seen: {_UNSEEN}"]
