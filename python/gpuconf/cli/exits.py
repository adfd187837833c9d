# SPDX-License-Identifier: Apache-2.0
"""Exit codes, and the usage error."""

from __future__ import annotations

import errno

OK, ERROR, USAGE = 0, 1, 2
CONDITION = 3  # there is no GPU, or a condition that the command checks does not hold
DOES_NOT_FIT = DIFFERS = CONDITION
TIMED_OUT = 124  # as timeout(1)
NOT_EXECUTABLE, NOT_FOUND = 126, 127  # as env(1), timeout(1) and shells
INTERRUPTED = 130

EMPTY = "the name of the program is empty"  # that of an unset variable


class UsageError(Exception):
    """The command line is invalid."""


class ProgramError(Exception):
    """The program of the command line cannot be started."""

    def __init__(self, program: str, error: OSError) -> None:
        found = not isinstance(error, FileNotFoundError)
        super().__init__(f"{program}: {_reason(error) if found else 'command not found'}")
        self.code = NOT_EXECUTABLE if found else NOT_FOUND


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOEXEC:
        return f"{error.strerror}: it is no program of this machine, and no script"
    return str(error.strerror)
