# SPDX-License-Identifier: Apache-2.0
"""Write PyTorch memory snapshots for https://pytorch.org/memory_viz. Go reads them: gocore/base/trace/snapshot.go."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence

from .._typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

    from .._core.stacks import Frame
    from ._trace import Pools, TraceEvent


def write(file: IO[bytes], events: Iterable[TraceEvent], pools: Pools | None) -> None:
    """Write a snapshot. Each free is two events, as in PyTorch; the viewer merges them."""
    traces: list[list[dict[str, Any]]] = []
    extents, frames = _Extents(), _Frames()
    origins: dict[tuple[int, int], dict[str, Any]] = {}  # of the last block at an address
    for e in events:
        while len(traces) <= e.gpu:
            traces.append([])
        entry = {
            "addr": e.address,
            "size": e.nbytes,
            "stream": e.stream,
            "time_us": round(e.time * 1e6),
            "frames": frames.of(e.stack),
        }
        if e.library or e.tag:
            entry.update(library=e.library, tag=e.tag)
        if e.action == "allocate":
            traces[e.gpu].append({"action": "alloc", **entry})
            extents.allocate(e)
            origins[e.gpu, e.address] = {"frames": entry["frames"], "library": e.library, "tag": e.tag}
        elif e.action == "free":
            traces[e.gpu] += ({"action": "free_requested", **entry}, {"action": "free_completed", **entry})
            extents.free(e)
        elif e.action == "allocate failure":
            traces[e.gpu].append({"action": "oom", **entry, "device_free": 0})
        elif pools is not None:
            traces[e.gpu].append({"action": e.action, **entry})
    regions = extents.regions() if pools is None else pools
    segments = [segment(gpu, region, origins) for gpu in sorted(regions) for region in regions[gpu]]
    while len(traces) <= max(regions, default=-1):
        traces.append([])
    snapshot = {"segments": segments, "device_traces": traces, "allocator_settings": {}, "external_annotations": []}
    pickle.dump(snapshot, file, protocol=4)  # the viewer reads no later one


def segment(
    gpu: int, region: Sequence[Any], origins: dict[tuple[int, int], dict[str, Any]], pool: tuple[int, int] = (0, 0)
) -> dict[str, Any]:
    """Return a segment for [address, bytes, [[address, bytes, requested, in use, library, tag], ...]]."""
    address, nbytes, chunks = region
    blocks = [
        {
            "address": start,
            "size": size,
            "requested_size": requested if in_use else size,
            "state": "active_allocated" if in_use else "inactive",
            "frames": [],
            **(origins.get((gpu, start), {}) if in_use else {}),
        }
        for start, size, requested, in_use, *_ in chunks
    ]
    in_use = sum(size for _, size, _, used, *_ in chunks if used)
    return {
        "device": gpu,
        "address": address,
        "total_size": nbytes,
        "allocated_size": in_use,
        "active_size": in_use,
        "requested_size": sum(requested for _, _, requested, used, *_ in chunks if used),
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": pool,
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


class _Frames:
    """Stacks in PyTorch's format. Equal ones are one object, which a pickle contains once."""

    def __init__(self) -> None:
        self._stacks: dict[tuple[Frame, ...], list[dict[str, Any]]] = {}
        self._frames: dict[Frame, dict[str, Any]] = {}

    def of(self, stack: tuple[Frame, ...]) -> list[dict[str, Any]]:
        if stack not in self._stacks:
            self._stacks[stack] = [
                self._frames.setdefault(f, {"filename": f[0], "line": f[1], "name": f[2]}) for f in stack
            ]
        return self._stacks[stack]


class _Extents:
    """The address ranges of all blocks, for a trace without segments: the viewer draws every block inside a segment."""

    def __init__(self) -> None:
        self._ever: dict[int, dict[int, int]] = {}  # GPU -> address -> most bytes
        self._live: dict[int, dict[int, int]] = {}

    def allocate(self, e: TraceEvent) -> None:
        if e.nbytes:
            ever = self._ever.setdefault(e.gpu, {})
            ever[e.address] = max(ever.get(e.address, 0), e.nbytes)
            self._live.setdefault(e.gpu, {})[e.address] = e.nbytes

    def free(self, e: TraceEvent) -> None:
        if self._live.get(e.gpu, {}).pop(e.address, None) is None and e.nbytes:
            ever = self._ever.setdefault(e.gpu, {})
            ever[e.address] = max(ever.get(e.address, 0), e.nbytes)

    def regions(self) -> Pools:
        regions: Pools = {}
        for gpu, ever in self._ever.items():
            merged: list[list[int]] = []
            for address, nbytes in sorted(ever.items()):
                if merged and address <= merged[-1][1]:
                    merged[-1][1] = max(merged[-1][1], address + nbytes)
                else:
                    merged.append([address, address + nbytes])
            live = sorted(self._live.get(gpu, {}).items())
            regions[gpu] = [[start, end - start, _chunks(start, end, live)] for start, end in merged]
        return regions


def _chunks(start: int, end: int, live: Sequence[tuple[int, int]]) -> list[tuple[int, int, int, bool]]:
    """Return the chunks of an address range, given all live blocks in order of address."""
    import bisect

    chunks = []
    at = start
    for address, nbytes in live[bisect.bisect_left(live, (start, 0)) :]:
        if address >= end:
            break
        if address > at:
            chunks.append((at, address - at, 0, False))
        if address >= at:
            chunks.append((address, nbytes, nbytes, True))
            at = address + nbytes
    if at < end:
        chunks.append((at, end - at, 0, False))
    return chunks
