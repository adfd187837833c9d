"""Shared by the pages of benchmarks."""

from __future__ import annotations

import platform
import re
from pathlib import Path


def table(rows: list[dict[str, str]]) -> str:
    """A Markdown table."""
    head = list(rows[0])
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row.values()) + " |" for row in rows)])


def cpu() -> str:
    """The processor's name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def fill(page: Path, parts: dict[str, str]) -> None:
    """Replace parts of a page, each between its comment, ``<!-- name -->``, and ``<!-- end -->``."""
    text = page.read_text()
    for name, part in parts.items():
        old = rf"(?<=<!-- {re.escape(name)} -->\n).*?(?=<!-- end -->)"
        text, found = re.subn(old, lambda _, part=part: f"{part}\n\n", text, flags=re.DOTALL)
        if found != 1:
            raise ValueError(f"{page.name} has the comment <!-- {name} --> {found} times")
    page.write_text(text)
