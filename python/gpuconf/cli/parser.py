# SPDX-License-Identifier: Apache-2.0
"""The command line: the parser of all commands, that of one, and questions for words that are mistyped."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from .. import __version__
from .._typing import Any, NoReturn
from . import console
from .console import USAGE, UsageError
from .output import example

# There are no translations of argparse's own texts. Its look for each of them, in several folders, takes longer than
# the parser.
vars(argparse)["_"] = str

# Each command, and the module and function that add it to the parser. Only the module of the command that runs is
# imported, because `gpuconf run` starts other programs.
COMMANDS = {
    "devices": ("devices", "add_to"),
    "ps": ("ps", "add_to"),
    "top": ("top", "add_to"),
    "doctor": ("doctor", "add_to"),
    "stats": ("ps", "add_stats_to"),
    "visible": ("devices", "add_visible_to"),
    "simulate": ("simulate", "add_to"),
    "config": ("config", "add_to"),
    "export": ("export", "add_to"),
    "plan": ("plan", "add_to"),
    "diff": ("diff", "add_to"),
    "run": ("run", "add_to"),
    "lease": ("lease", "add_to"),
    "env": ("env", "add_to"),
    "ledger": ("ledger", "add_to"),
    "completion": ("completion", "add_to"),
}

_EXAMPLES = """
gpuconf run --memory 10GiB python train.py          # a share of a GPU
gpuconf run --simulate A100-40GB python train.py    # PyTorch without a GPU
gpuconf plan --gpu L4,A100-40GB -- python train.py  # will it fit?
gpuconf ps                                          # who uses the GPUs
"""


class _Parser(argparse.ArgumentParser):
    """Wrong usage has exit code 2 also if standard error is full: argparse raises OSError there in some versions of
    Python.
    """

    def error(self, message: str) -> NoReturn:
        console.complain(f"{self.format_usage()}{self.prog}: error: {message}{_meant_choice(message)}")
        raise SystemExit(USAGE)

    def refuse(self, options: argparse.Namespace, unknown: Sequence[str]) -> NoReturn:
        """End with an error for unknown arguments of this command, or of the action of it that the options name."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and getattr(options, action.dest, None) in action.choices:
                action.choices[getattr(options, action.dest)].refuse(options, unknown)
        option = unknown[0].partition("=")[0]
        guess = (
            _meant(self.prog, option)
            or self._program(unknown)
            or (did_you_mean(option, self._option_string_actions) if option.startswith("-") else "")
        )
        self.error(f"unrecognized arguments: {' '.join(unknown)}{guess and '.'}{guess}")

    def _program(self, unknown: Sequence[str]) -> str:
        """Return a question for a program without ``--`` before it."""
        script = self.prog == "gpuconf plan" and unknown[0].endswith(".py")
        return " Did you mean gpuconf plan --gpu CARDS -- PROGRAM ...?" if script else ""


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    about = "Limit, share, measure and simulate the GPU memory of programs. Start with: gpuconf doctor."
    top = _Parser(prog="gpuconf", description=about, **example(_EXAMPLES))
    top.add_argument("--version", action="version", version=f"gpuconf {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        _add(name, commands)
    return top


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments. Raises SystemExit after help or an error, and UsageError for an unknown command.

    Only the parser of the command that they name is built: all of them take as long as Python's start.
    """
    name = arguments[0]
    if name not in COMMANDS:
        if not name.startswith("-"):
            guess = " Did you mean gpuconf --help?" if name == "help" else did_you_mean(name, COMMANDS)
            raise UsageError(f"there is no command {name!r}.{guess} The commands are {', '.join(COMMANDS)}")
        return parser().parse_args(arguments)
    one = _OneCommand()
    _add(name, one)
    options, unknown = one.parser.parse_known_args(arguments[1:])
    if unknown:
        one.parser.refuse(options, unknown)
    options.command = name
    return options


def _add(command: str, commands: Any) -> None:
    module, function = COMMANDS[command]
    getattr(__import__(f"{__package__}.{module}", fromlist=[function]), function)(commands)


class _OneCommand:
    """What a command adds itself to, in place of the subcommands of the parser of all."""

    parser: _Parser

    def add_parser(self, name: str, *, help: str, **settings: Any) -> argparse.ArgumentParser:  # noqa: A002, ARG002 - argparse's name
        """Make the command's parser. ``help`` is its line in the list of commands, which is not shown here."""
        self.parser = _Parser(prog=f"gpuconf {name}", **settings)
        return self.parser


# What people write, by command, and what they mean by it: words of other tools, which are not spelled like gpuconf's.
_MEANT = {
    "limit": {"gpuconf config": "GPUCONF_LIMIT=6GiB before the command, or limit in gpuconf.toml"},
    "set": {"gpuconf config": "a variable such as GPUCONF_LIMIT=6GiB, or gpuconf.toml"},
    "--limit": {"gpuconf run": "--memory", "gpuconf lease": "--memory", "gpuconf env": "--memory"},
    "--memory": {"gpuconf plan": "--limit"},
    "--once": {"gpuconf top": "--iterations 1"},
    "--watch": {"gpuconf ps": "gpuconf top", "gpuconf stats": "gpuconf top"},
    "--num-gpus": {"gpuconf run": "--gpus", "gpuconf lease": "--gpus", "gpuconf env": "--gpus"},
}


def _meant(command: str, option: str) -> str:
    """Return a question for an option of other tools, or an empty text."""
    meant = _MEANT.get(option, {}).get(command)
    return f" Did you mean {meant}?" if meant else ""


def _meant_choice(message: str) -> str:
    """Return a question for the closest choice, for argparse's message about an invalid one, or an empty text."""
    _, _, refused = message.partition(": invalid choice: ")
    if not refused:
        return ""
    word, _, choices = refused.partition(" (choose from ")
    guess = did_you_mean(word.strip("'"), [choice.strip("'") for choice in choices.rstrip(")").split(", ")])
    return guess and f".{guess}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question for the word that comes closest to a mistyped one, or an empty text."""
    import difflib

    closest = difflib.get_close_matches(word, known, 1)
    return f" Did you mean {closest[0]}?" if closest else ""
