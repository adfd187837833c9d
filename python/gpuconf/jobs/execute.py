# SPDX-License-Identifier: Apache-2.0
"""Starting a program as env(1) and shells do: found on PATH, and a script without a first line such as #!/bin/sh by
/bin/sh.
"""

from __future__ import annotations

import errno
import os
from _signal import SIG_DFL, SIGPIPE, signal  # type: ignore[import-not-found] # signal itself makes its numbers' classes first
from collections.abc import Callable, Mapping, Sequence

from .._core.programs import which
from .._typing import NoReturn

_NOT_EXECUTABLE, _NOT_FOUND = 126, 127  # exit codes, as of env(1), timeout(1) and shells
_LOOKED_AT = 128  # bytes of a file; a program in another machine's format has a zero byte there


class ProgramError(Exception):
    """The program of the command line cannot be started."""

    def __init__(self, program: str, error: OSError) -> None:
        found = not isinstance(error, FileNotFoundError)
        super().__init__(f"{program}: {_reason(error) if found else 'command not found'}")
        self.code = _NOT_EXECUTABLE if found else _NOT_FOUND


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOEXEC:
        return f"{error.strerror}: it is no program of this machine, and no script"
    return str(error.strerror)


def become(words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process with a program. Raises ProgramError."""
    signal(SIGPIPE, SIG_DFL)  # Python ignores it, and a program would inherit that

    def execute(command: Sequence[str]) -> int:
        os.execvpe(command[0], list(command), dict(environment))

    start(words, execute)
    raise AssertionError("the program has replaced this process")


def start(words: Sequence[str], execute: Callable[[Sequence[str]], int]) -> int:
    """Call a function that executes a command, and once more with /bin/sh if the command is a shell script.

    Raises ProgramError.
    """
    try:
        return execute(words)
    except OSError as error:
        script = _shell_script(words[0]) if error.errno == errno.ENOEXEC else None
        if script is None:
            raise ProgramError(words[0], error) from None
    try:
        return execute(["/bin/sh", script, *words[1:]])
    except OSError as error:
        raise ProgramError("/bin/sh", error) from None


def _shell_script(word: str) -> str | None:
    """Return the path of an executable text file; None for another one."""
    path = which(word)
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            begin = file.read(_LOOKED_AT)
    except OSError:
        return None
    return None if b"\0" in begin else os.path.join(os.curdir, path) if os.path.basename(path) == path else path
