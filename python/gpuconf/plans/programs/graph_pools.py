# SPDX-License-Identifier: Apache-2.0
"""Private pools that a program leaves: the last CUDA graph that has its memory there, or its MemPool, is gone.

PyTorch goes on to cache what such a pool has, and releases it where memory is short. Its record says nothing of that.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections import Counter

import torch

from ..._typing import Any
from .watching import now


class GraphPools:
    """Notes when private pools are left."""

    def __init__(self) -> None:
        self._users: Counter[tuple[int, int]] = Counter()
        self._left: dict[tuple[int, int], int] = {}  # when, in microseconds
        self._ends: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # of each user

    def install(self) -> None:
        """Watch graphs and pools that are made from now on."""
        graphs: Any = torch.cuda.CUDAGraph
        capture_end, reset = graphs.capture_end, graphs.reset

        def captured(graph: Any) -> None:
            capture_end(graph)
            self._use(graph, graph.pool())

        def without_memory(graph: Any) -> None:
            reset(graph)
            self._end(graph)

        graphs.capture_end, graphs.reset = captured, without_memory
        pools: Any = torch.cuda.MemPool
        make = pools.__init__

        def made(pool: Any, *args: Any, **named: Any) -> None:
            make(pool, *args, **named)
            self._use(pool, pool.id)

        pools.__init__ = made

    def _use(self, user: Any, pool: tuple[int, int]) -> None:
        self._end(user)
        self._users[pool] += 1
        self._ends[user] = end = weakref.finalize(user, self._unused, pool)
        end.atexit = False

    def _end(self, user: Any) -> None:
        end = self._ends.pop(user, None)
        if end is not None:
            end()

    def _unused(self, pool: tuple[int, int]) -> None:
        self._users[pool] -= 1
        self._left[pool] = now()

    def write(self, snapshot: Any) -> None:
        """Add an event to the snapshot for each pool that was left, where it has memory still."""
        has = {(segment["device"], tuple(segment["segment_pool_id"])): segment for segment in snapshot["segments"]}
        for (gpu, pool), segment in has.items():
            events = snapshot["device_traces"][gpu]
            if pool not in self._left or self._users[pool] or not events:
                continue
            at = bisect_right([event["time_us"] for event in events], self._left[pool])
            event = {"action": "pool_left", "addr": segment["address"], "size": 0, "stream": segment["stream"]}
            events.insert(at, {**event, "time_us": self._left[pool], "pool_id": pool, "frames": []})
