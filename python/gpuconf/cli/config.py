# SPDX-License-Identifier: Apache-2.0
"""``gpuconf config``."""

from __future__ import annotations

import os

from .._core import runtime
from .._core.settings import SETTINGS, Origin, explain, ignored
from .._core.table import human_bytes
from .._typing import Any
from .console import OK
from .output import Cell, print_json, print_table
from .parser import Options


def config(options: Options) -> int:
    """Run the command."""
    origins = explain(os.environ, runtime.current.overrides)
    if options.json:
        listed = [_as_json(setting, origins[setting.variable]) for setting in SETTINGS]
        print_json({"settings": listed, "ignored": [one._asdict() for one in ignored(os.environ)]})
        return OK
    header, rows = ["setting", "value"], []
    for setting in SETTINGS:
        origin = origins[setting.variable]
        row: list[Cell] = [
            setting.variable,
            (_shown(setting.kind, origin.value), "" if origin.source == "default" else "bold"),
        ]
        if options.explain:
            row += [_source(origin), setting.text]
        rows.append(row)
    last = "what it does"
    if options.explain:
        header += ["from", last]
    print_table(header, rows, drop=(last,), cut=(last,))
    for one in ignored(os.environ) if options.explain else ():
        print(f"{one.text}. {one.fix}")
    return OK


def _shown(kind: str, value: str) -> str:
    if kind == "size" and value.isdigit():
        return human_bytes(int(value))
    return value or "-"


def _source(origin: Origin) -> str:
    return f"{origin.source}, lowered by {origin.ceiling}" if origin.ceiling else origin.source


def _as_json(setting: Any, origin: Origin) -> dict[str, Any]:
    value: Any = origin.value or None
    if setting.kind == "size" and value and value.isdigit():
        value = int(value)
    if setting.kind == "switch" and value in ("true", "false"):
        value = value == "true"
    return {
        "variable": setting.variable,
        "key": setting.key or None,
        "value": value,
        "source": origin.source,
        "ceiling": origin.ceiling or None,
        "text": setting.text,
    }
