# SPDX-License-Identifier: Apache-2.0
"""The layout of budget files, from gocore/lease/budget/budget.h. Written by pybind/build/generate.py; DO NOT EDIT."""

from __future__ import annotations

import struct

from ..._typing import NamedTuple

BUDGET_MAGIC = b"GCBUDGET"
BUDGET_VERSION = 3
BUDGET_INSTANCE = 1
HEADER_BYTES = 12288
MAX_CARDS = 64
MAX_SLOTS = 1024
MAX_NESTED = 8
SHARES = 1024
LOCKS = 1099511627776
LAUNCHER_LOCK = 1099511627774
BYTES_MASK = 4503599627370495


class BudgetHeader(NamedTuple):
    """struct budget_header."""

    magic: bytes
    version: int
    cards: int
    slots: int
    high: int
    size: int
    created: int
    launcher: int
    shares: int
    job: bytes
    parent: bytes


HEADER = struct.Struct("<8sIIIIQQII64s4096s")


class BudgetCard(NamedTuple):
    """struct budget_card."""

    uuid: bytes
    flags: int
    limit: int
    most: int
    peak: int
    refused: int
    shared: int
    contexts_peak: int


CARD = struct.Struct("<16sQQQQQQQ")


class BudgetSlot(NamedTuple):
    """struct budget_slot."""

    pid: int
    reserved: int
    name: bytes


SLOT = struct.Struct("<II24s")


class BudgetShare(NamedTuple):
    """struct budget_share."""

    id: int
    size: int
    card: int
    reserved: int
    holders: bytes


SHARE = struct.Struct("<QQII128s")
