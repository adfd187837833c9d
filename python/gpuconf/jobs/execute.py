# SPDX-License-Identifier: Apache-2.0
"""Programs: where they are, which ones they are by their names, and starting one as env(1) and shells do: found on
PATH, and a script without a first line such as #!/bin/sh by a shell.
"""

from __future__ import annotations

import errno
import os
import sys

# The module signal makes its numbers' classes first.
from _signal import SIG_DFL, SIGPIPE, signal  # type: ignore[import-not-found]
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from .._typing import NoReturn

# Programs: where they are, and which ones they are by their names.
#
# Without shutil and patterns, whose import and compilation take longer than all else that a command does with a
# program.

PYTHONS = ("python", "pypy")
_VERSION = "0123456789."


def which(command: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of a program, None if there is none, as shutil.which does."""
    return next(filter(_is_program, _places(command, environ)), None)


def _places(command: str, environ: Mapping[str, str]) -> Iterable[str]:
    folders = environ.get("PATH", os.defpath)
    if os.path.dirname(command) or not folders:
        return [command] if os.path.dirname(command) else []
    return (os.path.join(folder, command) for folder in folders.split(os.pathsep))


def check_there(words: Sequence[str]) -> None:
    """Raise ProgramError for an unknown program, or script of this Python, before a wait for it is in vain."""
    script = words[1] if words[0] == sys.executable and words[1:] and words[1].endswith(".py") else ""
    if not any(map(os.path.lexists, [script] if script else _places(words[0], os.environ))):
        raise ProgramError(script or words[0], FileNotFoundError())


def is_one_of(programs: Collection[str], path: str) -> bool:
    """Whether a path is of one of these programs, whose names may end in a version, and in the t of a Python without
    the lock.
    """
    name = os.path.basename(path)
    return name.rstrip(_VERSION) in programs or name.removesuffix("t").rstrip(_VERSION) in programs


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and not os.path.isdir(path)


_NOT_EXECUTABLE, _NOT_FOUND = 126, 127  # exit codes, as of env(1), timeout(1) and shells
_LOOKED_AT = 128  # bytes of a file; a program in another machine's format has a zero byte there


class ProgramError(Exception):
    """The program of the command line cannot be started."""

    def __init__(self, program: str, error: OSError) -> None:
        found = not isinstance(error, FileNotFoundError)
        super().__init__(f"{program}: {_reason(program, error) if found else _missing(program)}")
        self.code = _NOT_EXECUTABLE if found else _NOT_FOUND


def _reason(program: str, error: OSError) -> str:
    if os.path.isdir(program):
        return "it is a folder, and no program"
    if error.errno == errno.EACCES and os.path.isfile(program) and not os.access(program, os.X_OK):
        return f"the file is not executable: chmod +x {program}"
    if error.errno == errno.ENOEXEC:
        return f"{error.strerror}: it is no program of this machine, and no script"
    return str(error.strerror)


def _missing(program: str) -> str:
    first, space, _ = program.partition(" ")
    if os.path.isfile(program):
        return "command not found; the file of that name is not executable: name what runs it, too"
    if space and which(first):
        return f"command not found: {first} and its arguments are words of their own, so leave out the quotes"
    if "=" in program.partition("/")[0]:
        return f"command not found; to set a variable of a program, write env {program} PROGRAM"
    return "there is no such file" if program.endswith(".py") else "command not found"


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
