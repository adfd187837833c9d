# SPDX-License-Identifier: Apache-2.0
"""What Go says, from pybind/wire/ledger.go. Written by pybind/generate.py; DO NOT EDIT."""

from __future__ import annotations

from ..._typing import Any, NamedTuple
from ..table import Table


class _CardRequest(NamedTuple):
    uuid: str  # "GPU-..." or "MIG-..."
    capacity: int  # the card's memory
    bytes: int  # what the claim's programs may use on the card
    charge: int  # what the claim takes of the card: these bytes or more
    reserve: int  # what is never leased
    foreign: int  # what processes outside the ledger use of the card now


class CardRequest(Table, _CardRequest):
    """A card that a claim may get.

    All claims together take at most its capacity less what is reserved and what is in use outside of the ledger.
    """

    __slots__ = ()


class _ClaimRequest(NamedTuple):
    cards: tuple[CardRequest, ...]  # the candidates
    # how many of them are needed
    count: int  # type: ignore[assignment]  # hides tuple's
    pack: bool  # whether to prefer the card with least room that fits
    contexts: int  # CUDA contexts that the charges have room for on each card; 0: not known
    name: str  # of the lease
    job: str  # the name of its job
    command: str  # the command line


class ClaimRequest(Table, _ClaimRequest):
    """What a claim requests: bytes on a number of cards, all or nothing."""

    __slots__ = ()


class _PublishRequest(NamedTuple):
    name: str  # of its lease
    job: str  # the name of its job
    command: str  # the command line


class PublishRequest(Table, _PublishRequest):
    """What a process says of itself."""

    __slots__ = ()


class _CardLease(NamedTuple):
    uuid: str  # "GPU-..." or "MIG-..."
    bytes: int  # what the claim's programs may use on the card
    charge: int  # what it takes of the card: these bytes and what it reserves beside them


class CardLease(Table, _CardLease):
    """Bytes of a card that a claim leases, or waits for."""

    __slots__ = ()

    @classmethod
    def _read(cls, row: Any) -> CardLease:
        return cls(*row)


class _Grant(NamedTuple):
    id: str  # the claim's, 32 hexadecimal digits
    cards: tuple[CardLease, ...]  # the leased cards; none while the claim waits
    descriptor: int  # the open file that holds the claim


class Grant(Table, _Grant):
    """The state of a claim of this process."""

    __slots__ = ()

    @classmethod
    def _read(cls, row: Any) -> Grant:
        row[1] = tuple(map(CardLease._read, row[1]))
        return cls(*row)


class _ClaimRow(NamedTuple):
    id: str  # 32 hexadecimal digits
    pid: int  # the process that made the claim
    start_time: int  # of the process, in clock ticks since boot
    uid: int  # reliable, unlike the texts
    name: str  # of the lease
    job: str  # the name of its job
    command: str  # the command line
    state: str  # "granted" or "waiting"
    stopped: bool  # It waits and has not looked for seconds, because its process is stopped or frozen; others pass it
    cards: tuple[CardLease, ...]  # The leased cards; of a waiting claim, all that it may get, of which it needs count
    # the number of cards that it needs
    count: int  # type: ignore[assignment]  # hides tuple's
    contexts: int  # CUDA contexts that the charge has room for on each card; 0 if an older gpuconf made the claim
    ticket: int  # the order of the requests
    seconds: float  # the time since the grant, or since the request
    gone: bool  # the process has ended, and a child holds the claim
    local: bool  # pid is one of this PID namespace, not of another container's


class ClaimRow(Table, _ClaimRow):
    """A claim of a live process, or of a child that inherited it. The texts are what the process said of itself."""

    __slots__ = ()

    @classmethod
    def _read(cls, row: Any) -> ClaimRow:
        row[9] = tuple(map(CardLease._read, row[9]))
        return cls(*row)


class _PoolFigures(NamedTuple):
    uuid: str  # of its card
    number: int  # N of its name GPU:N
    limit: int  # the hard limit
    reserved: int  # what it has taken from the card
    in_use: int  # the total size of live blocks
    peak: int  # the maximum of in_use
    libraries: dict[str, int]  # In use by library, "c", "gpuconf", "torch", "cupy" and "numba"; those that use none are left out


class PoolFigures(Table, _PoolFigures):
    """The figures of a memory pool, exact while the pool is idle."""

    __slots__ = ()

    @classmethod
    def _read(cls, row: Any) -> PoolFigures:
        return cls(*row)


class _ProcessRow(NamedTuple):
    pid: int  # the process
    start_time: int  # in clock ticks since boot
    uid: int  # reliable, unlike the texts
    name: str  # of its lease
    job: str  # the name of its job
    command: str  # the command line
    claim_id: str  # the claim that it runs under, or ""
    pools: tuple[PoolFigures, ...]  # one for each logical GPU
    gone: bool  # the process has ended, and a child keeps its slot
    local: bool  # pid is one of this PID namespace, not of another container's


class ProcessRow(Table, _ProcessRow):
    """A live process that publishes the figures of its pools. The texts are what it said of itself."""

    __slots__ = ()

    @classmethod
    def _read(cls, row: Any) -> ProcessRow:
        row[7] = tuple(map(PoolFigures._read, row[7]))
        return cls(*row)


class _LedgerRows(NamedTuple):
    claims: tuple[ClaimRow, ...]  # in the order of their tickets
    processes: tuple[ProcessRow, ...]  # those that publish figures


class LedgerRows(Table, _LedgerRows):
    """All that is alive in a ledger."""

    __slots__ = ()

    @classmethod
    def _read(cls, row: Any) -> LedgerRows:
        row[0] = tuple(map(ClaimRow._read, row[0]))
        row[1] = tuple(map(ProcessRow._read, row[1]))
        return cls(*row)
