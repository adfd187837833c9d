"""Plans of profilers' traces: PyTorch's [memory] instants, and Nsight Systems' SQLite export."""

from __future__ import annotations

import gzip
import json
import pathlib
import sqlite3
from typing import Any

import gpuconf
import pytest
from gpuconf import memory

MIB = 1 << 20


def instant(ts: float, address: int, nbytes: int, total: int, gpu: int = 0, kind: int = 1) -> dict[str, Any]:
    args = {
        "Total Reserved": 0,
        "Total Allocated": total,
        "Bytes": nbytes,
        "Addr": address,
        "Device Id": gpu,
        "Device Type": kind,
    }
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts, "args": args}


def test_pytorchs_profiler(tmp_path: pathlib.Path) -> None:
    """10 MiB were allocated before: 4 of them are freed, and 6 stay."""
    events = [
        instant(2.0, 0x1000, 2 * MIB, 12 * MIB),
        instant(3.0, 0x9000, -4 * MIB, 8 * MIB),
        instant(1.0, 0x5, 100, 100, gpu=-1, kind=0),  # the host's
        {"ph": "X", "name": "aten::mm", "ts": 2.5, "dur": 1},
        instant(4.0, 0x2000, 7 * MIB, 15 * MIB),
        instant(5.0, 0x2000, -7 * MIB, 8 * MIB),
        instant(6.0, 0x7, MIB, MIB, gpu=1),
    ]
    text = json.dumps({"schemaVersion": 1, "traceEvents": events})
    (tmp_path / "trace.json").write_text(text)
    (tmp_path / "spaced.json").write_text(f" \n{text}")  # PyTorch 2.15 begins with a space
    (tmp_path / "trace.json.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("trace.json", "spaced.json", "trace.json.gz"):
        assert "tensorflow" not in gpuconf.plan(tmp_path / name).policies  # only PyTorch writes it
        found = gpuconf.plan(tmp_path / name, policy="pytorch")
        assert [(u.gpu, u.peak_bytes_in_use, u.bytes_before, u.num_allocs) for u in found.usages] == [
            (0, 15 * MIB, 10 * MIB, 2),
            (1, MIB, 0, 1),
        ]


def test_nsight_systems(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "report1.sqlite"
    with sqlite3.connect(path) as database:
        fields = "start INT, globalPid INT, deviceId INT, address INT, bytes INT, memKind INT, memoryOperationType INT"
        database.execute(f"CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS ({fields})")
        rows = [
            (1000, 1, 0, 4096, 20 * MIB, 2, 0),
            (2000, 1, 0, 1 << 30, 64 * MIB, 1, 0),  # of the host
            (3000, 1, 0, 1 << 31, 2 * MIB, 2, 0),
            (4000, 1, 0, 4096, 20 * MIB, 2, 1),
        ]
        database.executemany("INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    database.close()
    (usage,) = gpuconf.plan(path, policy="virtual").usages
    assert (usage.peak_bytes_in_use, usage.live_blocks_after) == (22 * MIB, 1)


def test_another_programs_database_is_not_nsights(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "history.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE visits (url TEXT)")
    database.close()
    with pytest.raises(ValueError, match="is an SQLite database without the memory events of Nsight Systems"):
        gpuconf.plan(path, policy="virtual")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b'{"traceEvents": [', "it is not JSON"),
        (
            b'{"traceEvents": [{"name": "aten::mm"}]}',
            r"no memory events of a GPU; use torch.profiler.profile\(profile_memory=True\)",
        ),
        (b"[1, 2]", "no memory events of a GPU"),
        (b'{"traceEvents": 5}', "no memory events of a GPU"),
        (b"\x1f\x8bnonsense", "it is not JSON"),
        (b"SQLite format 3\0nonsense", "record with `nsys profile --cuda-memory-usage=true`"),
        (json.dumps([instant(1, 0, 5, 5)]).encode(), "without an address"),
    ],
)
def test_other_files(tmp_path: pathlib.Path, contents: bytes, message: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(contents)
    with pytest.raises(ValueError, match=message):
        memory.load_trace(path)
