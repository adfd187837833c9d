# SPDX-License-Identifier: Apache-2.0
"""First-fit decreasing: the largest size goes first, each onto the first card that has room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .packing import Packing


def first_fit(sizes: Iterable[int], cards: Sequence[int]) -> Packing:
    """Pack sizes onto cards, given by their capacities."""
    return Packing(*place(sizes, cards))


def place(sizes: Iterable[int], rooms: Sequence[int]) -> tuple[list[list[int]], list[int]]:
    """Return what goes into each room, and the sizes for which there is none."""
    leaves = 1
    while leaves < len(rooms):
        leaves *= 2
    most = [0] * leaves + list(rooms) + [0] * (leaves - len(rooms))  # the most room: node n covers nodes 2n and 2n+1
    for node in range(leaves - 1, 0, -1):
        most[node] = max(most[2 * node], most[2 * node + 1])
    contents: list[list[int]] = [[] for _ in rooms]
    unplaced = []
    for size in sorted(sizes, reverse=True):
        if most[1] < size:
            unplaced.append(size)
            continue
        node = 1
        while node < leaves:
            node = 2 * node if most[2 * node] >= size else 2 * node + 1
        contents[node - leaves].append(size)
        most[node] -= size
        while node := node // 2:
            most[node] = max(most[2 * node], most[2 * node + 1])
    return contents, unplaced
