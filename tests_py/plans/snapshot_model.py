"""The meaning of a memory snapshot, by Python's own unpickler: the model for gpuconf's reader.

It rejects everything that names code. It takes as much memory as the file claims, so it runs under a limit.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

Event = tuple[int, str, int, int, int, int]  # microseconds, action, GPU, address, bytes, stream

ACTIONS = {"alloc": "allocate", "free_completed": "free", "free": "free", "oom": "allocate failure"}
ACTIONS |= {name: name for name in ("segment_alloc", "segment_free", "segment_map", "segment_unmap")}


class RefusedError(Exception):
    """The file is not a snapshot."""


class PlainUnpickler(pickle.Unpickler):
    """Containers, numbers and text only."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError(f"{module_name}.{global_name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(str(pid))


def number(entry: dict[Any, Any], key: str, most: int, default: int | None = None) -> int:
    value = entry.get(key, default)
    if not isinstance(value, int) or not 0 <= value <= most:
        raise RefusedError(key)
    return int(value)


def expect(value: object, kind: type) -> Any:
    if not isinstance(value, kind):
        raise RefusedError(type(value).__name__)
    return value


def events_of(data: bytes) -> list[Event]:
    """The events, preceded by those of blocks that are live at the end and have no event. Raises RefusedError."""
    try:
        snapshot = PlainUnpickler(io.BytesIO(data)).load()
    except Exception as error:  # a damaged pickle fails in many ways
        raise RefusedError(str(error)) from None
    traces = expect(expect(snapshot, dict).get("device_traces"), list)
    found: list[Event] = []
    mentioned = set()
    for gpu, trace in enumerate(traces):
        for event in expect(trace, list):
            word = expect(event, dict).get("action")
            action = ACTIONS.get(word) if isinstance(word, str) else None
            if action is None:
                continue
            address = 0 if word == "oom" else number(event, "addr", 2**64 - 1)
            size, stream = number(event, "size", 2**63 - 1), number(event, "stream", 2**64 - 1, 0)
            time = number(event, "time_us", 2**33 * 10**6 - 1, 0)
            if gpu > 1023 or (address == 0 and size > 0 and action != "allocate failure"):
                raise RefusedError("a GPU or an address")
            if action in ("allocate", "free"):
                mentioned.add((gpu, address))
            found.append((time, action, gpu, address, size, stream))
    return [*live_before(snapshot, mentioned, found[0][0] if found else 0), *found]


def live_before(snapshot: dict[Any, Any], mentioned: set[tuple[int, int]], began: int) -> list[Event]:
    found: list[Event] = []
    for segment in expect(snapshot.get("segments", []), list):
        gpu, address = number(expect(segment, dict), "device", 1023, 0), number(segment, "address", 2**64 - 1)
        for block in expect(segment.get("blocks", []), list):
            size = number(expect(block, dict), "size", 2**63 - 1)
            live = block.get("state") in ("active_allocated", "active_pending_free")
            if live and (gpu, address) not in mentioned:
                nbytes = number(block, "requested_size", 2**63 - 1, size)
                if address == 0 and nbytes > 0:
                    raise RefusedError("address 0")
                found.append((began, "allocate", gpu, address, nbytes, 0))
            address = (address + size) % 2**64
    return found
