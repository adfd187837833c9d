# SPDX-License-Identifier: Apache-2.0
"""``gpuconf doctor``."""

from __future__ import annotations

import argparse
import os
import shutil
import textwrap

from .._typing import Any
from . import diagnosis, probe
from .console import CONDITION, OK
from .diagnosis import PROBLEM, Finding
from .output import add_json, colors, example, print_json

_EXAMPLE = """
gpuconf doctor
gpuconf doctor -- python train.py
"""

_INDENT, _WIDTH = 12, 100
_STYLES = {"ok": "32", "note": "36", PROBLEM: "31"}


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "doctor",
        usage="gpuconf doctor [-h] [--json] [[--] COMMAND ...]",
        help="diagnose problems with GPUs, limits and libraries",
        description="Check the driver, the order of devices, MIG, the kinds of memory, the libraries, the limits and "
        "who enforces "
        "them, the environment, the ledger, and what keeps a rehearsal from changing files. Findings are numbered, "
        "and each "
        "problem comes with a fix. With a command, check the Python environment that it would run in; the command "
        "itself is not "
        "run. The exit code is 3 if there is a problem.",
        **example(_EXAMPLE),
    )
    add_json(parser)
    parser.add_argument(
        "command_line", nargs=argparse.REMAINDER, metavar="COMMAND", help="a program, such as python train.py"
    )
    parser.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    words = options.command_line[1:] if options.command_line[:1] == ["--"] else options.command_line
    findings = [*diagnosis.of_machine(os.environ), probe.of_cover(os.environ), *probe.of_environment(words)]
    if options.json:
        numbered = [{"number": i, **finding.to_dict()} for i, finding in enumerate(findings, 1)]
        print_json({"problems": _problems(findings), "findings": numbered})
    else:
        for i, finding in enumerate(findings, 1):
            _print(i, finding)
        print(_verdict(_problems(findings)))
    return CONDITION if _problems(findings) else OK


def _problems(findings: list[Finding]) -> int:
    return sum(finding.level == PROBLEM for finding in findings)


def _print(number: int, finding: Finding) -> None:
    mark = f"{finding.level:<7}"
    if colors():
        mark = f"\033[{_STYLES[finding.level]}m{mark}\033[0m"
    lines = _wrapped(f"{finding.subject}: {finding.text}") + (_wrapped(f"fix: {finding.fix}") if finding.fix else [])
    print(f"{number:>3} {mark} {lines[0]}")
    for line in lines[1:]:
        print(" " * _INDENT + line)


def _wrapped(text: str) -> list[str]:
    width = max(30, shutil.get_terminal_size((_INDENT + _WIDTH, 24)).columns - _INDENT)
    return textwrap.wrap(text, min(width, _WIDTH), break_long_words=False, break_on_hyphens=False)


def _verdict(problems: int) -> str:
    return "no problems" if not problems else f"{problems} problem{'s' * (problems > 1)}"
