"""Fork a child, watch it, and end it if it hangs.

Imports little, because what is imported here is no longer a first import elsewhere.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import sys
import time
import warnings
from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

warnings.filterwarnings("ignore", "This process .* is multi-threaded")  # from Python 3.12 on, at every fork

# A child needs milliseconds. On a machine so slow that this is not enough, nothing else would end in time either.
DEADLINE_S = 60.0

_BEGIN, _WRONG = b"\0", b"\1"


class Notes:
    """The child's end of its report to the parent."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def begin(self, operation: str) -> None:
        """Record that an operation starts. A child hangs in the last one recorded."""
        os.write(self._pipe, _BEGIN + operation.encode())

    def wrong(self, text: str) -> None:
        """Record what is wrong."""
        os.write(self._pipe, _WRONG + text.encode())


class Child(namedtuple("Child", ["hung_in", "wrong", "stack"])):
    """How a child ended."""

    hung_in: str  # the operation, or ""
    wrong: list[str]
    stack: str  # the Python stack of a child that hung


def fork(
    act: Callable[[Notes], None],
    whole_exit: bool = False,
    deadline_s: float = DEADLINE_S,
    forked: Callable[[], object] = bool,
) -> Child:
    """Fork, run ``act`` in the child, and wait for its end. ``forked`` is called here once there is a child.

    With ``whole_exit`` the child's interpreter shuts down normally.
    """
    sys.stdout.flush()
    read, write = os.pipe()
    stack = os.memfd_create("stack")
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _be_child(act, Notes(write), stack, whole_exit)
    forked()
    os.close(write)
    text, ended = _read_all(read, deadline_s)
    os.close(read)
    if not ended:
        os.kill(pid, signal.SIGUSR1)  # to show its stack
        time.sleep(1)
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    shown = os.pread(stack, 1 << 16, 0).decode()
    os.close(stack)
    operation, wrong = _understand(text)
    if ended and code != 0:
        wrong.append(f"it ended with code {code} in {operation}: {shown}")
    return Child("" if ended else operation, wrong, "" if ended else shown)


def _be_child(act: Callable[[Notes], None], notes: Notes, stack: int, whole_exit: bool) -> None:
    faulthandler.enable(stack)
    faulthandler.register(signal.SIGUSR1, stack, all_threads=True)
    try:
        act(notes)
    except BaseException as error:
        import traceback

        notes.wrong("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    notes.begin("the end of the process")
    if whole_exit:
        import ctypes

        ctypes.pythonapi.Py_Exit(0)
    os._exit(0)


def _read_all(read: int, deadline_s: float) -> tuple[bytes, bool]:
    """Read a pipe until the child ends; False if it does not."""
    text, end = b"", time.monotonic() + deadline_s
    while (left := end - time.monotonic()) > 0:
        if select.select([read], [], [], left)[0]:
            piece = os.read(read, 1 << 16)
            if not piece:
                return text, True
            text += piece
    return text, False


def _understand(text: bytes) -> tuple[str, list[str]]:
    """The last operation that started, and everything that was wrong."""
    operation, wrong = "the fork itself", []
    for note in text.split(_BEGIN):
        name, *more = note.decode().split("\1")
        operation = name or operation
        wrong += more
    return operation, wrong


def refused_or_not(act: Callable[[], object], refused: type[BaseException]) -> str:
    """Run something: "refused" if it raises that error, "quiet" if it raises nothing, else the error's text."""
    try:
        act()
    except refused:
        return "refused"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "quiet"
