# SPDX-License-Identifier: Apache-2.0
"""Workspaces that PyTorch only tries, with torch.backends.cudnn.benchmark: it leaves out those for which no memory is free.

So they raise a run's own peak, and are not what the program needs. The simulated cuDNN gives them sizes that end with a mark
(pybind/simulator/runtime/cudnn_workspace.c), and PyTorch frees each before it allocates anything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._typing import Any

_GRAIN, _MARK, _LEAST = 512, 435, 1 << 20


def is_tried(events: Sequence[dict[str, Any]], number: int) -> bool:
    """Whether an allocation of PyTorch's allocator is such a workspace. ``events`` are those of one device, in order."""
    event = events[number]
    if event["action"] != "alloc" or event["size"] < _LEAST or event["size"] % _GRAIN != _MARK:
        return False
    after = events[number + 1] if number + 1 < len(events) else {}
    return after.get("action") == "free_requested" and after["addr"] == event["addr"]


def without_tried(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events but for those of such workspaces."""
    rest, left = [], 0
    for number, event in enumerate(events):
        if is_tried(events, number):
            left = event["addr"]
        elif event["addr"] == left and event["action"].startswith("free_"):
            left = left if event["action"] == "free_requested" else 0
        else:
            rest.append(event)
    return rest
