"""Snapshots of nine runs of PyTorch on GPUs, as torch.cuda.memory._dump_snapshot() writes them."""

from __future__ import annotations

import gzip
import json
import pathlib
import pickle
from typing import Any

FILES = sorted((pathlib.Path(__file__).parent.parent / "tests_go" / "plan" / "rewind" / "testdata").glob("*.json.gz"))


def snapshot(path: pathlib.Path) -> dict[str, Any]:
    record = json.loads(gzip.decompress(path.read_bytes()))
    segments = [_segment(s) for s in record["segments_at_end"]]
    trace = [
        {
            "action": action,
            "addr": addr,
            "size": size,
            "stream": stream,
            "time_us": 1_700_000_000_000_000 + micros,
            "frames": [],
        }
        for action, addr, size, stream, micros in record["trace"]
    ]
    return {"segments": segments, "device_traces": [trace], "allocator_settings": record["settings"]}


def _segment(s: dict[str, Any]) -> dict[str, Any]:
    blocks = [
        {"address": address, "size": size, "requested_size": requested, "state": state, "frames": []}
        for address, size, requested, state in s["blocks"]
    ]
    return {
        "device": 0,
        "address": s["address"],
        "total_size": s["total_size"],
        "stream": s["stream"],
        "segment_type": s["segment_type"],
        "segment_pool_id": tuple(s["pool"]),
        "is_expandable": s["expandable"],
        "frames": [],
        "blocks": blocks,
    }


def write(path: pathlib.Path, contents: dict[str, Any]) -> str:
    path.write_bytes(pickle.dumps(contents, protocol=4))
    return str(path)
