# SPDX-License-Identifier: Apache-2.0
"""The ledger: what the processes of this machine lease of its GPUs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence

from .. import errors
from .._core import runtime, texts
from .._core.block import Entered
from .._core.generated import ledger as wire
from .._core.generated.ledger import CardLease, ClaimRow, PoolFigures, ProcessRow
from .._core.handle import Handle
from .._core.message import dumps, loads
from .._core.native import Busy, by_hand, core
from .._core.settings import default_folder
from .._core.table import Table, human_bytes
from .._typing import Any
from .proc import user_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

_GRANTED = "null"  # what the core answers if there is no nap to take


class Card(Table):
    """A card that a claim may get, as the caller knows it. All numbers are bytes.

    ``bytes`` is what the claim's programs may use on this card. ``charge`` is what the claim takes of it: ``bytes``,
    unless the claim reserves more beside them. All claims together take at most ``capacity`` less ``reserve`` and
    ``foreign``, which is what processes that are not in the ledger use of the card now. ``kind`` of memory
    ("dedicated", "unified" or "coherent") and ``source`` of the numbers ("NVML", "/proc/meminfo") are for error texts.
    """

    uuid: str
    capacity: int
    bytes: int
    reserve: int = 0
    foreign: int = 0
    kind: str = "dedicated"
    source: str = ""
    charge: int | None = None


__all__ = [
    "Card",
    "CardLease",
    "Claim",
    "ClaimRow",
    "Ledger",
    "PoolFigures",
    "ProcessRow",
    "default_folder",
    "init_shared",
    "open_ledger",
]

# How often a waiting claim asks its caller for the state of the cards, in seconds.
_REFRESH_S = 1.0

# How long a call tries to get the ledger's lock, in seconds. Others hold it for microseconds, but there may be many of
# them on a machine that is overloaded. A request with a timeout tries as long as that, and a moment at least: who
# holds the lock may itself wait for a processor, which 20 requests on 2 busy cores showed.
_PATIENCE_S = 60.0
_MOMENT_S = 3.0

_MOST_HOLDERS = 10  # in an error text

POLICIES = ("spread", "pack")  # in the order of ledger.Policy

# The descriptors that hold this process's slots. A forked child closes its copies: they would keep the slots alive. It
# must not unlock them, which would end the parent's locks.
_descriptors: set[int] = set()


def _close_copies() -> None:
    for descriptor in _descriptors:
        try:  # noqa: SIM105 - contextlib takes longer to import than gpuconf
            os.close(descriptor)
        except OSError:
            pass
    _descriptors.clear()


os.register_at_fork(after_in_child=_close_copies)


def open_ledger(folder: str | None = None, *, create: bool = True) -> Ledger:
    """Open the ledger of a folder, by default :func:`default_folder`'s.

    If there is none, ``create`` makes a private one; otherwise NotFoundError is raised. FailedPreconditionError: the
    ledger is damaged, of another version, or others could change it. UnavailableError: the folder cannot be used, or
    the disk is full or read-only.
    """
    path = default_folder() if folder is None else os.path.abspath(os.path.expanduser(folder))
    return Ledger(path, create)


def why_unusable(folder: str) -> str:
    """Return why the folder, which holds no ledger, cannot become a private one; "" if it can. Changes nothing."""
    try:
        core.pybind_LedgerMayMake(_path(folder))
    except errors.GpuconfError as error:
        return str(error)
    return ""


def lost(folder: str) -> list[str]:
    """Return the leases of this user that the ledger of a folder does not have: one that was removed, or 0.2's.

    Changes nothing.
    """
    found: list[str] = loads(core.pybind_LedgerLost(_path(folder)))
    return found


def init_shared(folder: str, group: int | None = None) -> None:
    """Make a folder a ledger for all users, or for those of a group (a number). The caller becomes its administrator.

    FailedPreconditionError: the folder holds something else, or belongs to another user. AlreadyExistsError: it is a
    shared ledger.
    """
    core.pybind_LedgerInit(_path(os.path.abspath(os.path.expanduser(folder))), -1 if group is None else group)


class Ledger(Handle):
    """An open ledger. Closing it, or dropping it, keeps its claims."""

    def __init__(self, folder: str, create: bool) -> None:
        super().__init__(core.pybind_LedgerClose)
        self.folder = folder
        self.open(core.pybind_LedgerOpen, _path(folder), create)
        self._words = core.pybind_LedgerWords(self.number)

    @property
    def shared(self) -> bool:
        """True if several users may use it."""
        return bool(core.pybind_LedgerIsShared(self.number))

    def claim(
        self,
        cards: Sequence[Card] | Callable[[], Sequence[Card]],
        count: int = 1,
        *,
        policy: str = "spread",
        timeout: float | None = None,
        name: str = "",
        job: str = "",
        command: str = "",
        contexts: int = 0,
    ) -> Claim:
        """Lease bytes on ``count`` of the cards, all or nothing, and wait for them in order.

        ``policy`` picks among cards with room: "spread" the one with most, "pack" the one with least. ``timeout`` is in
        seconds: None waits without limit, 0 does not wait. ``cards`` may be a function, which is called about once a
        second for the current state. Ctrl-C, like any exception, withdraws the request. ``command`` is this process's
        command line by default. ``contexts``, for others to see, is how many CUDA contexts the charges of the cards
        have room for.

        DeadlineExceededError: the time is over; the text lists who holds the memory. InvalidArgumentError: the cards
        could never satisfy the request.
        """
        if policy not in POLICIES:
            raise errors.InvalidArgumentError(f"policy must be 'spread' or 'pack', not {policy!r}")
        now = cards() if callable(cards) else cards
        claim, begun = Claim(self), time.monotonic()
        try:
            texts = _text(name), _text(job), _text(command or own_command())
            claim._request(wire.Request(_requested(now), count, POLICIES.index(policy), *texts, contexts, 0), timeout)
            claim.contexts = contexts
            claim._wait(cards if callable(cards) else None, begun, timeout, now, count)
        except BaseException:
            claim.release()
            raise
        return claim

    def claims(self, *, holders: bool = False) -> list[ClaimRow]:
        """Return all live claims, in the order of their tickets, with the children that hold them if requested: these
        are looked for in all processes.
        """
        return list(self._rows(holders).claims)

    def processes(self) -> list[ProcessRow]:
        """Return all live processes that publish figures."""
        return list(self._rows().processes)

    def _rows(self, holders: bool = False) -> wire.LedgerRows:
        return wire.LedgerRows._read(loads(core.pybind_LedgerRows(self.number, holders)))

    def plans(self, host: wire.Host) -> wire.TurnPlans:
        """Return how each claim that waits gets its cards, by programs that take turns. Times are ns since boot."""
        return wire.TurnPlans._read(loads(core.pybind_LedgerPlans(self.number, dumps(host))))

    def adopt(self, descriptor: int, claim_id: str) -> Claim:
        """Return a claim that another process made, by the descriptor of it that this process has inherited.

        -1: this process has none, and the claim lives as long as another one that has.
        """
        if descriptor < 0:
            return self._adopt_by_file(claim_id)
        claim = Claim(self)

        def adopted(last: bool) -> None:
            claim.open(core.pybind_LedgerAdopt, self.number, descriptor, claim_id, last)

        self._patiently(adopted, None)
        claim.id, claim._descriptor = claim_id, descriptor
        _descriptors.add(descriptor)
        return claim

    def _adopt_by_file(self, claim_id: str) -> Claim:
        for name in os.listdir(self.folder):
            if name.startswith("slots-"):
                file = os.open(os.path.join(self.folder, name), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    return self.adopt(file, claim_id)
                except errors.NotFoundError:
                    os.close(file)
        raise errors.NotFoundError(f"the ledger {self.folder} has no claim {claim_id}")

    def check(self) -> list[str]:
        """Return what is wrong with the ledger, one sentence each. Empty: the invariants hold."""
        findings: list[str] = loads(core.pybind_LedgerCheck(self.number))
        return findings

    def publish(
        self, claim_id: str = "", *, name: str = "", job: str = "", command: str = "", timeout: float | None = None
    ) -> None:
        """Publish the figures of this process's pools, now and of later devices, as a process of a claim ("" for none).

        It replaces an earlier publication. :func:`unpublish` ends it; so does the end of the process.
        DeadlineExceededError: another process has held the ledger's lock for ``timeout`` seconds.
        """
        said = dumps((_text(name), _text(job), _text(command or own_command())))
        _forget_publication()
        descriptor = self._patiently(
            lambda last: int(core.pybind_LedgerPublish(self.number, claim_id, said, last)), timeout
        )
        _published[:] = [descriptor]
        _descriptors.add(descriptor)

    def _patiently(self, call: Callable[[bool], T], timeout: float | None) -> T:
        """Call until no other process holds the ledger's lock. The last call raises what is wrong.

        DeadlineExceededError: after ``timeout`` seconds. UnavailableError: without one, after a minute.
        """
        end = time.monotonic() + (_PATIENCE_S if timeout is None else max(timeout, _MOMENT_S))
        try:
            while (left := end - time.monotonic()) > 0:
                try:
                    return call(False)
                except Busy as busy:
                    self._nap(busy.nap, left)
            return call(True)
        except errors.UnavailableError as error:
            if timeout is None:
                raise
            raise errors.DeadlineExceededError(str(error)) from None

    def _nap(self, encoded: str, seconds: float) -> None:
        """Sleep until it is worth looking again, at most for a time. Signal handlers run meanwhile."""
        nap = wire.Nap._read(loads(encoded))
        milliseconds = min(nap.milliseconds, int(1000 * min(seconds, 1)) + 1)
        by_hand().nap(self._words, nap.word, nap.was, milliseconds, nap.deaf)


_published: list[int] = []  # the descriptor of this process's slot


def unpublish() -> None:
    """End the publication of this process's figures. Does nothing if there is none."""
    _forget_publication()
    core.pybind_LedgerUnpublish()


def _forget_publication() -> None:
    """Forget its descriptor before the core closes it."""
    _descriptors.difference_update(_published)
    _published.clear()
    runtime.current.published = None


class Claim(Entered, Handle):
    """Leased bytes.

    They are released by :meth:`release`, at the end of a ``with`` block, or when the object is dropped.

    The claim also ends with the process, unless a child inherited its descriptor: then with the last child.
    """

    id: str = ""
    contexts = 0
    cards: tuple[CardLease, ...] = ()
    _descriptor = -1

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(core.pybind_LedgerRelease)
        self._ledger = ledger

    def _request(self, request: wire.Request, timeout: float | None) -> None:
        encoded = dumps(request)

        def enter(last: bool) -> int:
            self.open(core.pybind_LedgerClaim, self._ledger.number, encoded, last)
            return self.number

        self._ledger._patiently(enter, timeout)
        self.id, _, self._descriptor = self._grant()
        _descriptors.add(self._descriptor)

    def _wait(
        self,
        cards: Callable[[], Sequence[Card]] | None,
        begun: float,
        timeout: float | None,
        now: Sequence[Card],
        count: int,
    ) -> None:
        refreshed = time.monotonic()
        changed = ""
        while True:
            try:
                nap = core.pybind_LedgerLook(self.number, changed, False)
                changed = ""
            except Busy as busy:
                nap = busy.nap
            if nap == _GRANTED:
                break
            at = time.monotonic()
            if timeout is not None and at - begun >= timeout:
                if self._ledger._patiently(lambda last: core.pybind_LedgerLook(self.number, "", last), 0) == _GRANTED:
                    break
                raise errors.DeadlineExceededError(self._too_late(timeout, now, count))
            if cards is not None and at - refreshed >= _REFRESH_S:
                refreshed, now = at, cards()
                changed = dumps(_requested(now))
                continue
            left = _REFRESH_S if timeout is None else begun + timeout - at
            self._ledger._nap(nap, min(left, refreshed + _REFRESH_S - at) if cards is not None else left)
        self.cards = self._grant().cards

    def _grant(self) -> wire.Grant:
        return wire.Grant._read(loads(core.pybind_LedgerGrant(self.number)))

    def _too_late(self, timeout: float, cards: Sequence[Card], count: int) -> str:
        """Return the text of the error: what was requested, the state of the cards, and who holds them."""
        size = _asked(max(cards, key=lambda card: card.bytes)) if cards else human_bytes(0)
        where = f"available on {count} of {len(cards)} card{'s' * (len(cards) > 1)}"
        lines = [f"{size} was not {where} within {timeout:g} s." if timeout else f"{size} is not {where}."]
        everybody = self._ledger.claims(holders=True)
        rows = [row for row in everybody if row.id != self.id]
        lines += [_state_of(card, rows) for card in cards[:_MOST_HOLDERS]]
        wanted = {card.uuid for card in cards}
        holders = [row for row in rows if row.state == "granted" and any(card.uuid in wanted for card in row.cards)]
        lines += [_holder(row) for row in sorted(holders, key=_leased, reverse=True)[:_MOST_HOLDERS]]
        if len(holders) > _MOST_HOLDERS:
            lines.append(f"  and {len(holders) - _MOST_HOLDERS} more")
        own = min((row.ticket for row in everybody if row.id == self.id), default=0)
        ahead = [row for row in rows if row.state == "waiting" and not row.stopped and row.ticket < own]
        lines += [_waiter(row) for row in ahead[:_MOST_HOLDERS]]
        if len(ahead) > _MOST_HOLDERS:
            lines.append(f"  and {len(ahead) - _MOST_HOLDERS} more that wait before this one")
        lines.append(f"  Wait{' longer' if timeout else ''}, request less memory, or end one of these processes.")
        return "\n".join(lines)

    def say(self, turns: wire.Turns) -> None:
        """Write what the claim's program says of its turns."""
        self._change(core.pybind_LedgerSay, dumps(turns))

    def lend(self, least: int, most: int, cards: Sequence[Card] = ()) -> int:
        """Borrow up to ``most`` bytes of each card beyond those that were requested, if no other claim waits for the
        card and ``least`` are there; or return what is more. Return how many are borrowed then.

        ``cards`` is the current state of the cards.
        """
        return int(self._change(core.pybind_LedgerLend, least, most, dumps(_requested(cards)) if cards else ""))

    def reserve(self, count: int, host: wire.Host) -> bool:
        """Reserve bytes of the host's memory for a program that is to be parked. Returns whether there are as many."""
        return bool(self._change(core.pybind_LedgerReserve, count, dumps(host)))

    def unreserve(self) -> None:
        """Give the host's memory back. Without any it does nothing."""
        self._change(core.pybind_LedgerUnreserve)

    def park(self) -> None:
        """Free the cards, which the program's memory has left, and keep the claim."""
        self._change(core.pybind_LedgerPark)

    def return_to(self, granted: Claim) -> None:
        """Lease the cards of another claim, for as many bytes, in place of those that the parked claim had.

        The other one is released.
        """
        self._change(core.pybind_LedgerReturn, granted.number)
        granted.close()

    def _change(self, call: Callable[..., T], *arguments: Any) -> T:
        return self._ledger._patiently(lambda last: call(self.number, *arguments, last), None)

    def fileno(self) -> int:
        """Return the descriptor that holds the claim. A child that inherits it (``pass_fds``) keeps the claim alive."""
        if self.closed:
            raise errors.FailedPreconditionError("the claim was released")
        return self._descriptor

    @property
    def folder(self) -> str:
        """The ledger's folder."""
        return self._ledger.folder

    def is_lost(self) -> bool:
        """Report whether the ledger was removed, or the file with this claim: new programs do not see it then."""
        try:
            return os.fstat(self.fileno()).st_nlink == 0 or not os.path.exists(
                os.path.join(self._ledger.folder, "ledger")
            )
        except OSError:
            return False

    def release(self) -> None:
        """Free the bytes at once, even if children inherited the descriptor. Does nothing on a second call."""
        self.close()

    def close(self) -> None:
        """Release it, also when the object is dropped. The descriptor's number may then be another file's."""
        _descriptors.discard(self._descriptor)
        self._descriptor = -1
        super().close()

    def _leave(self, *_: object) -> None:
        self.release()


def _requested(cards: Sequence[Card]) -> tuple[wire.Card, ...]:
    return tuple(map(_request_of, cards))


def _request_of(card: Card) -> wire.Card:
    """Return what the ledger compares: what does not fit into a card leaves nothing to lease."""
    for what in ("capacity", "bytes", "charge", "reserve", "foreign"):
        count = _charge(card) if what == "charge" else getattr(card, what)
        if not 0 <= count < 1 << 56:
            raise errors.InvalidArgumentError(f"{what} of {card.uuid} must be 0 to 2**56 bytes, not {count}")
    total = max(0, card.capacity - card.reserve)
    return wire.Card(_text(card.uuid), card.bytes, _charge(card), max(0, total - card.foreign), total)


def _charge(card: Card) -> int:
    return card.bytes if card.charge is None else card.charge


def _asked(card: Card) -> str:
    """Return what a claim would take of a card."""
    beside = _charge(card) - card.bytes
    return human_bytes(card.bytes) + (f", with {human_bytes(beside)} for CUDA contexts," if beside else "")


def _state_of(card: Card, rows: Sequence[ClaimRow]) -> str:
    leased = sum(held.charge for row in rows if row.state == "granted" for held in row.cards if held.uuid == card.uuid)
    total = max(0, card.capacity - card.reserve)
    room = max(0, total - card.foreign - leased)
    foreign = f", {human_bytes(card.foreign)} in use outside the ledger" if card.foreign else ""
    by = (
        " of a simulated GPU" if card.source == "simulation" else f" as {card.source} reports it" if card.source else ""
    )
    kind = f", {card.kind} memory{by}"
    return (
        f"  {card.uuid}: {human_bytes(room)} of {human_bytes(total)} left, {human_bytes(leased)} leased{foreign}{kind}"
    )


def _leased(row: ClaimRow) -> int:
    return sum(card.charge for card in row.cards)


def _taken(row: ClaimRow) -> str:
    beside = sum(card.charge - card.bytes for card in row.cards)
    return human_bytes(_leased(row) - beside) + (f" and {human_bytes(beside)} for CUDA contexts" if beside else "")


def _holder(row: ClaimRow) -> str:
    child = f"process {row.holders[0]}" if row.holders else "a child"
    gone = f" (ended; {child} holds the lease)" if row.gone else ""
    return f"  {_who(row)}{gone}, user {user_name(row.uid)}: {_taken(row)} for {row.seconds:.0f} s"


def _waiter(row: ClaimRow) -> str:
    size = human_bytes(max(card.bytes for card in row.cards))
    cards = f"{row.count} of {len(row.cards)} card{'s' * (len(row.cards) > 1)}"
    return f"  {_who(row)}, user {user_name(row.uid)}: waits before this one for {size} on {cards}"


def _who(row: ClaimRow) -> str:
    where = "" if row.local else " in another container"
    return f"process {row.pid}{where} {row.name or row.command}".rstrip()


def own_command() -> str:
    """Return this process's command line, for the rows that others see."""
    return " ".join(sys.orig_argv)


def _path(folder: str) -> str:
    return texts.check_text("the ledger's folder", folder)


def _text(value: str) -> str:
    """Return text that the core accepts: valid, without NUL."""
    return value.encode("utf-8", "replace").decode().replace("\0", " ")
