# SPDX-License-Identifier: Apache-2.0
"""Workspaces that PyTorch only tries, with torch.backends.cudnn.benchmark: it leaves out those for which no memory is
free.

So they raise a run's own peak, and are not what the program needs. The simulated cuDNN gives them sizes that end with a
mark (gocore/sim/runtime/cudnn_workspace.c), and PyTorch frees each before it allocates anything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..._typing import Any

_GRAIN, _MARK, _LEAST = 512, 435, 1 << 20


_OF_BLOCKS = ("alloc", "free_requested", "free_completed")


def of_blocks(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of blocks. PyTorch records other actions, too, such as "oom", and not all have an address."""
    return [event for event in events if event["action"] in _OF_BLOCKS]


def is_tried(blocks: Sequence[dict[str, Any]], number: int) -> bool:
    """Whether an allocation is such a workspace. ``blocks`` are one device's events of blocks, in order."""
    event = blocks[number]
    if event["action"] != "alloc" or event["size"] < _LEAST or event["size"] % _GRAIN != _MARK:
        return False
    return is_freed_next(blocks, number)


def is_freed_next(blocks: Sequence[dict[str, Any]], number: int) -> bool:
    """Whether a block is freed before anything else happens to a block."""
    after = blocks[number + 1] if number + 1 < len(blocks) else {}
    return after.get("action") == "free_requested" and after["addr"] == blocks[number]["addr"]


def without_tried(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of one device but for those of such workspaces."""
    blocks = of_blocks(events)
    tried, left = set(), 0
    for number, event in enumerate(blocks):
        if is_tried(blocks, number):
            left = event["addr"]
        elif event["addr"] == left and event["action"] != "alloc":
            left = left if event["action"] == "free_requested" else 0
        else:
            continue
        tried.add(id(event))
    return [event for event in events if id(event) not in tried]
