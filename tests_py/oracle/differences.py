"""The list of deliberate differences, differences.json, and docs/differences.md, which is written from it.

The comparison excuses nothing that is not on the list, and tells how often it met each. Run this file to write the page, with
``--check`` to fail where it is not current.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "differences.md"

_BEGINNING = """# Where gpuconf differs from TensorFlow on purpose

Everything else is meant to be the same: error class, message, order of checks. A message of gpuconf begins with TensorFlow's text
and may go on. TensorFlow's own behaviour is that of 2.20/2.21. How much of it was compared, and with what result:
[conformance.md](conformance.md). This page is written from `tests_py/oracle/differences.json` by `make generate`.

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
        sys.exit("docs/differences.md is not current: run make generate")


if __name__ == "__main__":
    main()
