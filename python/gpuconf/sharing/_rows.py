# SPDX-License-Identifier: Apache-2.0
"""What a ledger says of claims and processes."""

from __future__ import annotations

from .._core.table import Table
from .._typing import NamedTuple

__all__ = ["Card", "CardLease", "ClaimRow", "PoolFigures", "ProcessRow"]


class _Card(NamedTuple):
    uuid: str
    capacity: int
    bytes: int
    reserve: int = 0
    foreign: int = 0
    kind: str = "dedicated"
    source: str = ""
    charge: int | None = None


class Card(Table, _Card):
    """A card that a claim may get, as the caller knows it. All numbers are bytes.

    ``bytes`` is what the claim's programs may use on this card. ``charge`` is what the claim takes of it: ``bytes``, unless the
    claim reserves more beside them. All claims together take at most ``capacity`` less ``reserve`` and ``foreign``, which is what
    processes that are not in the ledger use of the card now. ``kind`` of memory ("dedicated", "unified" or "coherent") and
    ``source`` of the numbers ("NVML", "/proc/meminfo") are for error texts.
    """

    __slots__ = ()


class _CardLease(NamedTuple):
    uuid: str
    bytes: int
    charge: int


class CardLease(Table, _CardLease):
    """Bytes of a card that a claim leases, or waits for; ``charge`` is what it takes of the card: these and what it reserves."""

    __slots__ = ()


class _ClaimRow(NamedTuple):
    id: str
    pid: int
    start_time: int
    uid: int
    name: str
    job: str
    command: str
    state: str
    stopped: bool
    cards: tuple[CardLease, ...]
    count: int  # type: ignore[assignment]  # hides tuple's
    contexts: int
    ticket: int
    seconds: float
    gone: bool
    local: bool


class ClaimRow(Table, _ClaimRow):
    """A claim of a live process, or of a child that inherited it.

    ``state`` is "granted" or "waiting". ``stopped``: it waits and has not looked for seconds, because its process is stopped or
    frozen; others pass it. ``cards`` are the leased cards; of a waiting claim, all that it may get, of which it needs ``count``.
    ``seconds`` is the time since the grant, or since the request. ``ticket`` orders the requests. ``gone``: the process has ended,
    and a child holds the claim. ``local``: ``pid`` is one of this PID namespace, not of another container's.
    ``contexts`` is how many CUDA contexts the charge has room for on each card; 0 if an older gpuconf made the claim.
    ``start_time`` is in clock ticks since boot. ``uid`` is reliable; the texts are what the process said of itself.
    """

    __slots__ = ()


class _PoolFigures(NamedTuple):
    uuid: str
    number: int
    limit: int
    reserved: int
    in_use: int
    peak: int
    libraries: dict[str, int]


class PoolFigures(Table, _PoolFigures):
    """A memory pool: its card, N of its name GPU:N, and its bytes. They are exact while the pool is idle.

    ``libraries`` are the bytes in use by library, "c", "gpuconf", "torch", "cupy" and "numba"; those that use none are left out.
    """

    __slots__ = ()


class _ProcessRow(NamedTuple):
    pid: int
    start_time: int
    uid: int
    name: str
    job: str
    command: str
    claim_id: str
    pools: tuple[PoolFigures, ...]
    gone: bool
    local: bool


class ProcessRow(Table, _ProcessRow):
    """A live process that publishes the figures of its pools. ``claim_id`` is the claim that it runs under, or ""."""

    __slots__ = ()
