# SPDX-License-Identifier: Apache-2.0
"""How a simulated card's answers differ from those of a real one, call by call, and which differences are meant.

python tests_py/driver/compare_calls.py real.jsonl.gz simulated.jsonl.gz
"""

import argparse
import collections
import gzip
import json
import lzma
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

ACCEPTED = Path(__file__).resolve().parent / "calls_differences.json"
UNKNOWN = ("crash", "hang", "deadline", "signal 11")  # of a real driver: any answer is right
LOST = 719  # CUDA_ERROR_LAUNCH_FAILED: after something undefined, the process has no context any more
Call = tuple[str, str, int]  # the unit, what was called, and the how-manieth such call of the unit it is


class Answer(NamedTuple):
    """What a call answered."""

    code: Any
    values: Any

    def __str__(self) -> str:
        return f"{self.code}" if self.values is None else f"{self.code} {json.dumps(self.values)}"


def read(path: str | Path) -> dict[Call, Answer]:
    """Read a recording."""
    found: dict[Call, Answer] = {}
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    opened = lzma.open if str(path).endswith(".xz") else gzip.open
    with opened(path, "rt") as file:
        for line in file:
            unit, _, what, code, *values = json.loads(line)
            if what != "end":
                counts[unit, what] += 1
                found[unit, what, counts[unit, what]] = Answer(code, values[0] if values else None)
    return found


class Comparison:
    """The calls that both have, and those of them whose answers differ."""

    def __init__(self, real: dict[Call, Answer], simulated: dict[Call, Answer]) -> None:
        lost: set[str] = set()
        self.both: dict[Call, tuple[Answer, Answer]] = {}
        for call, answer in real.items():
            if answer.code == LOST:
                lost.add(call[0])
            if call in simulated and answer.code not in UNKNOWN and call[0] not in lost:
                self.both[call] = answer, simulated[call]
        self.differing = {call: pair for call, pair in self.both.items() if pair[0] != pair[1]}
        self.listed: dict[Call, tuple[Answer, Answer]] = {}
        self.unlisted: dict[Call, tuple[Answer, Answer]] = {}
        patterns = accepted()
        for call, pair in self.differing.items():
            text = as_text(call, pair)
            (self.listed if any(fnmatchcase(text, one) for one in patterns) else self.unlisted)[call] = pair

    def of(self, part: str) -> list[int]:
        """Return the numbers of calls of a part or a unit, of those that differ and of those that differ without a
        reason.
        """
        lists: tuple[Iterable[Call], ...] = (self.both, self.differing, self.unlisted)
        return [sum(part in ("", unit, unit.split(".")[0]) for unit, *_ in calls) for calls in lists]


def as_text(call: Call, pair: tuple[Answer, Answer]) -> str:
    """Say a difference as the patterns of the committed list match it."""
    unit, what, number = call
    return f"{unit} {what}{f' ({number})' if number > 1 else ''}: {pair[1]}, real: {pair[0]}"


def accepted() -> dict[str, str]:
    """Return the patterns of the differences that are meant, each with its reason."""
    listed: dict[str, list[str]] = json.loads(ACCEPTED.read_text()) if ACCEPTED.exists() else {}
    return {pattern.replace("[", "[[]"): reason for reason, patterns in listed.items() for pattern in patterns}


def parts_of(calls: Iterable[Call]) -> list[str]:
    """Return the parts, and their units but for the random programs."""
    units = {unit for unit, *_ in calls}
    return sorted({unit.split(".")[0] for unit in units} | {unit for unit in units if not unit.startswith("programs.")})


def main() -> None:
    """Print how many answers are compared and differ, and which."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("real")
    parser.add_argument("simulated")
    parser.add_argument("--all", action="store_true", help="print those that are listed, too")
    parser.add_argument("--only", default="", help="units whose name has this in it")
    parser.add_argument("--seeds", choices=("all", "even", "odd"), default="all", help="of the random programs")
    parser.add_argument("--first", action="store_true", help="of each random program only the first difference")
    parser.add_argument("--quiet", action="store_true", help="only the counts")
    arguments = parser.parse_args()

    def wanted(call: Call) -> bool:
        seed = call[0].removeprefix("programs.program_")
        return arguments.only in call[0] and (
            not seed.isdigit() or arguments.seeds in ("all", "odd" if int(seed) % 2 else "even")
        )

    real, simulated = (
        {c: a for c, a in read(path).items() if wanted(c)} for path in (arguments.real, arguments.simulated)
    )
    found = Comparison(real, simulated)
    if not arguments.quiet:
        before = ""
        for call, pair in (found.differing if arguments.all else found.unlisted).items():
            if not (arguments.first and call[0].startswith("programs.") and call[0] == before):
                print(as_text(call, pair))
            before = call[0]
    for part in ("", *parts_of(found.both)):
        calls, differing, unlisted = found.of(part)
        print(
            f"{part or 'all':36} {calls:6} calls, {differing:5} differ ({differing / calls:.1%}), {unlisted:5} unlisted"
        )
    programs = {unit for unit, *_ in found.both if unit.startswith("programs.")}
    print(
        f"random programs: {len(programs)}, with a difference: {len({unit for unit, *_ in found.differing} & programs)}"
    )
    print(f"only one has: {len(real.keys() ^ simulated.keys())} calls")


if __name__ == "__main__":
    main()
