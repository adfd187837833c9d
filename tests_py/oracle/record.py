"""Sequences of calls with TensorFlow's results, so that ``make test`` can check gpuconf without TensorFlow."""

import json
import random

from recordings import Recording

from . import placement, strings
from .calls import Calls
from .machine import Side
from .outcomes import Outcome, agree, expected_start, outcome

FILE = Recording("tensorflow/recorded.json")
SEED = 20
_SEQUENCES, _STRINGS, _GRAPHS = 200, 600, 120


def write(theirs: Side, ours: Side, version: str) -> int:
    """Record what both sides agree on. Returns the number of calls."""
    draw = random.Random(SEED)
    sequences = [
        _played(theirs, ours, gpus, Calls(draw, gpus).sequence()) for gpus in draw.choices([0, 1, 2, 3], k=_SEQUENCES)
    ]
    by_machine: dict[int, list[str]] = {}
    for _ in range(_STRINGS):
        text = strings.draw_string(draw)
        by_machine.setdefault(draw.choice([1, 2]), []).extend(
            [
                f"experimental.get_memory_info({text!r})",
                f"enter({text!r})",
                "leave_all()",
                "enter('GPU:1')",
                f"enter({text!r})",
                "leave_all()",
            ]
        )
    for gpus, calls in by_machine.items():
        sequences.append(_played(theirs, ours, gpus, calls, go_on=True))
    for gpus, configure in placement.MACHINES:
        calls = [placement.draw_graph(draw) for _ in range(_GRAPHS // len(placement.MACHINES))]
        sequences.append(_played(theirs, ours, gpus, [*configure, *calls], go_on=True))
    lines = [json.dumps(sequence) for sequence in sequences]
    heading = json.dumps({"tensorflow": version, "seed": SEED})
    FILE.write_text(heading[:-1] + ', "sequences": [\n' + ",\n".join(lines) + "\n]}\n")
    return sum(len(sequence["calls"]) for sequence in sequences)


def _played(theirs: Side, ours: Side, gpus: int, calls: list[str], *, go_on: bool = False) -> dict[str, object]:
    """A sequence up to the first listed difference; or without those, if the calls do not depend on each other."""
    theirs.fresh(gpus)
    ours.fresh(gpus)
    told: list[list[object]] = []
    for call in calls:
        a, b = outcome(theirs, call), outcome(ours, call)
        if agree(a, b):
            told.append([call, *_short(a)])
        elif not go_on:
            break
    return {"gpus": gpus, "calls": told}


def _short(told: Outcome) -> list[object]:
    """An outcome as JSON: its value, or class and message."""
    if told.value is not None:
        return [told.value]
    return [list(told.error), expected_start(told)]


def outcome_of(recorded: list[object]) -> Outcome:
    """The recorded outcome."""
    if len(recorded) == 1:
        return Outcome(str(recorded[0]))
    error, message = recorded
    assert isinstance(error, list)
    return Outcome(None, tuple(error), str(message))
