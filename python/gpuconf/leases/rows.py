# SPDX-License-Identifier: Apache-2.0
"""What a ledger says of claims and processes, and the card that a caller offers it."""

from __future__ import annotations

from .._core.generated.ledger import CardLease, ClaimRow, PoolFigures, ProcessRow
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

    ``bytes`` is what the claim's programs may use on this card. ``charge`` is what the claim takes of it: ``bytes``,
    unless the claim reserves more beside them. All claims together take at most ``capacity`` less ``reserve`` and
    ``foreign``, which is what processes that are not in the ledger use of the card now. ``kind`` of memory
    ("dedicated", "unified" or "coherent") and ``source`` of the numbers ("NVML", "/proc/meminfo") are for error texts.
    """

    __slots__ = ()
