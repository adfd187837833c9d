"""PyTorch's memory snapshots: written for https://pytorch.org/memory_viz, and read without running anything that they name."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence

from . import errors
from ._typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

    from ._trace import Pools, TraceEvent

# Reading


class _PlainUnpickler(pickle.Unpickler):
    """Containers, numbers and text only: nothing in the file can name a class or a function, and so nothing in it runs."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module_name}.{global_name}; a snapshot holds plain containers only")

    def persistent_load(self, pid: Any) -> Any:  # noqa: ARG002 - the name is pickle's
        raise pickle.UnpicklingError("it asks for an object from elsewhere; a snapshot holds plain containers only")


def _refuse_extensions(data: bytes) -> None:
    """Refuse codes that stand for classes of this process: those that were used before don't go through find_class."""
    import copyreg

    if getattr(copyreg, "_inverted_registry", True):
        import pickletools

        if any(opcode.name in ("EXT1", "EXT2", "EXT4") for opcode, _, _ in pickletools.genops(data)):
            raise pickle.UnpicklingError("it asks for an extension; a snapshot holds plain containers only")


def read(data: bytes) -> str:
    """The events of a snapshot, as CSV."""
    import io

    try:
        _refuse_extensions(data)
        snapshot = _PlainUnpickler(io.BytesIO(data)).load()
    except Exception as error:  # a pickle that is none fails in many ways
        raise errors.InvalidArgumentError(f"it is no snapshot: {error or type(error).__name__}") from None
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("device_traces"), list):
        raise errors.InvalidArgumentError(
            "it is a pickle without device_traces: call torch.cuda.memory._record_memory_history() before what is to be seen"
        )
    lines = ["Thread,Time,Action,Pointer,Size,Stream,GPU"]
    seen: set[tuple[int, int]] = set()  # (GPU, address) of the blocks that events tell of
    for gpu, trace in enumerate(snapshot["device_traces"]):
        for i, event in enumerate(_list(trace, f"device_traces[{gpu}]")):
            lines += _line(event, gpu, f"device_traces[{gpu}][{i}]", seen)
    lines[1:1] = _always_live(snapshot.get("segments", []), seen, lines)
    return "\n".join(lines) + "\n"


# The action in the file, by torch's. A free is one when it is completed: until then a stream may use the memory.
_ACTIONS = {"alloc": "allocate", "free_completed": "free", "free": "free", "oom": "allocate failure"}
_SEGMENTS = ("segment_alloc", "segment_free", "segment_map", "segment_unmap")


def _line(event: object, gpu: int, where: str, seen: set[tuple[int, int]]) -> list[str]:
    if not isinstance(event, dict):
        raise errors.InvalidArgumentError(f"{where} is no dictionary, but {type(event).__name__}")
    action = event.get("action")
    told = action if action in _SEGMENTS else _ACTIONS.get(action) if isinstance(action, str) else None
    if told is None:
        return []
    address = 0 if action == "oom" else _number(event, "addr", where)
    if told in ("allocate", "free"):
        seen.add((gpu, address))
    micros = _number(event, "time_us", where, 0)
    size, stream = _number(event, "size", where), _number(event, "stream", where, 0)
    return [f"0,{micros // 1_000_000}.{micros % 1_000_000:06},{told},0x{address:x},{size},0x{stream:x},{gpu}"]


def _always_live(segments: object, seen: set[tuple[int, int]], lines: Sequence[str]) -> list[str]:
    """An allocation for each block that is live in the end and that no event tells of: it was there all the time."""
    began = lines[1].split(",", 2)[1] if len(lines) > 1 else "0"
    found = []
    for i, segment in enumerate(_list(segments, "segments")):
        where = f"segments[{i}]"
        if not isinstance(segment, dict):
            raise errors.InvalidArgumentError(f"{where} is no dictionary, but {type(segment).__name__}")
        gpu, address = _number(segment, "device", where, 0), _number(segment, "address", where)
        for j, block in enumerate(_list(segment.get("blocks", []), f"{where}.blocks")):
            inside = f"{where}.blocks[{j}]"
            if not isinstance(block, dict):
                raise errors.InvalidArgumentError(f"{inside} is no dictionary, but {type(block).__name__}")
            size = _number(block, "size", inside)
            live = block.get("state") in ("active_allocated", "active_pending_free")
            if live and (gpu, address) not in seen:
                found.append(f"0,{began},allocate,0x{address:x},{_number(block, 'requested_size', inside, size)},0x0,{gpu}")
            address += size
    return found


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise errors.InvalidArgumentError(f"{where} is no list, but {type(value).__name__}")
    return value


def _number(entry: dict[Any, Any], key: str, where: str, default: int | None = None) -> int:
    value = entry.get(key, default)
    if not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise errors.InvalidArgumentError(f"{where}: {key} is {_shown(value)}; a number from 0 to 2**64-1 was due")
    return int(value)


def _shown(value: object) -> str:
    return (
        repr(value)
        if isinstance(value, (bool, float, type(None))) or (isinstance(value, int) and value.bit_length() < 128)
        else type(value).__name__
    )


# Writing


def write(file: IO[bytes], events: Iterable[TraceEvent], pools: Pools | None) -> None:
    """Write a snapshot. Each free is two events, as in PyTorch; the viewer makes them one."""
    traces: list[list[dict[str, Any]]] = []
    extents = _Extents()
    for e in events:
        while len(traces) <= e.gpu:
            traces.append([])
        entry = {"addr": e.address, "size": e.nbytes, "stream": e.stream, "time_us": round(e.time * 1e6), "frames": []}
        if e.action == "allocate":
            traces[e.gpu].append({"action": "alloc", **entry})
            extents.allocate(e)
        elif e.action == "free":
            traces[e.gpu] += ({"action": "free_requested", **entry}, {"action": "free_completed", **entry})
            extents.free(e)
        elif e.action == "allocate failure":
            traces[e.gpu].append({"action": "oom", **entry, "device_free": 0})
        elif pools is not None:
            traces[e.gpu].append({"action": e.action, **entry})
    regions = extents.regions() if pools is None else pools
    segments = [_segment(gpu, region) for gpu in sorted(regions) for region in regions[gpu]]
    while len(traces) <= max(regions, default=-1):
        traces.append([])
    snapshot = {"segments": segments, "device_traces": traces, "allocator_settings": {}, "external_annotations": []}
    pickle.dump(snapshot, file, protocol=4)  # the viewer reads no later one


def _segment(gpu: int, region: Sequence[Any]) -> dict[str, Any]:
    """A segment, from [address, bytes, [[address, bytes, requested, in use], ...]]."""
    address, nbytes, chunks = region
    blocks = [
        {
            "address": start,
            "size": size,
            "requested_size": requested if in_use else size,
            "state": "active_allocated" if in_use else "inactive",
            "frames": [],
        }
        for start, size, requested, in_use in chunks
    ]
    in_use = sum(size for _, size, _, used in chunks if used)
    return {
        "device": gpu,
        "address": address,
        "total_size": nbytes,
        "allocated_size": in_use,
        "active_size": in_use,
        "requested_size": sum(requested for _, _, requested, used in chunks if used),
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


class _Extents:
    """Where blocks have been, for a trace that knows no segments: the viewer draws every block inside of one."""

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
    """What a stretch consists of, given all live blocks in order."""
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
