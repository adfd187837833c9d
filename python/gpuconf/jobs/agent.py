# SPDX-License-Identifier: Apache-2.0
"""The agent of a job that takes turns: a process of its own, which gives the job's memory to those that wait for it,
and brings it back.

It holds the job's lease, which the program inherits, and calls the driver, without the guard, from one thread. It is
the only one that closes the job's gate. It outlives ``gpuconf run``, which starts another one if it is killed: what the
ledger, the gate and the driver say is all that the next one needs.

    runs --close the gate, lock, checkpoint--> its memory is in the host's --park--> its cards are free
    parked --claim, return, restore, unlock, open the gate--> runs

A job to which memory is lent keeps its lease of the rest: who needs what was lent gets it after the limit is lowered,
idle memory is returned, and, if it still has more than its own, the program is suspended in the same way, until as much
is free again as it has.

All processes of the job that use the cards are locked before one of them is checkpointed, and restored before one is
unlocked: none works while another cannot. The ranks of one program stay: the work of one ends only with the others'.

When it leaves is decided by gocore/lease/turns, whose invariants these steps keep:

 1. The lease ends after the program's bytes are gone from the cards, and is there again before they come back. So an
    agent that is killed between two steps leaves a lease that is too large, never one that is too small.
 2. What is saved is reserved of the host's memory first.
 3. What fails before the memory has left is taken back, and the program runs on. A restore that fails is never tried
    again: no driver is known that can repair it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from .. import errors
from .._core.generated.ledger import CardLease, ClaimRow, Turns
from .._core.table import human_bytes
from .._typing import Any, NamedTuple
from ..leases.ledger import Card, Claim, Ledger, open_ledger
from ..leases.proc import start_of, stopped, variables_of
from ..leases.request import cards_again
from ..machine.cards import visible_devices
from .budget_file import BudgetFile
from .cgroup import host_room
from .gate import Gate, serve
from .turns import COMES, LEAST_CUDA, LEAVES, NO_ROOM, NONE, OFF, RUNS, TOO_OLD, Times, outlook

LOCKED, CHECKPOINTED = 1, 2  # CUprocessState
_ERRORS = {1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 3: "CUDA_ERROR_NOT_INITIALIZED",
           304: "CUDA_ERROR_OPERATING_SYSTEM", 401: "CUDA_ERROR_ILLEGAL_STATE", 600: "CUDA_ERROR_NOT_READY",
           800: "CUDA_ERROR_NOT_PERMITTED", 801: "CUDA_ERROR_NOT_SUPPORTED"}  # fmt: skip

_UNKNOWN = 3  # CUDA_ERROR_NOT_INITIALIZED

_LOOK = 1.0  # seconds between two looks at the ledger
_CLOSING = 10.0  # seconds in which the calls must end that were made before the gate was closed
_LOCK_MS = 10_000  # in which the driver must end the work that was submitted
_GONE = 10.0  # seconds in which NVML must show that the memory has left
# Seconds until a program is tried again that could not be parked; doubled each time: its calls wait while it is tried.
_AGAIN, _SELDOM = 60.0, 3600.0
_FIXED, _OUT, _IN = 0.14, 3.0e9, 5.3e9  # seconds, bytes a second: of an H100 with driver 580, until they are measured
_MARGIN = 64 << 20  # bytes that must be free beyond what is restored
_TRIMMING = 5.0  # seconds in which a job returns idle memory that was lent to it
_OFFERED = 30 * 60.0  # seconds after which a parked program gets a turn that it has not claimed: a call may be unseen
_SECOND = 1_000_000_000  # ns


class DriverError(Exception):
    """A call of the driver failed."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call}: {_ERRORS.get(code, code)}")
        self.call, self.code = call, code


class Driver:
    """The driver's process checkpoints, and what NVML says of cards. Raises UnavailableError without them."""

    def __init__(self) -> None:
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
            self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
            self._cuda.cuCheckpointProcessLock  # noqa: B018
        except (OSError, AttributeError):
            raise errors.UnavailableError(TOO_OLD) from None
        version = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(version))
        if version.value < LEAST_CUDA[0] * 1000 + LEAST_CUDA[1] * 10:
            raise errors.UnavailableError(TOO_OLD)
        self._call("cuInit", 0)
        if self._nvml.nvmlInit_v2() != 0:
            raise errors.UnavailableError("NVML does not start")

    def state(self, pid: int) -> int:
        """Return the CUprocessState of a process."""
        state = ctypes.c_int(-1)
        self._call("cuCheckpointProcessGetState", pid, ctypes.byref(state))
        return state.value

    def lock(self, pid: int) -> None:
        """Let the process's calls wait, and its work end."""
        self._call("cuCheckpointProcessLock", pid, (ctypes.c_uint * 16)(_LOCK_MS))

    def checkpoint(self, pid: int) -> None:
        """Move its memory to the host."""
        self._call("cuCheckpointProcessCheckpoint", pid, None)

    def restore(self, pid: int) -> None:
        """Move it back."""
        self._call("cuCheckpointProcessRestore", pid, None)

    def unlock(self, pid: int) -> None:
        """Let its calls go on."""
        self._call("cuCheckpointProcessUnlock", pid, None)

    def memory(self, uuid: str) -> tuple[int, int]:
        """Return the bytes of a card that are free, and those in use."""
        amounts = (ctypes.c_uint64 * 3)()  # total, free, used
        if self._nvml.nvmlDeviceGetMemoryInfo(self._device(uuid), amounts) != 0:
            raise errors.UnavailableError(f"NVML does not say what is free on {uuid}")
        return amounts[1], amounts[2]

    def bytes_of(self, pid: int, uuid: str) -> int | None:
        """Return what a process has of a card; None if NVML does not list it."""
        count = ctypes.c_uint(1024)
        rows = (_NvmlProcess * 1024)()
        if self._nvml.nvmlDeviceGetComputeRunningProcesses_v3(self._device(uuid), ctypes.byref(count), rows) != 0:
            return None
        return next((int(row.used) for row in rows[: count.value] if row.pid == pid), None)

    def _device(self, uuid: str) -> ctypes.c_void_p:
        device = ctypes.c_void_p()
        if self._nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(device)) != 0:
            raise errors.UnavailableError(f"NVML does not know {uuid}")
        return device

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._cuda, name)(*arguments)
        if code != 0:
            raise DriverError(name, code)


class _NvmlProcess(ctypes.Structure):
    _fields_ = (("pid", ctypes.c_uint), ("used", ctypes.c_uint64), ("instance", ctypes.c_uint), ("part", ctypes.c_uint))


class _EndedError(Exception):
    """The job has ended."""


class _StaysError(Exception):
    """A program that waits for its turn cannot go on, and gives its place in the queue up."""


class Saved(NamedTuple):
    """What of a program is in the host's memory."""

    pids: tuple[int, ...]  # of the processes that had something on the cards
    bytes: int
    cards: Sequence[CardLease]  # that it needs again, whatever becomes of the ledger


class Agent:
    """The agent of one job: a folder with its budget and its gate, and the claim of its lease."""

    def __init__(self, folder: str, ledger: Ledger, claim: Claim, run: int, program: int, times: Times) -> None:
        self._budget, self._gate = BudgetFile(os.path.join(folder, "budget")), Gate(folder)
        self._ledger, self._claim, self._run = ledger, claim, run
        self._program = program, start_of(program)
        self._driver = Driver()
        self._slice, self._idle = map(_ns, times)
        most, row = max(card.most for card in self._budget.usage().values()), self._row()
        # In bytes of each card; 0 for a program that takes turns.
        self._most_lent = most - min(one.bytes for one in row.cards) + row.lent if most else 0
        self._repaying = 0.0  # since when what was lent is needed; 0: it is not
        self._unfit, self._retry, self._again = "", 0.0, _AGAIN
        self._activity, self._idle_since = self._gate.activity(), 0
        self._saved: Saved | None = None
        self._times: tuple[int, int] | None = None  # out and in, ns, as they were measured
        self._swaps, self._waited = row.swaps, row.waited  # of agents before this one, too
        self._name, self._command = row.name, row.command

    def serve(self) -> None:
        """Serve the job until it has ended."""
        try:
            if self._gate.is_closed():
                self._take_over()
            elif self._row().host:  # of an agent that was killed before it closed the gate
                self._claim.unreserve()
            while not _is_asked(self._run):
                time.sleep(_LOOK)
                self._refuse_to_outlive()
                self._look()
        except _EndedError:
            self._gate.open()
        except errors.GpuconfError:
            if self._saved is None:  # its memory is on the cards, and the next agent may not be able to serve it
                self._gate.open()
            raise

    def _look(self) -> None:
        """Note what the program does, and park it if its memory is to go to those that wait."""
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        activity = self._gate.activity()
        busy = activity != self._activity or activity.inside > 0
        self._activity = activity
        self._idle_since = 0 if busy else self._idle_since or now
        target, why = self._target()
        self._say(RUNS, target.bytes, why)
        if self._gate.is_held() and not why:
            if self._park(target):
                self._until_its_turn()
            return
        if self._most_lent:
            self._lend(target, why)
            return
        if why:
            return
        plans = self._ledger.plans(host_room())
        own = [plan for plan in plans.plans if plan.gets and self._claim.id in plan.leave]
        if own and own[0].when <= plans.now and self._park(target):
            self._until_its_turn()

    def _lend(self, target: Saved, why: str) -> None:
        """Borrow what no other program needs, or return it to those that do: nothing more can be lent to a program that
        cannot be suspended.
        """
        plans = self._ledger.plans(host_room())
        needed = any(plan.gets and self._claim.id in plan.repay for plan in plans.plans)
        if not needed and not why:
            self._repaying = 0.0
            self._limit_to(self._claim.lend(0, self._most_lent, self._cards_now()))
            return
        if needed and not self._repaying:
            self._repaying = time.monotonic()
            self._gate.trim()
        self._limit_to(0)
        beyond = self._beyond()
        self._claim.lend(0, min(beyond, self._row().lent))
        if needed and beyond and time.monotonic() > self._repaying + _TRIMMING and self._park(target):
            self._until_its_turn()

    def _limit_to(self, lent: int) -> None:
        """Set the job's limit to what it leases for sure, and what is lent to it."""
        row = self._row()
        self._budget.set_limits({one.uuid: one.bytes - row.lent + lent for one in row.cards})

    def _beyond(self) -> int:
        """Return how much the job has on a card beyond what it leases for sure."""
        row, use = self._row(), self._budget.usage()
        return max(0, *(use[one.uuid].used - (one.bytes - row.lent) for one in row.cards))

    def _cards_now(self) -> Sequence[Card]:
        return cards_again(self._leased(), visible_devices(), self._ledger)

    def _target(self) -> tuple[Saved, str]:
        """Return what is to be saved of the program, and why it cannot be; "" if it can."""
        use, cards = self._budget.usage(), self._leased()
        pids = tuple(sorted({one.pid for card in use.values() for one in card.processes if one.contexts}))
        listed = sum(self._driver.bytes_of(pid, card.uuid) or 0 for pid in pids for card in cards)
        why = self._gate.why_blind()
        if len(pids) > 1 and any(map(_is_rank, pids)):
            why = f"{len(pids)} of its processes use the GPU, and are the ranks of one program"
        if any(card.uuid.startswith("MIG-") for card in cards):
            why = "it is on a MIG instance"
        if any(map(stopped, pids)):
            why = "it is stopped"  # and the driver would wait for it
        if time.monotonic() < self._retry:
            why = self._unfit
        return Saved(pids, max(listed, sum(card.used for card in use.values())), cards), why

    def _leased(self) -> Sequence[CardLease]:
        return self._row().cards

    def _row(self) -> ClaimRow:
        for row in self._ledger.claims():
            if row.id == self._claim.id:
                return row
        raise errors.UnavailableError(f"the ledger {self._claim.folder} no longer has lease {self._claim.id}")

    def _say(self, phase: int, count: int, why: str) -> None:
        phase = NONE if self._most_lent else phase  # it takes no turns
        out, back = self._times or (_ns(_FIXED + count / _OUT), _ns(_FIXED + count / _IN))
        waited = _ns(self._waited)
        self._claim.say(
            Turns(phase, self._idle_since, out, back, self._slice, self._idle, count, self._swaps, waited, why)
        )
        self._gate.note_said()

    # Leaving

    def _park(self, target: Saved) -> bool:
        """Move the program's memory to the host's, and free its cards. Returns False if it runs on instead."""
        begun, count = time.monotonic(), target.bytes
        cards = self._leased()
        if not self._claim.reserve(max(count, 1 << 20), host_room()):
            return self._failed(NO_ROOM, count)
        self._say(LEAVES, count, "")
        if not self._gate.close(_CLOSING):
            self._claim.unreserve()
            return self._failed("a call of it did not end in time", count)
        target, why = self._target()  # until the gate was closed it went on
        if target.bytes > count:
            self._claim.unreserve()
            if not self._claim.reserve(target.bytes, host_room()):
                why = NO_ROOM
        if why:
            self._gate.open()
            self._claim.unreserve()
            return self._failed(why, target.bytes)
        try:
            self._suspend(target, cards)
            if self._most_lent:
                self._claim.lend(0, 0)
            else:
                self._claim.park()
        except (DriverError, errors.GpuconfError) as error:  # such as a ledger that was removed
            self._take_back(target.pids, error)
            self._gate.open()
            self._claim.unreserve()
            return self._failed(str(error), count)
        self._saved, self._again = target, _AGAIN
        self._parked_at = time.monotonic()
        self._times = (_ns(self._parked_at - begun), self._times[1] if self._times else _ns(_FIXED + count / _IN))
        return True

    def _suspend(self, target: Saved, cards: Sequence[CardLease]) -> None:
        before = {
            card.uuid: (
                [self._driver.bytes_of(pid, card.uuid) for pid in target.pids],
                self._driver.memory(card.uuid)[1],
            )
            for card in cards
        }
        for step in (self._driver.lock, self._driver.checkpoint):
            for pid in target.pids:
                try:
                    step(pid)
                except DriverError:
                    if _lives(pid):
                        raise
        end = time.monotonic() + _GONE
        while target.pids and not self._is_gone(target, before):
            if time.monotonic() > end:
                raise errors.UnavailableError("its memory did not leave the card")
            time.sleep(0.01)

    def _take_back(self, pids: Sequence[int], why: Exception | None = None) -> None:
        """Let a program go on, from wherever each of its processes is. Its lease is there.

        A process of which the driver knows nothing, neither for ``why`` nor now, runs.
        """
        locked = [pid for pid in pids if self._does(self._restored, pid, why)]
        for pid in locked:
            self._does(self._driver.unlock, pid, why)

    def _does(self, step: Callable[[int], bool | None], pid: int, why: Exception | None) -> bool:
        """Take a step with a process. Where that fails the program is stuck until the process has ended."""
        try:
            return bool(step(pid))
        except DriverError as error:
            unknown = (
                isinstance(why, DriverError) and why.call.endswith("Lock") and {why.code, error.code} == {_UNKNOWN}
            )
            if _lives(pid) and not unknown:
                self._stuck(pid, error)
            return False

    def _restored(self, pid: int) -> bool:
        """Bring the memory of a process back that has left, and return whether the process is locked."""
        state = self._driver.state(pid)
        if state == CHECKPOINTED:
            self._driver.restore(pid)
        return state in (LOCKED, CHECKPOINTED)

    def _is_gone(self, target: Saved, before: Mapping[str, tuple[Sequence[int | None], int]]) -> bool:
        """Whether NVML no longer shows a program's memory. Where it does not list each process, by what is in use on
        the cards: others may have freed some of it, so nearly all of the program's must be gone.

        ``before`` has by card what each process had of it, None if that is not listed, and what was in use.
        """
        if all(own is not None for listed, _ in before.values() for own in listed):
            return not any(self._driver.bytes_of(pid, uuid) for uuid in before for pid in target.pids)
        return sum(used - self._driver.memory(uuid)[1] for uuid, (_, used) in before.items()) >= target.bytes * 9 // 10

    def _failed(self, why: str, count: int) -> bool:
        self._unfit, self._retry = why, time.monotonic() + self._again
        if why != NO_ROOM:
            self._again = min(2 * self._again, _SELDOM)
        self._say(RUNS, count, why)
        return False

    # Coming back

    def _take_over(self) -> None:
        """Go on for an agent that was killed while the gate was closed."""
        target, _ = self._target()
        away = self._most_lent and any(map(self._is_away, target.pids))
        if away or self._row().state == "parked":
            self._saved, self._parked_at = target, time.monotonic()
            self._until_its_turn()
        else:
            self._take_back(target.pids)
            self._runs()

    def _is_away(self, pid: int) -> bool:
        try:
            return self._driver.state(pid) == CHECKPOINTED
        except DriverError:  # it has just ended
            return False

    def _until_its_turn(self) -> None:
        """Wait until the program wants to go on, and for its memory. Then bring it back."""
        assert self._saved is not None
        back = False
        while not back:
            while self._stays() or not (self._gate.is_wanted() or time.monotonic() > self._parked_at + _OFFERED):
                time.sleep(_LOOK) if self._gate.is_wanted() else self._gate.sleep(_LOOK)
                self._refuse_to_outlive()
            begun, lost = time.monotonic(), self._claim.is_lost()
            if lost:
                self._ledger = open_ledger(self._ledger.folder)
            with contextlib.suppress(_StaysError):
                self._borrow_again() if self._most_lent and not lost else self._claim_again(self._saved.cards, lost)
                back = True
            self._waited += time.monotonic() - begun
        self._restore(self._saved)

    def _stays(self) -> bool:
        """Whether the program is not to go on, or cannot: the driver would wait for a process that is stopped.

        One that was parked by hand goes on by itself if ``gpuconf resume`` cannot find it any more.
        """
        if self._gate.is_held() and (self._gate.is_lost() or self._claim.is_lost()):
            self._gate.hold(False)
        return self._gate.is_held() or any(map(stopped, self._saved.pids if self._saved else ()))

    def _refuse_to_wait(self) -> None:
        self._refuse_to_outlive()
        if self._stays():
            raise _StaysError

    def _borrow_again(self) -> None:
        """Wait until as much is lent as the program has."""
        begun, said = time.monotonic(), False
        while (beyond := self._beyond()) > self._claim.lend(beyond, self._most_lent, self._cards_now()):
            if not said and time.monotonic() > begun + _LOOK:
                said = True
                self._complain_there(f"waiting until {human_bytes(beyond)} of the GPU are lent again")
            time.sleep(_LOOK)
            self._refuse_to_wait()
        try:
            self._await_room(self._leased(), self._saved.bytes if self._saved else 0)
        except _StaysError:
            self._claim.lend(0, 0)
            raise

    def _claim_again(self, leases: Sequence[CardLease], lost: bool) -> None:
        """Lease the cards again: for the claim that is parked, or in place of one that the ledger has lost."""
        assert self._saved is not None
        begun, said = time.monotonic(), False

        def look() -> list[Any]:
            nonlocal said
            self._refuse_to_wait()
            if not said and time.monotonic() > begun + _LOOK:
                said = True
                amount = human_bytes(sum(one.bytes for one in leases))
                self._complain_there(f"waiting for {amount} of the GPU{self._place()}{outlook(self._ledger)}")
            return cards_again(leases, devices, self._ledger)

        devices = visible_devices()
        # The count of contexts is in the charge already.
        granted = self._ledger.claim(look, len(leases), name=self._name * lost, command=self._command)
        try:
            self._await_room(leases, self._saved.bytes)
            if lost:
                self._claim, granted = granted, self._claim
            else:
                self._say(COMES, self._saved.bytes, "")
                self._claim.return_to(granted)
        finally:
            granted.release()

    def _complain_there(self, text: str) -> None:
        """Say it on the terminal, and in the notebook's cell that waits."""
        _complain(text)
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC
        for pipe in filter(None, map(_own_pipe, self._saved.pids if self._saved else ())):
            # OSError: it has ended, or the pipe is full.
            with contextlib.suppress(OSError), open(os.open(pipe, flags), "wb", buffering=0) as file:
                file.write(f"{text}\n".encode())

    def _place(self) -> str:
        waiting = [row for row in self._ledger.claims() if row.state == "waiting"]
        own = next((place for place, row in enumerate(waiting, 1) if row.pid == os.getpid()), 0)
        return f": {own} of {len(waiting)} in line" if own else ""

    def _await_room(self, cards: Sequence[CardLease], count: int) -> None:
        """Wait until the cards really have the room: programs outside the ledger may use it.

        A process that was stopped meanwhile gives its place up: the driver would wait for it, and others for its cards.
        """
        self._refuse_to_wait()
        while any(self._driver.memory(one.uuid)[0] < min(count + _MARGIN, one.charge) for one in cards):
            time.sleep(_LOOK)
            self._refuse_to_wait()

    def _restore(self, saved: Saved) -> None:
        begun = time.monotonic()
        self._take_back([pid for pid in saved.pids if _lives(pid)])
        if self._times:
            self._times = (self._times[0], _ns(time.monotonic() - begun))
        self._swaps += 1
        self._runs()

    def _runs(self) -> None:
        self._saved, self._idle_since = None, 0
        try:
            if self._most_lent:
                self._repaying = 0.0
                self._limit_to(self._row().lent)
            self._claim.unreserve()
            self._say(RUNS, self._target()[0].bytes, "")
        finally:  # its memory is there, whatever can be said of it
            self._gate.open()

    def _stuck(self, pid: int, error: DriverError) -> None:
        """A process cannot go on. The gate stays closed until it has ended: its calls would block in the driver."""
        why = f"its memory could not be brought back ({error})"
        _complain(f"{why}: it stays in the host's memory, and only ending PID {pid} helps")
        while _lives(pid):
            with contextlib.suppress(errors.GpuconfError):  # the ledger was removed
                self._say(RUNS, 0, why)
            time.sleep(_LOOK)
            self._refuse_to_outlive()

    def _refuse_to_outlive(self) -> None:
        """Raise if neither ``gpuconf run`` nor a process of the job is left, also one that does not use the GPU: it may
        start others that do, such as the server of a notebook.
        """
        program, start = self._program
        lives = start and start_of(program) == start
        if _has_ended(self._run) and not lives and not self._budget.alive():
            raise _EndedError


def _is_rank(pid: int) -> bool:
    """Whether a launcher such as torchrun has started the process as one of several."""
    variables = variables_of(pid)
    return variables.get("WORLD_SIZE", "1") != "1" and "RANK" in variables


def _own_pipe(pid: int) -> str:
    """Return the standard error of a notebook's kernel, which shows it in the cell: a pipe that the process itself
    reads. "" for other programs.
    """
    pipe = f"/proc/{pid}/fd/2"
    try:
        if not stat.S_ISFIFO(os.stat(pipe).st_mode):
            return ""
        for number in os.listdir(f"/proc/{pid}/fd"):
            with open(f"/proc/{pid}/fdinfo/{number}") as file:
                flags = next(line for line in file if line.startswith("flags:"))
            reads = int(flags.split()[1], 8) & os.O_ACCMODE == os.O_RDONLY
            if reads and os.path.samefile(pipe, f"/proc/{pid}/fd/{number}"):
                return pipe
    except OSError:
        pass
    return ""


def _lives(pid: int) -> bool:
    return start_of(pid) != 0


def _ns(seconds: float) -> int:
    return int(seconds * _SECOND)


def _has_ended(pipe: int) -> bool:
    """Whether the other end of a pipe is closed."""
    import select

    poll = select.poll()
    poll.register(pipe, 0)
    return bool(poll.poll(0))


def _is_asked(pipe: int) -> bool:
    """Whether the program asks its agent to end: its lease ends, and it goes on."""
    import select

    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return any(events & select.POLLIN for _, events in poll.poll(0))


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal is gone
        print(f"gpuconf: {text}", file=sys.stderr, flush=True)


def main(words: Sequence[str]) -> int:
    """Run an agent, as turns.py starts it."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # it ends with the job, and not in a call
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    folder, ledger_folder, claim, descriptor, run, program, slice_s, idle_s = words
    os.setsid()  # the terminal's signals are the program's
    try:
        if serve(folder) < 0:
            return 1
    except OSError as error:
        why = f"no memory is given to others or lent any more: {folder} cannot be used: {error.strerror}"
        _complain(f"{why}. If the program waits for the GPU, end it")
        return OFF
    try:
        ledger = open_ledger(ledger_folder, create=False)
        adopted = ledger.adopt(int(descriptor), claim)
        times = Times(float(slice_s), float(idle_s))
        agent = Agent(folder, ledger, adopted, int(run), int(program), times)
    except (errors.GpuconfError, DriverError) as error:
        waits = Gate(folder).is_closed()
        rest = "waits for the GPU until it is ended" if waits else "keeps what it leases, and nothing is lent to it"
        _complain(f"the program {rest}: {error}")
        return OFF
    try:
        agent.serve()
    except errors.GpuconfError as error:  # such as a ledger that was removed; the next agent tries again
        _complain(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
