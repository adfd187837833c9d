"""The command ``gpuconf``: its parser, and the error handling that all subcommands share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .. import __version__, errors
from . import console, devices, plan, run
from .exits import ERROR, INTERRUPTED, USAGE, UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    console.prepare()
    code, failed = _run(arguments)
    unwritten = console.finish()
    if unwritten is not None and not failed:
        return _output_failed("gpuconf", unwritten)
    return code


def _run(arguments: Sequence[str] | None) -> tuple[int, bool]:
    """Return the exit code, and whether standard output has already failed."""
    command = "gpuconf"
    try:
        options = _parser().parse_args(arguments)
        command = f"gpuconf {options.command}"
        if sys.stdout is None:
            console.complain(f"{command}: standard output is closed")
            return ERROR, True
        return options.run(options), False
    except SystemExit as end:  # argparse has printed help or an error
        return int(end.code or 0), False
    except UsageError as error:
        console.complain(f"{command}: {error}")
        return USAGE, False
    except OSError as error:
        if error.filename is None:
            return _output_failed(command, error), True
        console.complain(f"{command}: {error}")
        return ERROR, False
    except errors.GpuconfError as error:
        console.complain(f"{command}: {error}")
        return ERROR, False
    except KeyboardInterrupt:
        return INTERRUPTED, False


def _output_failed(command: str, error: OSError) -> int:
    if not isinstance(error, BrokenPipeError):  # else the reader has stopped on purpose
        console.complain(f"{command}: standard output: {error.strerror}")
    return ERROR


def _parser() -> argparse.ArgumentParser:
    about = "GPU configuration and memory planning, on real and simulated GPUs."
    parser = argparse.ArgumentParser(prog="gpuconf", description=about)
    parser.add_argument("--version", action="version", version=f"gpuconf {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    plan.add_to(commands)
    devices.add_to(commands)
    run.add_to(commands)
    return parser
