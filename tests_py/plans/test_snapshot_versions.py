"""Snapshots of PyTorch's versions since 2.0, which differ in their fields, and snapshots with little in them."""

from __future__ import annotations

import json
import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import gpuconf
import pytest
import recorded_runs
from command import run


def _nothing(_: dict[str, Any]) -> None:
    pass


def _no_times(contents: dict[str, Any]) -> None:
    for event in contents["device_traces"][0]:
        del event["time_us"]


def _no_settings(contents: dict[str, Any]) -> None:
    del contents["allocator_settings"]


def _oldest(contents: dict[str, Any]) -> None:
    """As 2.0 writes it: the address and the requested size of a block are only in its history, which ends with its
    allocation.
    """
    _no_times(contents)
    _no_settings(contents)
    for segment in contents["segments"]:
        for name in ("is_expandable", "segment_pool_id", "frames"):
            del segment[name]
        segment["blocks"] = [{"size": b["size"], "state": b["state"], "history": [_past(b)]} for b in segment["blocks"]]


def _past(block: dict[str, Any]) -> dict[str, Any]:
    return {"addr": block["address"], "real_size": block["requested_size"], "frames": []}


def _newest(contents: dict[str, Any]) -> None:
    contents.update(host_segments=[], host_traces=[], external_annotations=[])
    for event in contents["device_traces"][0]:
        event.update(compile_context="N/A", user_metadata="", pool_id=(0, 0))


@pytest.fixture(scope="module")
def original() -> bytes:
    (path,) = (path for path in recorded_runs.FILES if path.name == "cnn.json.gz")
    return pickle.dumps(recorded_runs.snapshot(path))


@pytest.mark.parametrize("change", [_nothing, _no_times, _no_settings, _oldest, _newest])
def test_fields_of_other_versions(
    change: Callable[[dict[str, Any]], None], original: bytes, tmp_path: pathlib.Path
) -> None:
    contents = pickle.loads(original)
    least = (
        gpuconf.plan(recorded_runs.write(tmp_path / "run.pickle", contents), policy="pytorch").results[0].least_limit
    )
    change(contents)
    path = recorded_runs.write(tmp_path / "changed.pickle", contents)
    assert gpuconf.plan(path, policy="pytorch").results[0].least_limit == least
    status, out, err = run("plan", path, "--verify", "--json")
    counts = json.loads(out)
    assert (status, err) == (0, "")
    assert counts["same_address"] == counts["allocations"] > 1000
    assert counts["same_segments"] == counts["segments"]


HOST = {"address": 1 << 40, "total_size": 512, "blocks": []}


@pytest.mark.parametrize(
    "contents",
    [
        {"segments": [], "device_traces": []},
        {"segments": [], "device_traces": [[], []], "allocator_settings": {}},
        {
            "segments": [],
            "device_traces": [[]],
            "host_segments": [HOST],
            "host_traces": [{"action": "alloc", "addr": 1 << 40}],
        },
    ],
    ids=["no GPU", "two idle GPUs", "host memory"],
)
def test_a_program_that_used_no_gpu(contents: dict[str, Any], tmp_path: pathlib.Path) -> None:
    path = recorded_runs.write(tmp_path / "run.pickle", contents)
    told = "no allocations: record the job again, from its start to its end"
    assert run("plan", path) == (0, f"0 events, 0 allocations\n{told}\n", "")
    status, out, _ = run("plan", path, "--limit", "1GiB")  # neither fits nor does not
    assert (status, out.splitlines()[-1]) == (4, told)
    status, out, _ = run("plan", path, "--verify", "--json")
    assert (status, json.loads(out)["allocations"]) == (0, 0)


def test_two_gpus(original: bytes, tmp_path: pathlib.Path) -> None:
    """Each has its own segments and events; an altered address of the second one is found, too."""
    contents = pickle.loads(original)
    contents["segments"] += [{**segment, "device": 1} for segment in contents["segments"]]
    contents["device_traces"].append([dict(event) for event in contents["device_traces"][0]])
    path = recorded_runs.write(tmp_path / "run.pickle", contents)
    found = gpuconf.plan(path, policy="pytorch")
    assert [result.gpu for result in found.results] == [0, 1]
    assert found.results[0].least_limit == found.results[1].least_limit
    assert run("plan", path, "--verify")[0] == 0
    event = [event for event in contents["device_traces"][1] if event["action"] == "alloc"][-1]
    event["addr"] += 512
    assert run("plan", recorded_runs.write(tmp_path / "altered.pickle", contents), "--verify")[0] == 3


def test_lost_events(original: bytes, tmp_path: pathlib.Path) -> None:
    """PyTorch keeps the newest events. Those from the middle cannot be missing: the record would contradict itself."""
    contents = pickle.loads(original)
    (events,) = contents["device_traces"]
    contents["device_traces"] = [events[len(events) // 3 :]]
    status, out, _ = run("plan", recorded_runs.write(tmp_path / "cut.pickle", contents), "--verify", "--json")
    counts = json.loads(out)
    assert status == 0
    assert counts["same_address"] + counts["undetermined"] == counts["allocations"]
    frees = [i for i, event in enumerate(events) if event["action"] == "free_completed"]
    contents["device_traces"] = [[event for i, event in enumerate(events) if i != frees[len(frees) // 2]]]
    assert run("plan", recorded_runs.write(tmp_path / "hole.pickle", contents), "--verify")[0] == 3
