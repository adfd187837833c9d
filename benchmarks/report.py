"""Shared by the pages of benchmarks."""

from __future__ import annotations

import platform
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
