# SPDX-License-Identifier: Apache-2.0
"""``gpuconf plan --gpu CARDS -- PROGRAM``: run a program on simulated GPUs, and say which cards hold it."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Sequence

from .. import errors
from ..jobs.execute import ProgramError
from ..machine import cards
from ..plans.pages import report
from ..plans.programs import largest
from ..plans.programs.answer import SCHEMA, Rehearsal
from ..plans.programs.cover import UNPROTECTED, WRITES
from ..plans.programs.cover import Options as Allowed
from ..plans.programs.needs import FITS
from . import console
from . import run as run_command
from .console import DOES_NOT_FIT, ERROR, INTERRUPTED, OK, CheckingUsage, Progress, UsageError
from .parser import Options

DEPENDS = 4
_SECONDS = 120.0


def refuse(options: Options) -> None:
    """Refuse the options of programs for a trace."""
    needing = (
        "steps seconds values record largest keep writes socket beside "
        "all cpu_values longest compile smallest_card network unprotected help_fit"
    )
    options.refuse(needing, "{} needs a program: gpuconf plan --gpu CARDS -- PROGRAM")


def run(options: Options) -> int:
    """Rehearse the program, and print the answer."""
    remedy = "cannot be used with a program: leave it or the program out"
    if options.largest is not None and options.trace is not None and "=" in options.trace:
        raise UsageError(f"write --largest before each range: --largest {options.trace}")
    options.refuse("trace", f"the trace {options.trace} {remedy}")
    options.refuse("plot", "{} draws a recording: use --html, or --record and gpuconf plan with that file")
    options.refuse("limit policy message fleet reserve dask", f"{{}} {remedy}")
    options.refuse("verify phases", "{} cannot be used with a program")
    if options.compile and options.values == "cpu":
        raise UsageError(
            "--compile cannot be used with --values cpu, which computes no kernel that torch.compile makes"
        )
    if options.all and options.steps is not None:
        raise UsageError("--all cannot be used with --steps, which ends the program")
    if options.gpu is None:
        options.gpu = _cards_here()
    words = run_command.words_of(options.program)
    if len(words) == 1 and words[0].endswith((".csv", ".pickle", ".pkl")) and os.path.isfile(words[0]):
        raise UsageError(f"{words[0]!r} is a recording: leave out the --, as in gpuconf plan {words[0]}")
    if options.html is not None:
        with CheckingUsage("--html: "):
            report.plotly_script(options.html)  # if it is missing, the rest would be in vain
    if options.largest is not None:
        return _largest(options, words)
    answer = _rehearsed(options, words)
    if options.json:
        print(json.dumps(answer.to_dict(), indent=2))
    elif answer.processes:
        print(answer)
    else:
        console.complain(f"gpuconf plan: {answer.why_no_verdict}")
    if options.smallest_card and not options.json and answer.cards:
        print(_smallest(answer))
    return _code(answer)


def _cards_here() -> str:
    """The models of this machine's cards, for a program without --gpu."""
    products = {model.product: model.name for model in cards.models()}
    here = cards.survey().cards
    known = dict.fromkeys(products[card.name] for card in here if card.name in products)
    if not known:
        other = f"; no simulated model is {here[0].name!r}" if here else ", and this machine has none"
        raise UsageError(f"--gpu is missing: name the cards, such as --gpu L4,A10,A100-40GB{other}")
    return ",".join(known)


def _smallest(answer: Rehearsal) -> str:
    fitting = [one for one in answer.cards if one["verdict"] == FITS]
    if not fitting:
        return "smallest card: none of these surely holds the program"
    best = min(fitting, key=lambda one: one["usable_low"])
    setting = "" if best["setting"] == "default" else f" with PYTORCH_CUDA_ALLOC_CONF={best['setting']}:True"
    return f"smallest card: {best['card']}{setting}"


def _largest(options: Options, words: list[str]) -> int:
    options.refuse("record html smallest_card keep", "{} cannot be used with --largest")
    if options.help_fit and len(options.largest) > 1:
        raise UsageError("--help-fit can be used with one --largest only: that of the batch")
    with CheckingUsage("--largest: "):
        ranges = largest.parse_all(options.largest, words)
    asked = ranges[0]
    options.progress = Progress("gpuconf plan")  # one for all, so that a pipe has a line for each try
    searches = []
    for values in largest.combinations(ranges):
        search = largest.Search(asked, _rehearsing(options, words, asked.name, values))
        searches.append((values, search.run(), search))
        if search.interrupted:
            break
    results = [one for _, some, _ in searches for one in some]
    accumulated = _accumulated(options, words, asked, results) if options.help_fit and not search.interrupted else []
    if options.json:
        parts = [
            {"values": values, **largest.to_dict(asked, some, search.answers)} for values, some, search in searches
        ]
        for part in parts if options.help_fit else ():
            part["accumulated"] = [
                {**one.to_dict(), "batches": count} for one, count in largest.batches(asked, accumulated)
            ]
        print(json.dumps(parts[0] if len(ranges) == 1 else {"schema": SCHEMA, "searches": parts}, indent=2))
    elif len(ranges) > 1 and results:
        print(*largest.table_of_all(ranges, [(values, some) for values, some, _ in searches]), sep="\n")
    elif results:
        print(*largest.table(asked, results, searches[0][2].answers), sep="\n")
        print(*largest.accumulated(asked, accumulated), sep="\n", end="\n" * bool(accumulated))
    else:
        first = searches[0][2].answer(asked.low)
        console.complain(f"gpuconf plan: {asked.name}={asked.low}: {first.why_no_verdict or 'interrupted'}")
    if search.interrupted:
        return INTERRUPTED
    if not results:
        return _code(searches[0][2].answer(asked.low)) or ERROR
    return OK if any(one.largest is not None for one in results) else DOES_NOT_FIT


def _accumulated(
    options: Options, words: list[str], asked: largest.Range, results: Sequence[largest.Found]
) -> list[largest.Found]:
    """Search once more, with gradients that stay for several batches, up to what fits without."""
    smaller = [one.largest for one in results if one.largest and one.largest < asked.high]
    if not smaller:
        return []
    from ..plans.programs.records import ACCUMULATE

    options.change = ACCUMULATE
    search = largest.Search(asked._replace(high=max(smaller)), _rehearsing(options, words, asked.name, {}))
    return search.run()


def _rehearsing(options: Options, words: list[str], name: str, values: dict[str, int]) -> Callable[[int], Rehearsal]:
    """Return what rehearses the command with a number for a name, and these for others."""
    for other, number in values.items():
        words = largest.substituted(words, other, number)
    tries: list[int] = []

    def rehearse(value: int) -> Rehearsal:
        tries.append(value)
        with_others = ", ".join(f"{other}={number}" for other, number in {name: value, **values}.items())
        return _rehearsed(options, largest.substituted(words, name, value), f"try {len(tries)}, {with_others}: ")

    return rehearse


def _code(answer: Rehearsal) -> int:
    if answer.ran["ended"] == "interrupted" and not answer.processes:
        return INTERRUPTED
    if not answer.processes or (answer.ran["status"] and answer.why_no_verdict):
        return ERROR
    return {True: OK, False: DOES_NOT_FIT, None: DEPENDS}[answer.fits]


def _options(options: Options) -> Allowed:
    """Return what the program's cover lets through."""
    if options.keep is not None and os.path.exists(options.keep):
        raise UsageError(f"--keep {options.keep}: it exists already: name a new folder")
    for path in options.socket or ():
        if not (os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode)):
            raise UsageError(f"--socket {path}: no socket is there")
    return Allowed(
        network=options.network,
        writes=options.writes or WRITES,
        sockets=tuple(os.path.realpath(path) for path in options.socket or ()),
        only=UNPROTECTED if options.unprotected else "",
    )


def _rehearsed(options: Options, words: list[str], start: str = "") -> Rehearsal:
    from ..leases.contexts import of_command
    from ..plans.programs.needs import parse
    from ..plans.programs.records import Request
    from ..plans.programs.rehearse import Asked, rehearse

    try:
        cards = parse(options.gpu)
    except errors.InvalidArgumentError as error:
        if re.fullmatch(r"\d+ ?[KMGT]i?B", options.gpu):
            text = (
                f"--gpu names cards, such as L4 or A10, and {options.gpu} is a size: a card with that memory is "
                f"T4:{options.gpu}"
            )
            raise UsageError(text) from None
        raise UsageError(f"--gpu: {error}") from None
    if options.beside:
        with CheckingUsage("--beside: "):
            cards = [card.beside(options.beside) for card in cards]
    gpus = max(*(card.count for card in cards), of_command(words, 1, {}))
    with vars(options).get("progress") or Progress("gpuconf plan") as progress:
        asked = Asked(
            words,
            cards,
            gpus=gpus,
            request=Request(
                steps=options.steps,
                seconds=options.seconds or (None if options.all else _SECONDS),
                cuts=not options.all,
                longest=options.longest,
                until_repeated=options.largest is not None,
                cpu_values=options.cpu_values or options.values == "cpu",
                computes=options.values == "cpu",
                compiles=options.compile,
                helps=options.help_fit,
                change=vars(options).get("change", ""),
            ),
            record=options.record,
            html=options.html,
            options=_options(options),
            keep=options.keep,
            changes=options.largest is None,  # a search is for the program as it is
            progress=lambda what: progress.show(start + what),
            heading=lambda what: progress.say(start + what),
        )
        try:
            return rehearse(asked)
        except OSError as error:
            if error.filename == words[0]:
                raise ProgramError(words[0], error) from None
            raise
