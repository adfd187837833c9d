"""The list of intentional differences: the table of docs/differences.md.

The comparison excuses only what is on the list, and reports how often each entry occurred.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "differences.md"


class Row(NamedTuple):
    """One difference."""

    number: int
    id: str
    call: str
    tensorflow: str
    gpuconf: str
    why: str
    test: list[str]


def load() -> list[Row]:
    """The list."""
    found = []
    for line in PAGE.read_text().splitlines():
        if re.match(r"\| \d", line):
            number, *words, tests = line.removeprefix("| ").removesuffix(" |").split(" | ")
            found.append(Row(int(number), *words, re.findall(r"`([^`]+)`", tests)))
    return found
