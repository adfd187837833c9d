"""``gpuconf run``: start a program in an environment that gpuconf prepares.

The command replaces itself with the program, so that signals, the exit code, the standard streams and tracebacks are the
program's own. What has to happen inside the program's Python processes is in ``gpuconf/_startup``.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Sequence

from .. import errors
from .._typing import Any
from .exits import UsageError

_STARTUP = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_startup")
_PYTHON = re.compile(r"python[0-9.]*")
_THIS_PYTHON = ("python", "python3", f"python3.{sys.version_info[1]}")


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = commands.add_parser(
        "run",
        usage="gpuconf run [-h] [--as-tensorflow] [--simulate SPEC] [--] PROGRAM [ARGUMENT ...]",
        help="run a Python program: on simulated GPUs, or with gpuconf in place of TensorFlow",
        description="Run a Python program. gpuconf's options end at the first word that is not one of them, or at --.",
        allow_abbrev=False,
    )
    parser.add_argument("--as-tensorflow", action="store_true", help="import tensorflow finds gpuconf, in child processes too")
    parser.add_argument("--simulate", metavar="SPEC", help="simulated GPUs, such as 4xA100-40GB")
    parser.add_argument("-m", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module, as python -m does")
    parser.add_argument("-c", nargs=argparse.REMAINDER, metavar="CODE", help="run code, as python -c does")
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="PROGRAM",
        help="a Python script, - for standard input, or python and its arguments",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    words = _program(options)
    variables = dict(os.environ)
    if options.simulate is not None:
        _check(options.simulate)
        variables["GPUCONF_SIMULATE"] = options.simulate
    if options.as_tensorflow:
        _refuse_isolated(words)
        variables["GPUCONF_AS_TENSORFLOW"] = "1"
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [_STARTUP, variables.get("PYTHONPATH")]))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and a program would inherit that
    try:
        os.execvpe(words[0], words, variables)
    except FileNotFoundError:
        raise UsageError(f"{words[0]}: command not found") from None


def _program(options: argparse.Namespace) -> list[str]:
    """Return the words of the command: this Python's, unless they name another Python by its path or version."""
    for letter in ("m", "c"):
        rest = getattr(options, letter)
        if rest is not None:
            if not rest:
                raise UsageError(f"argument expected for -{letter}")
            return [sys.executable, f"-{letter}", *rest]
    words: list[str] = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not words:
        raise UsageError("no program: name a Python script")
    if words[0] in _THIS_PYTHON:  # whatever PATH has: the Python that has gpuconf
        return [sys.executable, *words[1:]]
    return words if _PYTHON.fullmatch(os.path.basename(words[0])) else [sys.executable, *words]


def _check(spec: str) -> None:
    """Raise UsageError for an invalid simulation, so that it does not fail somewhere inside the program."""
    import resource

    from ..machine.simulate import simulate

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        simulate(spec)
    except errors.InvalidArgumentError as error:
        raise UsageError(f"--simulate: {error}") from None
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)  # Go has raised it


def _refuse_isolated(words: Sequence[str]) -> None:
    """Refuse Python's options -E, -I and -S, with which it would not read the environment or ``_startup``."""
    takes_value = False
    for word in words[1:]:
        if takes_value or word.startswith("--"):
            takes_value = word == "--check-hash-based-pycs"
        elif not word.startswith("-") or word[1:2] in ("", "m", "c"):
            return
        else:
            flags = re.match(r"-([^WXmc]*)(.*)", word)
            assert flags is not None
            if set(flags[1]) & set("EIS"):
                raise UsageError(f"--as-tensorflow does not work with {word}: Python would not run gpuconf's startup code")
            if flags[2][:1] in ("m", "c"):
                return
            takes_value = flags[2] in ("W", "X")
