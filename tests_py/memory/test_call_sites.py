"""The line of a program that is named for an allocation, whatever else its stack contains."""

from __future__ import annotations

import json
import pathlib
import pickle
from typing import Any

import gpuconf
import pytest
from gpuconf._core.stacks import call_site, shown

# gocore/base/trace has the same rule: tests_go/base/trace reads this table, too.
ROWS = json.loads(
    (pathlib.Path(__file__).parents[2] / "tests_go" / "base" / "trace" / "testdata" / "call_sites.json").read_text()
)
GIB = 1 << 30


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["case"])
def test_call_sites(row: dict[str, Any]) -> None:
    site = call_site(tuple(tuple(frame) for frame in row["stack"]))
    assert site == (row["call_site"] and tuple(row["call_site"]))


def test_a_node_of_the_backward_pass_is_named_as_one() -> None:
    assert shown(("", 0, "MmBackward0")) == "MmBackward0 (backward pass)"
    assert shown(("train.py", 3, "step")) == "train.py:3 (step)"
    assert shown(("", 0, "at::_ops::mm::call(at::Tensor const&)")) == "at::_ops::mm::call(at::Tensor const&)"


def test_a_snapshot_of_the_default_stacks_names_the_programs_line(tmp_path: pathlib.Path) -> None:
    """torch.cuda.memory._record_memory_history() records frames of C++ first, and they were named for every block."""
    frames = [
        {"filename": "memory_snapshot.cpp", "line": 0, "name": "torch::cuda::(anonymous namespace)::gather_with_cpp()"},
        {"filename": "/home/me/train.py", "line": 42, "name": "step"},
    ]
    address = 0x7F0000000000
    block = {"address": address, "size": GIB, "requested_size": GIB, "state": "active_allocated", "frames": frames}
    segment = {
        "device": 0,
        "address": address,
        "total_size": GIB,
        "stream": 0,
        "segment_type": "large",
        "blocks": [block],
    }
    events = [
        {"action": a, "addr": address, "size": GIB, "stream": 0, "frames": frames} for a in ("segment_alloc", "alloc")
    ]
    path = tmp_path / "sites.pickle"
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [events]}, 4))
    plan = gpuconf.plan(path, policy="pytorch")
    assert "  1.00GiB in 1 block: at /home/me/train.py:42 (step)" in str(plan).splitlines()
    assert plan.usages[0].sites_at_peak[0].call_site == ("/home/me/train.py", 42, "step")
