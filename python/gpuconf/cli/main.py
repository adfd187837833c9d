# SPDX-License-Identifier: Apache-2.0
"""The command ``gpuconf``: the error handling that all subcommands share."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence

from .. import __version__
from . import console
from .console import ERROR, INTERRUPTED, OK, USAGE, UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    console.prepare()
    try:
        code, failed = _run(sys.argv[1:] if arguments is None else arguments)
    finally:
        unwritten = console.finish()
    if unwritten is not None and not failed:
        return _output_failed("gpuconf", unwritten)
    return code


def _run(arguments: Sequence[str]) -> tuple[int, bool]:
    """Return the exit code, and whether standard output has already failed."""
    command = "gpuconf"
    try:
        if arguments[:1] in (["--version"], ["-V"]):
            print(f"gpuconf {__version__}")
            return OK, False
        from . import parser

        if not arguments:
            console.complain(parser.overview())
            return USAGE, False
        options = parser.parsed(arguments)
        command = f"gpuconf {options.command}"
        if sys.stdout is None and options.command != "run":  # it is the program's
            console.complain(f"{command}: standard output is closed")
            return ERROR, True
        return parser.function(options.command)(options), False
    except SystemExit as end:  # the parser has printed help
        return int(end.code or 0), False
    except UsageError as error:
        console.complain(f"{error.command or command}: {error}")
        return USAGE, False
    except OSError as error:
        if error.filename is None and error.errno not in _NOT_OF_A_WRITE:
            return _output_failed(command, error), True
        where = "" if error.filename is None else f"{error.filename}: "
        console.complain(f"{command}: {where}{error.strerror}")
        return ERROR, False
    except KeyboardInterrupt:
        return INTERRUPTED, False
    except Exception as error:
        from ..errors import GpuconfError  # gpuconf run needs none of its modules, if there is no lease
        from ..jobs.execute import ProgramError

        if not isinstance(error, (GpuconfError, ProgramError)):
            raise
        console.complain(f"{command}: {error}")
        return error.code if isinstance(error, ProgramError) else ERROR, False


# The system refuses a file, a process or memory, or there is no folder for temporary files.
_NOT_OF_A_WRITE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOENT)


def _output_failed(command: str, error: OSError) -> int:
    if not isinstance(error, BrokenPipeError):  # else the reader has stopped on purpose
        console.complain(f"{command}: standard output: {error.strerror}")
    return ERROR
