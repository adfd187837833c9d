# SPDX-License-Identifier: Apache-2.0
"""Traces of profilers, as RMM's CSV: PyTorch's (JSON) and Nsight Systems' (SQLite)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from .. import errors
from .._typing import Any

_HEAD = "Thread,Time,Action,Pointer,Size,Stream,GPU\n"
_CUDA = 1  # PyTorch's number of the device type


def open_profile(name: str, start: bytes) -> int | None:
    """Return a descriptor of a profile as CSV, or None if the file's first bytes are not those of a profile."""
    if start.startswith(b"SQLite format 3\0"):
        lines = _of_nsight(name)
    elif start.startswith(b"\x1f\x8b") or start.lstrip()[:1] in (b"{", b"["):
        lines = _of_pytorch(name, start.startswith(b"\x1f\x8b"))
    else:
        return None
    text = "".join([_HEAD, *lines]).encode()
    descriptor = os.memfd_create("gpuconf-profile")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(text)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _of_pytorch(name: str, packed: bool) -> Iterator[str]:
    """Yield the memory events of ``torch.profiler.profile(profile_memory=True).export_chrome_trace``.

    A "[memory]" instant has the address, signed bytes, and the sum after it. What was allocated before the first one
    and is never freed is one block, which is freed at the end.
    """
    import json

    with _opened(name, packed) as file:
        try:
            content = json.load(file)
        except (ValueError, OSError, EOFError, RecursionError) as error:
            what = f"it is not JSON: {error}" + "; unpack a packed snapshot first" * packed
            raise errors.InvalidArgumentError(f"cannot read {name!r} as a trace: {what}") from None
    events = content.get("traceEvents", []) if isinstance(content, dict) else content
    wanted = (
        [e for e in events if isinstance(e, dict) and e.get("name") == "[memory]"] if isinstance(events, list) else []
    )
    instants = sorted(filter(None, map(_instant, wanted)))
    if not instants:
        raise errors.InvalidArgumentError(
            f"cannot read {name!r} as a trace: it has no memory events of a GPU; use "
            "torch.profiler.profile(profile_memory=True)"
        )
    yield from _signed((time, gpu, address, nbytes) for time, gpu, address, nbytes, _ in instants)
    last = instants[-1][0]
    for gpu in sorted({event[1] for event in instants}):
        before = _never_freed([event for event in instants if event[1] == gpu])
        if before > 0:
            yield f"0,{last / 1e6:.6f},free,0x{(1 << 62) + gpu:x},{before},0,{gpu}\n"


def _opened(name: str, packed: bool) -> Any:
    if packed:
        import gzip

        return gzip.open(name, "rt", encoding="utf-8", errors="replace")
    return open(name, encoding="utf-8", errors="replace")


def _instant(event: dict[str, Any]) -> tuple[float, int, int, int, int] | None:
    """Return the time in microseconds, the GPU, the address, the signed bytes and the sum after it."""
    args = event.get("args")
    if not isinstance(args, dict) or args.get("Device Type") != _CUDA:
        return None
    try:
        time, gpu, total = float(event["ts"]), int(args["Device Id"]), int(args.get("Total Allocated", 0))
        return time, gpu, int(args["Addr"]), int(args["Bytes"]), total
    except (KeyError, TypeError, ValueError):
        return None


def _never_freed(events: list[tuple[float, int, int, int, int]]) -> int:
    """Return what a GPU had before its first event and none of them frees, by the sum that its first event has."""
    first = events[0]
    before = first[4] - first[3]
    live: set[int] = set()
    for _, _, address, nbytes, _ in events:
        if nbytes > 0:
            live.add(address)
        elif address in live:
            live.discard(address)
        else:
            before += nbytes
    return before


def _signed(events: Iterable[tuple[float, int, int, int]]) -> Iterator[str]:
    for time, gpu, address, nbytes in events:
        action = "allocate" if nbytes > 0 else "free"
        yield f"0,{time / 1e6:.6f},{action},0x{address:x},{abs(nbytes)},0,{gpu}\n"


def _of_nsight(name: str) -> Iterator[str]:
    """Yield the memory events of ``nsys export --type sqlite`` (recorded with ``nsys profile
    --cuda-memory-usage=true``).

    They are the calls of the driver: what PyTorch's allocator takes are segments.
    """
    import sqlite3
    from urllib.parse import quote

    query = (
        "SELECT start, deviceId, address, bytes, memoryOperationType, memKind FROM CUDA_GPU_MEMORY_USAGE_EVENTS "
        "ORDER BY start"
    )
    try:
        connection = sqlite3.connect(f"file:{quote(os.path.abspath(name))}?mode=ro&immutable=1", uri=True)
        try:
            _limit_work(connection, os.path.getsize(name))
            if not _is_table(connection, "CUDA_GPU_MEMORY_USAGE_EVENTS"):
                raise sqlite3.DatabaseError("there is no table CUDA_GPU_MEMORY_USAGE_EVENTS")
            rows = connection.execute(query).fetchall()
            frees = _named(connection, "ENUM_CUDA_DEV_MEM_EVENT_OPER", ("dealloc", "free")) or {1}
            on_device = _named(connection, "ENUM_CUDA_MEM_KIND", ("device", "managed", "array")) or {2, 3, 4}
        finally:
            connection.close()
    except sqlite3.Error as error:
        text = (
            "it is an SQLite database without the memory events of Nsight Systems; record with `nsys profile "
            "--cuda-memory-usage=true`, export with `nsys export --type sqlite`"
        )
        raise errors.InvalidArgumentError(f"cannot read {name!r} as a trace: {text} ({error})") from None
    try:
        yield from _signed(
            (start / 1e3, int(gpu or 0), int(address), -int(nbytes) if operation in frees else int(nbytes))
            for start, gpu, address, nbytes, operation, kind in rows
            if kind in on_device and nbytes
        )
    except (TypeError, ValueError):
        raise errors.InvalidArgumentError(
            f"cannot read {name!r} as a trace: a memory event has a field of another type"
        ) from None


_STEP = 1 << 20  # instructions of SQLite
_FOR_A_BYTE = 64  # instructions; a row of a table takes fewer than that for each of its bytes


def _limit_work(connection: Any, nbytes: int) -> None:
    """Interrupt queries that take far more than reading the file once: others choose what it contains."""
    steps = iter(range(16 + _FOR_A_BYTE * nbytes // _STEP))
    connection.set_progress_handler(lambda: next(steps, -1) < 0, _STEP)


def _is_table(connection: Any, name: str) -> bool:
    """Whether a name is a table's with rows of its own. A view, or a table of a module, may have rows without end."""
    query = "SELECT 1 FROM sqlite_master WHERE name = ? AND type = 'table' AND rootpage > 0"
    return connection.execute(query, (name,)).fetchone() is not None


def _named(connection: Any, table: str, words: tuple[str, ...]) -> set[int]:
    """Return the numbers of an enumeration whose names contain one of the words; none if the file lacks the table."""
    if not _is_table(connection, table):
        return set()
    rows = connection.execute(f"SELECT id, name FROM {table}").fetchall()
    return {
        number
        for number, name in rows
        if any(word in str(name).lower() for word in words) and "static" not in str(name).lower()
    }
