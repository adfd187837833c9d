# SPDX-License-Identifier: Apache-2.0
"""What a ledger says of claims and processes."""

from __future__ import annotations

from collections import namedtuple

from .._core.table import Table

__all__ = ["Card", "CardLease", "ClaimRow", "PoolFigures", "ProcessRow"]


class Card(
    Table,
    namedtuple(
        "Card",
        ["uuid", "capacity", "bytes", "reserve", "foreign", "kind", "source", "charge"],
        defaults=[0, 0, "dedicated", "", None],
    ),
):
    """A card that a claim may get, as the caller knows it. All numbers are bytes.

    ``bytes`` is what the claim's programs may use on this card. ``charge`` is what the claim takes of it: ``bytes``, unless the
    claim reserves more beside them. All claims together take at most ``capacity`` less ``reserve`` and ``foreign``, which is what
    processes that are not in the ledger use of the card now. ``kind`` of memory ("dedicated", "unified" or "coherent") and
    ``source`` of the numbers ("NVML", "/proc/meminfo") are for error texts.
    """

    __slots__ = ()

    uuid: str
    capacity: int
    bytes: int
    reserve: int
    foreign: int
    kind: str
    source: str
    charge: int | None


class CardLease(Table, namedtuple("CardLease", ["uuid", "bytes", "charge"])):
    """Bytes of a card that a claim leases, or waits for; ``charge`` is what it takes of the card: these and what it reserves."""

    __slots__ = ()

    uuid: str
    bytes: int
    charge: int


class ClaimRow(
    Table,
    namedtuple(
        "ClaimRow",
        [
            "id",
            "pid",
            "start_time",
            "uid",
            "name",
            "job",
            "command",
            "state",
            "stopped",
            "cards",
            "count",
            "contexts",
            "ticket",
            "seconds",
            "gone",
            "local",
        ],
    ),
):
    """A claim of a live process, or of a child that inherited it.

    ``state`` is "granted" or "waiting". ``stopped``: it waits and has not looked for seconds, because its process is stopped or
    frozen; others pass it. ``cards`` are the leased cards; of a waiting claim, all that it may get, of which it needs ``count``.
    ``seconds`` is the time since the grant, or since the request. ``ticket`` orders the requests. ``gone``: the process has ended,
    and a child holds the claim. ``local``: ``pid`` is one of this PID namespace, not of another container's.
    ``contexts`` is how many CUDA contexts the charge has room for on each card; 0 if an older gpuconf made the claim.
    ``start_time`` is in clock ticks since boot. ``uid`` is reliable; the texts are what the process said of itself.
    """

    __slots__ = ()

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
    count: int
    contexts: int
    ticket: int
    seconds: float
    gone: bool
    local: bool


class PoolFigures(Table, namedtuple("PoolFigures", ["uuid", "number", "limit", "reserved", "in_use", "peak", "libraries"])):
    """A memory pool: its card, N of its name GPU:N, and its bytes. They are exact while the pool is idle.

    ``libraries`` are the bytes in use by library, "c", "gpuconf", "torch", "cupy" and "numba"; those that use none are left out.
    """

    __slots__ = ()

    uuid: str
    number: int
    limit: int
    reserved: int
    in_use: int
    peak: int
    libraries: dict[str, int]


class ProcessRow(
    Table, namedtuple("ProcessRow", ["pid", "start_time", "uid", "name", "job", "command", "claim_id", "pools", "gone", "local"])
):
    """A live process that publishes the figures of its pools. ``claim_id`` is the claim that it runs under, or ""."""

    __slots__ = ()

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
