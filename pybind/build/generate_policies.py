# SPDX-License-Identifier: Apache-2.0
"""The policies of plans for Python, which lists them without the core, from the table in gocore/plan/plan/policy.go.

pybind/build/generate.py writes them.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "gocore" / "plan" / "plan" / "policy.go"
TARGET = ROOT / "python" / "gpuconf" / "plans" / "generated" / "policies.py"


def table(source: str) -> list[tuple[str, str, bool]]:
    """The rows: a policy's name, whose allocator it is, and whether it needs virtual memory management."""
    names = dict(re.findall(r'(?m)^\t(\w+) +Policy = "([a-z-]+)"', source))
    body = re.search(r"(?ms)^var policies = \[\]properties\{\n(.*?)^\}", source)
    rows = re.findall(r'(?m)^\t\{(\w+), "(\w+)", (true|false)\},$', body[1]) if body else []
    if not body or len(rows) != body[1].count("\n") or sorted(row[0] for row in rows) != sorted(names):
        raise SystemExit(f"{SOURCE.name}: the table must have a row for each constant, and nothing else")
    return [(names[policy], of, needs_virtual == "true") for policy, of, needs_virtual in rows]


def generate() -> dict[Path, str]:
    """The module, by path."""
    rows = table(SOURCE.read_text())
    lists = {
        "POLICIES": [name for name, _, _ in rows],
        "NEED_VIRTUAL": [name for name, _, needs_virtual in rows if needs_virtual],
        "OF_GPUCONF": [name for name, of, _ in rows if of == "gpuconf"],
    }
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        '"""The policies of plans, from gocore/plan/plan/policy.go. '
        'Written by pybind/build/generate.py; DO NOT EDIT."""',
        "",
        "from __future__ import annotations",
        "",
    ]
    for name, members in lists.items():
        lines += [f"{name} = (", *(f'    "{member}",' for member in members), ")"]
    return {TARGET: "\n".join([*lines, ""])}
