"""The list of intentional differences, differences.json, and docs/differences.md, which is generated from it.

The comparison excuses only what is on the list, and reports how often each entry occurred. Run this file to write the
page. With ``--check`` it fails if the page is out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "differences.md"

_BEGINNING = """# Where gpuconf differs from TensorFlow on purpose

gpuconf is meant to match TensorFlow in everything else: error class, message, and order of checks.
An error message of gpuconf begins with TensorFlow's text and may continue with its own.
"TensorFlow" means releases 2.20 and 2.21. [conformance.md](conformance.md) reports how much was
compared, and the results. `make generate` writes this page from `tests_py/oracle/differences.json`.

| # | call | TensorFlow | gpuconf | why | test |
|---|---|---|---|---|---|
"""


class Row(NamedTuple):
    """One difference."""

    id: str
    call: str
    tensorflow: str
    gpuconf: str
    why: str
    test: list[str]


def load() -> list[Row]:
    """The list."""
    return [Row(**row) for row in json.loads(Path(__file__).with_suffix(".json").read_text())]


def page() -> str:
    """The page."""
    lines = []
    for number, row in enumerate(load(), 1):
        tests = ", ".join(f"`{test}`" for test in row.test) or "-"
        lines.append(f"| {number} | {row.call} | {row.tensorflow} | {row.gpuconf} | {row.why} | {tests} |\n")
    return _BEGINNING + "".join(lines)


def main() -> None:
    """Write the page, or check it."""
    if "--check" not in sys.argv:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        sys.exit("docs/differences.md is out of date: run make generate")


if __name__ == "__main__":
    main()
