# SPDX-License-Identifier: Apache-2.0
"""Messages from pybind/wire and gocore/lease/ledger and gocore/lease/turns.

Written by pybind/build/generate.py; DO NOT EDIT.
"""

from __future__ import annotations

from ..._typing import Any
from ..table import Table


class Card(Table):
    """A card that a claim may use, or uses."""

    uuid: str  # "GPU-..." or "MIG-..."
    bytes: int  # the memory that the program may use on the card
    charge: int  # what counts in all sums: these bytes or more; in a request, 0 means these bytes
    budget: int  # The most that all leases together may take now: the total less what processes outside the ledger use
    total: int  # the card's memory less its reserve


class CardLease(Table):
    """Bytes of a card that a claim leases, or waits for."""

    uuid: str  # "GPU-..." or "MIG-..."
    bytes: int  # what the claim's programs may use on the card
    charge: int  # what it takes of the card: these bytes and what it reserves beside them

    @classmethod
    def _read(cls, row: Any) -> CardLease:
        return cls(*row)


class ClaimRow(Table):
    """A claim of a live process, or of a child that inherited it. The texts are what the process said of itself."""

    id: str  # 32 hexadecimal digits
    pid: int  # in its PID namespace
    # When the process started, in clock ticks since boot: field 22 of /proc/PID/stat, without the shift of a time
    # namespace; 0 if unknown
    start_time: int
    uid: int  # reliable, unlike the texts
    name: str  # of the lease; each text may be ""
    job: str  # the name of the lease's job
    command: str  # the command line
    state: str  # "granted", "waiting" or "parked"
    stopped: bool  # It waits and has not looked for seconds, because its process is stopped or frozen; others pass it
    # The leased cards; of a waiting claim, all that it may get, of which it needs count; of a parked one, those that it
    # had
    cards: tuple[CardLease, ...]
    # the number of cards that it needs
    count: int  # type: ignore[assignment]  # hides tuple's
    # How many CUDA contexts the charge has room for on each card; 0 if that is not known, as of an older gpuconf
    contexts: int
    # How many bytes of each card are lent to a granted claim, of those that it leases (lent.go). 0 in a request
    lent: int
    ticket: int  # the order of the requests
    seconds: float  # the time since the grant, or since the request
    turns: bool  # whether its program takes turns
    keeps: str  # why its program keeps its memory with turns; "" if it does not
    slice: int  # the turn that its user requested, in nanoseconds; 0: the least
    idle_time: int  # after which its user lets it go, in nanoseconds; 0: the least
    swaps: int  # how often its memory has left the cards and come back
    waited: float  # the seconds for which it has waited to come back, in all
    host: int  # bytes of the host's memory that it has reserved to be parked in
    gone: bool  # the process has ended, and a child holds the claim
    holders: tuple[int, ...]  # of RowsWithHolders, if it is gone: the PIDs of its children, as far as /proc shows them
    local: bool  # pid is one of this PID namespace, not of another container's

    @classmethod
    def _read(cls, row: Any) -> ClaimRow:
        row[9] = tuple(map(CardLease._read, row[9]))
        row[23] = tuple(row[23])
        return cls(*row)


class PoolFigures(Table):
    """The figures of a memory pool, exact while the pool is idle."""

    uuid: str  # of its card
    number: int  # N of its name GPU:N
    limit: int  # the hard limit
    reserved: int  # what it has taken from the card
    in_use: int  # the total size of live blocks
    peak: int  # the maximum of in_use
    # In use by library, "c", "gpuconf", "torch", "cupy" and "numba"; those that use none are left out
    libraries: dict[str, int]

    @classmethod
    def _read(cls, row: Any) -> PoolFigures:
        return cls(*row)


class ProcessRow(Table):
    """A live process that publishes the figures of its pools. The texts are what it said of itself."""

    pid: int  # in its PID namespace
    # When the process started, in clock ticks since boot: field 22 of /proc/PID/stat, without the shift of a time
    # namespace; 0 if unknown
    start_time: int
    uid: int  # reliable, unlike the texts
    name: str  # of the lease; each text may be ""
    job: str  # the name of the lease's job
    command: str  # the command line
    claim_id: str  # the claim that it runs under, or ""
    pools: tuple[PoolFigures, ...]  # one for each logical GPU
    gone: bool  # the process has ended, and a child keeps its slot
    local: bool  # pid is one of this PID namespace, not of another container's

    @classmethod
    def _read(cls, row: Any) -> ProcessRow:
        row[7] = tuple(map(PoolFigures._read, row[7]))
        return cls(*row)


class Request(Table):
    """For bytes on a number of cards, all or nothing."""

    cards: tuple[Card, ...]  # the candidates, of which the policy picks; Leased is ignored
    # the number of cards that are needed
    count: int  # type: ignore[assignment]  # hides tuple's
    policy: int  # which of the candidates with room to prefer
    name: str  # of the lease; each text may be ""
    job: str  # the name of the lease's job
    command: str  # the command line
    # How many CUDA contexts the charge has room for on each card; 0 if that is not known, as of an older gpuconf
    contexts: int
    # How many bytes of each card are lent to a granted claim, of those that it leases (lent.go). 0 in a request
    lent: int


class Host(Table):
    """What the memory of the host has room for."""

    total: int  # bytes
    available: int  # bytes without swapping: what programs have reserved and not yet filled is not taken off
    group: int  # bytes that the control group of the program still lets it have

    @classmethod
    def _read(cls, row: Any) -> Host:
        return cls(*row)


class Turns(Table):
    """What a program that takes turns says of itself, for the plans of all (gocore/lease/turns).

    Times are since boot.
    """

    phase: int  # where it is, by number
    idle_since: int  # 0: it calls the driver
    out: int  # how long it takes to save its memory
    in_: int  # and to bring it back
    slice: int  # the turn that its user requested; 0: the least
    idle_time: int  # after which its user lets it go; 0: the least
    saved: int  # what it needs of the host's memory, in bytes
    swaps: int  # how often its memory has left and come back
    waited: int  # how long it has waited to come back, in all
    unfit: str  # why it is never parked; "" if it can be

    @classmethod
    def _read(cls, row: Any) -> Turns:
        return cls(*row)


class Plan(Table):
    """How a waiter gets its cards."""

    waiter: str  # its ID
    gets: bool  # whether it gets its cards: once they have left, or at once
    repay: tuple[str, ...]  # who returns for it what was lent, now
    leave: tuple[str, ...]  # who leaves for it, all at one time
    when: int  # when they leave
    blocked: tuple[str, ...]  # who could have left, and cannot be parked, or for whom the host has no room

    @classmethod
    def _read(cls, row: Any) -> Plan:
        row[2] = tuple(row[2])
        row[3] = tuple(row[3])
        row[5] = tuple(row[5])
        return cls(*row)


class Grant(Table):
    """The state of a claim of this process."""

    id: str  # the claim's, 32 hexadecimal digits
    cards: tuple[CardLease, ...]  # the leased cards; none while the claim waits
    descriptor: int  # the open file that holds the claim

    @classmethod
    def _read(cls, row: Any) -> Grant:
        row[1] = tuple(map(CardLease._read, row[1]))
        return cls(*row)


class Nap(Table):
    """The arguments of nap(), which sleeps until it is worth looking again at a ledger."""

    word: int  # the number of the word to sleep on
    was: int  # what the word was
    milliseconds: int  # the longest time to sleep
    deaf: bool  # there is no word: sleep for all of the time

    @classmethod
    def _read(cls, row: Any) -> Nap:
        return cls(*row)


class LedgerRows(Table):
    """All that is alive in a ledger."""

    claims: tuple[ClaimRow, ...]  # in the order of their tickets
    processes: tuple[ProcessRow, ...]  # those that publish figures

    @classmethod
    def _read(cls, row: Any) -> LedgerRows:
        row[0] = tuple(map(ClaimRow._read, row[0]))
        row[1] = tuple(map(ProcessRow._read, row[1]))
        return cls(*row)


class TurnPlans(Table):
    """How each claim that waits gets its cards."""

    now: int  # since boot, as all times of plans
    plans: tuple[Plan, ...]  # in the order of the requests

    @classmethod
    def _read(cls, row: Any) -> TurnPlans:
        row[1] = tuple(map(Plan._read, row[1]))
        return cls(*row)
