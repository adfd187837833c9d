# SPDX-License-Identifier: Apache-2.0
"""The layout of budget files for Python, from the structs and constants of gocore/lease/budget/budget.h.

pybind/build/generate.py writes it. The guard and the simulator, in C, write these files;
python/gpuconf/jobs/budget_file.py creates and reads them.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "gocore" / "lease" / "budget" / "budget.h"
TARGET = ROOT / "python" / "gpuconf" / "jobs" / "generated" / "budget_layout.py"

# The constants that Python needs, and the structs of the file, each with the array that Python reads apart from it.
CONSTANTS = (
    *(
        "BUDGET_MAGIC",
        "BUDGET_VERSION",
        "BUDGET_INSTANCE",
        "HEADER_BYTES",
        "MAX_CARDS",
        "MAX_SLOTS",
        "MAX_NESTED",
        "SHARES",
    ),
    *("LOCKS", "LAUNCHER_LOCK", "BYTES_MASK"),
)
STRUCTS = {"budget_header": "card", "budget_card": "", "budget_slot": "", "budget_share": ""}
LETTERS = {"uint32_t": "I", "uint64_t": "Q"}


def constants(header: str) -> dict[str, int | bytes]:
    """The values of all constants of the header."""
    values: dict[str, int | bytes] = {}
    for name, text in re.findall(r"(?m)^#define (\w+) +(.+?)(?: */\*.*)?$", header):
        if text.startswith('"'):
            values[name] = text.strip('"').encode()
        else:
            expression = re.sub(r"U?INT64_C\((\d+)\)", r"\1", text)
            values[name] = eval(expression, {}, values)
    return values


def fields(header: str, name: str, known: dict[str, int | bytes]) -> list[tuple[str, str]]:
    """The members of a struct, each with its letters for the module struct."""
    body = re.search(rf"(?ms)^struct {name} \{{\n(.*?)^\}};", header)
    if not body:
        raise SystemExit(f"gocore/lease/budget/budget.h has no struct {name}")
    members: list[tuple[str, str]] = []
    for line in re.sub(r"/\*.*?\*/", "", body[1], flags=re.DOTALL).splitlines():
        parts = re.fullmatch(r"\s*(struct \w+|\w+) (.+?);\s*", line)
        if not parts:
            if line.strip():
                raise SystemExit(f"struct {name} has a line that is no member: {line!r}")
            continue
        for member in parts[2].split(", "):
            field, _, count = member.partition("[")
            if field != STRUCTS[name]:
                length = eval(count.rstrip("]").replace("/", "//"), {}, dict(known)) if count else 0
                members.append((field, _letters(parts[1], length)))
    return members


def _letters(kind: str, length: int) -> str:
    if not length:
        return LETTERS[kind]
    return f"{length * (8 if kind == 'uint64_t' else 1)}s"


def generate() -> dict[Path, str]:
    """The module, by path."""
    header = SOURCE.read_text()
    known = constants(header)
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        '"""The layout of budget files, from gocore/lease/budget/budget.h. '
        'Written by pybind/build/generate.py; DO NOT EDIT."""',
        "",
        "from __future__ import annotations",
        "",
        "import struct",
        "",
        "from ..._typing import NamedTuple",
        "",
    ]
    for name in CONSTANTS:
        value = known[name]
        lines.append(f'{name} = b"{value.decode()}"' if isinstance(value, bytes) else f"{name} = {value}")
    for name in STRUCTS:
        members = fields(header, name, known)
        title = "".join(part.title() for part in name.split("_"))
        lines += ["", "", f"class {title}(NamedTuple):", f'    """struct {name}."""', ""]
        lines += [f"    {field}: {'bytes' if letters.endswith('s') else 'int'}" for field, letters in members]
        lines += [
            "",
            "",
            f'{name.removeprefix("budget_").upper()} = struct.Struct("<{"".join(c for _, c in members)}")',
        ]
    return {TARGET: "\n".join([*lines, ""])}
