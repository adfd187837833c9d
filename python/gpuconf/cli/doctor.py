# SPDX-License-Identifier: Apache-2.0
"""``gpuconf doctor``."""

from __future__ import annotations

import os
import shutil
import textwrap

from .._core.table import counted
from . import diagnosis, probe
from .console import CONDITION, OK
from .diagnosis import PROBLEM, Finding
from .output import print_colored, print_json
from .parser import Options

_INDENT, _WIDTH = 12, 100
_COLORS = {"ok": 32, "note": 36, PROBLEM: 31}


def doctor(options: Options) -> int:
    """Run the command."""
    findings = [*diagnosis.of_machine(os.environ), probe.of_cover(os.environ), *probe.of_environment(options.words)]
    problems = sum(finding.level == PROBLEM for finding in findings)
    if options.json:
        numbered = [{"number": i, **finding.to_dict()} for i, finding in enumerate(findings, 1)]
        print_json({"problems": problems, "findings": numbered})
    else:
        for i, finding in enumerate(findings, 1):
            _print(i, finding)
        print(counted(problems, "problem") if problems else "no problems")
    return CONDITION if problems else OK


def _print(number: int, finding: Finding) -> None:
    lines = _wrapped(f"{finding.subject}: {finding.text}") + (_wrapped(f"fix: {finding.fix}") if finding.fix else [])
    print_colored(f"{number:>3} ", f"{finding.level:<7}", _COLORS[finding.level], f" {lines[0]}")
    for line in lines[1:]:
        print(" " * _INDENT + line)


def _wrapped(text: str) -> list[str]:
    width = max(30, shutil.get_terminal_size((_INDENT + _WIDTH, 24)).columns - _INDENT)
    return textwrap.wrap(text, min(width, _WIDTH), break_long_words=False, break_on_hyphens=False)
