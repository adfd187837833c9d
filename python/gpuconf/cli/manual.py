# SPDX-License-Identifier: Apache-2.0
"""The manual page of ``gpuconf``, and parts of docs/commands.md: what the build and ``make generate`` write."""

from __future__ import annotations

from collections.abc import Iterator

from .. import __version__
from .commands import ABOUT, COMMANDS, EXAMPLES
from .parser import arguments_of, help_of, paragraphs, usage

_EXIT = """0 success; 1 an error; 2 invalid usage; 3 no GPU, or a condition does not hold; 124 a timeout; 126 the
program cannot be executed; 127 it was not found; 130 Ctrl-C. gpuconf run returns the exit code of its program."""


def page() -> str:
    """Return the page gpuconf(1), for man."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield f'.TH GPUCONF 1 "" "gpuconf {__version__}" "User Commands"'
    yield from (".SH NAME", "gpuconf \\- limits, leases, plans and simulated GPUs", ".SH SYNOPSIS")
    yield from ("\\fBgpuconf\\fR \\fICOMMAND\\fR ...", ".SH DESCRIPTION", _escaped(ABOUT), ".SH COMMANDS")
    for command in COMMANDS:
        yield f'.SS "gpuconf {command}"'
        yield from (".nf", *(_escaped(line.strip()) for line in usage(command).splitlines()), ".fi", ".PP")
        for kind, part in paragraphs(command):
            if kind == "text":
                yield from (_escaped(part), ".PP")
            elif kind == "arguments":
                for argument in arguments_of(part):
                    yield from (".TP", f"\\fB{_escaped(argument.form)}\\fR", _escaped(argument.help))
                yield ".PP"
    yield from (".SH EXIT STATUS", _escaped(_EXIT), ".SH EXAMPLES", ".nf", *map(_escaped, EXAMPLES.splitlines()), ".fi")


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(letter if letter.isascii() else f"\\[u{ord(letter):04X}]" for letter in text)
    return f"\\&{text}" if text[:1] in (".", "'") else text


def table() -> str:
    """Return the commands as a table of Markdown."""
    rows = [f"| `{command}` | {next(paragraphs(command))[1]} |" for command in COMMANDS if " " not in command]
    return "\n".join(["| command | what it does |", "|---|---|", *rows])


def reference() -> str:
    """Return the help of all commands, in Markdown."""
    return "\n".join(f"### gpuconf {command}\n\n```text\n{help_of(command)}\n```\n" for command in COMMANDS)
