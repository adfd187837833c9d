"""Sequences of configuration calls on TensorFlow and on gpuconf, compared call by call."""

import random
from typing import NamedTuple

from . import excuses
from .calls import Calls
from .machine import Side
from .outcomes import Outcome, Tally, agree, outcome


class Difference(NamedTuple):
    """A sequence with different results."""

    gpus: int
    calls: list[str]  # the last one differs
    theirs: Outcome
    ours: Outcome
    excuse: str | None


class Checked(NamedTuple):
    """The results of a sequence: the number of equal calls, and the difference that ended it, if any."""

    equal: int
    difference: Difference | None


def play(theirs: Side, ours: Side, gpus: int, calls: list[str]) -> Checked:
    """Make the calls on fresh machines, up to the first that differs: after it the two sides are in different
    states.
    """
    theirs.fresh(gpus)
    ours.fresh(gpus)
    for i, call in enumerate(calls):
        a, b = outcome(theirs, call), outcome(ours, call)
        if not agree(a, b):
            done = calls[: i + 1]
            return Checked(
                i, Difference(gpus, done, a, b, excuses.find(excuses.Found(done, a, b, excuses.asking(theirs), gpus)))
            )
    return Checked(len(calls), None)


def shrink(theirs: Side, ours: Side, found: Difference) -> Difference:
    """Leave out calls and GPUs while the rest still shows an unexplained difference in the last call."""
    smaller = True
    while smaller:
        smaller = False
        candidates = [(found.gpus, found.calls[:i] + found.calls[i + 1 :]) for i in range(len(found.calls) - 1)]
        candidates += [(gpus, found.calls) for gpus in range(found.gpus)]
        for gpus, calls in candidates:
            difference = play(theirs, ours, gpus, calls).difference
            if difference is not None and difference.excuse is None and difference.calls[-1] == found.calls[-1]:
                found, smaller = difference, True
                break
    return found


def run(theirs: Side, ours: Side, seed: int, wanted: int, tally: Tally) -> None:
    """Compare at least this many calls."""
    number = 0
    while tally.compared < wanted:
        draw = random.Random(f"{seed}:{number}")
        number += 1
        gpus = draw.choice([0, 1, 1, 2, 2, 2, 3, 4])
        checked = play(theirs, ours, gpus, Calls(draw, gpus).sequence())
        tally.equal(checked.equal)
        difference = checked.difference
        if difference is None:
            continue
        if difference.excuse is not None:
            tally.excused(difference.excuse)
            continue
        small = shrink(theirs, ours, difference)
        tally.different(
            f"{small.calls[-1].split('(')[0]}: {small.theirs.error or 'value'} / {small.ours.error[:1] or 'value'}",
            [
                f"sequence {number - 1} of seed {seed}, {small.gpus} GPUs",
                *(f"    {call}" for call in small.calls),
                f"  TensorFlow: {small.theirs}",
                f"  gpuconf:    {small.ours}",
            ],
        )
