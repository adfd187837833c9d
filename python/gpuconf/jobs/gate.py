# SPDX-License-Identifier: Apache-2.0
"""The gate of a job that takes turns, from the side that closes it. How it works is in gocore/lease/budget/gate.h.

There is one who closes it: the job's agent.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import time
from collections.abc import Iterator

from .. import errors
from .._typing import NamedTuple
from ..leases.proc import start_of
from .budget_file import lock
from .generated.gate_layout import GATE, GATE_HEADER_BYTES, GATE_MAGIC, GATE_THREAD, GATE_THREAD_BYTES, GATE_THREADS
from .generated.gate_layout import Gate as _Header
from .generated.gate_layout import GateThread as _Thread

FILE = "gate"
_BYTES = GATE_HEADER_BYTES + GATE_THREADS * GATE_THREAD_BYTES
_CLOSED, _WANTED = len(GATE_MAGIC), len(GATE_MAGIC) + 4  # offsets in struct gate
_HELD, _TRIMS, _SAID = len(GATE_MAGIC) + 20, len(GATE_MAGIC) + 24, len(GATE_MAGIC) + 28
_SERVED = 1 << 40  # the byte that an agent locks as long as it lives
_LOOK = 0.001  # seconds between two looks at the words of threads

_FUTEX, _MEMBARRIER = {"x86_64": (202, 324), "aarch64": (98, 283)}.get(platform.machine(), (-1, -1))
_WAIT, _WAKE = 0, 1
_GLOBAL_EXPEDITED = 2
NO_MEMBARRIER = "this kernel has no membarrier()"


class Activity(NamedTuple):
    """What the threads of a job do."""

    calls: int  # that they have made, with those that they are in, modulo 2**32 for each
    inside: int  # calls that they are in


def create(folder: str, lends: bool) -> None:
    """Make the gate of a job's folder. It is open. With ``lends`` its processes return idle memory on request."""
    file = os.open(os.path.join(folder, FILE), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(file, 0, _BYTES)  # a hole that cannot be filled later ends the process with SIGBUS
        header = _Header(GATE_MAGIC, closed=0, wanted=0, high=0, full=0, deaf=0, held=0, trims=int(lends), said=0)
        os.pwrite(file, GATE.pack(*header), 0)
    finally:
        os.close(file)


class Gate:
    """An existing gate. Raises UnavailableError if there is none."""

    def __init__(self, folder: str) -> None:
        self._path = path = os.path.join(folder, FILE)
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise errors.UnavailableError(f"the gate {path} cannot be opened: {error.strerror}") from None
        try:
            self._memory = mmap.mmap(file, _BYTES)
        except (OSError, ValueError):
            raise errors.UnavailableError(f"the gate {path} is damaged") from None
        finally:
            os.close(file)
        self._closed = ctypes.c_uint32.from_buffer(self._memory, _CLOSED)
        self._wanted = ctypes.c_uint32.from_buffer(self._memory, _WANTED)
        self._held = ctypes.c_uint32.from_buffer(self._memory, _HELD)
        self._trims = ctypes.c_uint32.from_buffer(self._memory, _TRIMS)
        self._said = ctypes.c_uint32.from_buffer(self._memory, _SAID)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._space = os.stat("/proc/self/ns/pid").st_ino

    def is_lost(self) -> bool:
        """Whether its file was removed: no other process finds it then."""
        return not os.path.exists(self._path)

    def is_closed(self) -> bool:
        """Whether calls wait."""
        return bool(self._closed.value)

    def is_wanted(self) -> bool:
        """Whether a call has begun to wait since the gate was closed, or who parked the program lets it go on."""
        return bool(self._wanted.value)

    def why_blind(self) -> str:
        """Return why calls may pass a closed gate unseen; "" if none can."""
        header = _Header(*GATE.unpack_from(self._memory))
        if header.full:
            return f"more than {GATE_THREADS} of its threads have called the driver at one time"
        if header.deaf:
            return NO_MEMBARRIER
        if any(word.space != self._space for _, word in self._words()):
            return "a process of it is in another PID namespace"
        return ""

    def activity(self) -> Activity:
        """Return what the threads do."""
        words = [word for _, word in self._words()]
        return Activity(sum(word.made for word in words), sum(word.calls for word in words))

    def close(self, patience: float) -> bool:
        """Let no further call pass, and wait until none is in the driver.

        After ``patience`` seconds the gate is open again, and the result is False.
        """
        self._wanted.value = 0
        self._closed.value = 1
        if self._libc.syscall(_MEMBARRIER, _GLOBAL_EXPEDITED, 0, 0) != 0:
            self.open()
            return False
        end = time.monotonic() + patience
        while any(word.calls and not self._freed(place, word) for place, word in self._words()):
            if time.monotonic() >= end:
                self.open()
                return False
            time.sleep(_LOOK)
        return True

    def open(self) -> None:
        """Let all calls pass, also those that wait."""
        self._closed.value = 0
        self._wake(self._closed)

    def sleep(self, seconds: float) -> None:
        """Sleep for so long at most, and until a call waits."""
        whole = int(seconds)
        limit = (ctypes.c_long * 2)(whole, int((seconds - whole) * 1e9))
        self._libc.syscall(_FUTEX, ctypes.byref(self._wanted), _WAIT, 0, ctypes.byref(limit), None, 0)

    def is_held(self) -> bool:
        """Whether the program is to be parked, or stay parked, until it is to go on."""
        return bool(self._held.value)

    def hold(self, held: bool) -> None:
        """Park the program by hand, or let it go on: it wants its turn then."""
        self._held.value = int(held)
        if not held:
            self._wanted.value = 1
            self._wake(self._wanted)

    def note_said(self) -> None:
        """Count that the agent has said in the ledger how the job stands."""
        self._said.value += 1

    def said(self) -> int:
        """Return how often it has, modulo 2**32."""
        return self._said.value

    def trim(self) -> None:
        """Ask the processes of the job for idle memory."""
        self._trims.value += 1
        self._wake(self._trims)

    def trims(self, seen: int = 0) -> int:
        """Return how often idle memory was asked back, and 1; 0 if it never is. Waits until it is not ``seen``."""
        while seen and self._trims.value == seen:
            self._libc.syscall(_FUTEX, ctypes.byref(self._trims), _WAIT, seen, None, None, 0)
        return self._trims.value

    def _wake(self, word: ctypes.c_uint32) -> None:
        self._libc.syscall(_FUTEX, ctypes.byref(word), _WAKE, 1 << 30, None, None, 0)

    def _words(self) -> Iterator[tuple[int, _Thread]]:
        high = min(_Header(*GATE.unpack_from(self._memory)).high, GATE_THREADS)
        for place in range(GATE_HEADER_BYTES, GATE_HEADER_BYTES + high * GATE_THREAD_BYTES, GATE_THREAD_BYTES):
            word = _Thread(*GATE_THREAD.unpack_from(self._memory, place))
            if word.pid:
                yield place, word

    def _freed(self, place: int, word: _Thread) -> bool:
        """Free the word of a process that has ended in a call, and return whether it was one."""
        if word.space != self._space or start_of(word.pid) == word.start:
            return False
        GATE_THREAD.pack_into(self._memory, place, *_Thread(calls=0, made=0, start=0, space=0, pid=0))
        return True


def has_membarrier() -> bool:
    """Whether the kernel lets who closes a gate see the calls of all threads."""
    known = ctypes.CDLL(None, use_errno=True).syscall(_MEMBARRIER, 0, 0, 0)
    return known > 0 and bool(known & _GLOBAL_EXPEDITED)


def serve(folder: str) -> int:
    """Return a descriptor that says as long as it is open that a gate has an agent; -1 if it has one already."""
    file = os.open(os.path.join(folder, FILE), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    if lock(file, _SERVED):
        return file
    os.close(file)
    return -1


def is_served(folder: str) -> bool:
    """Whether a gate has a living agent. One that cannot be opened has none."""
    try:
        file = serve(folder)
    except OSError:
        return False
    if file >= 0:
        os.close(file)
    return file < 0
