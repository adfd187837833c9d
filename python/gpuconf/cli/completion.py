# SPDX-License-Identifier: Apache-2.0
"""``gpuconf completion``."""

from __future__ import annotations

import argparse

from .._core import texts
from .._typing import Any
from .console import OK
from .output import example

_EXAMPLE = """
gpuconf completion bash > ~/.local/share/bash-completion/completions/gpuconf
"""

SHELLS = ("bash", "zsh", "tcsh")


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "completion",
        help="print a shell's completion script",
        description="Print a script that lets a shell complete gpuconf's commands and options (needs shtab).",
        **example(_EXAMPLE),
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    parser.set_defaults(run=_completion)


def _completion(options: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError as error:
        raise texts.missing("completion needs", "shtab", "cli", error) from None
    from .parser import parser

    print(shtab.complete(parser(), shell=options.shell))
    return OK
