# SPDX-License-Identifier: Apache-2.0
"""``gpuconf config``."""

from __future__ import annotations

import argparse
import os

from .._core import runtime
from .._core.settings import SETTINGS, Origin, explain, ignored
from .._core.table import human_bytes
from .._typing import Any
from .console import OK
from .output import Cell, add_json, example, print_json, print_table

_EXAMPLE = """
gpuconf config --explain
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "config",
        help="show the settings in force and where they come from",
        description="Show the settings that a program started here would have. The first of these that sets a value "
        "wins: a call in "
        "the program, an environment variable, gpuconf.toml or [tool.gpuconf] in pyproject.toml, the default.",
        **example(_EXAMPLE),
    )
    parser.add_argument("--explain", action="store_true", help="show where each value comes from, and what it does")
    add_json(parser)
    parser.set_defaults(run=_config)


def _config(options: argparse.Namespace) -> int:
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
