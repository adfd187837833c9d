"""``gpuconf plan SNAPSHOT --verify``, on recorded runs of PyTorch."""

from __future__ import annotations

import copy
import json
import pathlib
import pickle
from typing import Any

import gpuconf
import pytest
import recorded_runs
from command import run


@pytest.mark.parametrize("record", recorded_runs.FILES, ids=lambda path: path.name)
def test_every_allocation_gets_its_recorded_address(record: pathlib.Path, tmp_path: pathlib.Path) -> None:
    snapshot = recorded_runs.snapshot(record)
    status, out, err = run("plan", recorded_runs.write(tmp_path / "run.pickle", snapshot), "--verify", "--json")
    actions = [event["action"] for event in snapshot["device_traces"][0]]
    allocations, segments = actions.count("alloc"), actions.count("segment_alloc") + actions.count("segment_free")
    assert (status, err) == (0, "")
    assert json.loads(out) == {
        "schema": 1,
        "allocations": allocations,
        "same_address": allocations,
        "undetermined": 0,
        "segments": segments,
        "same_segments": segments,
    }


@pytest.fixture(scope="module")
def training() -> dict[str, Any]:
    (path,) = (path for path in recorded_runs.FILES if path.name == "medium_512_training.json.gz")
    return recorded_runs.snapshot(path)


def test_as_text(training: dict[str, Any], tmp_path: pathlib.Path) -> None:
    path = recorded_runs.write(tmp_path / "run.pickle", training)
    assert run("plan", path, "--verify") == (
        0,
        "allocations  7591, same address: 7591\nsegments     1, same: 1\nthe replay agrees with the snapshot\n",
        "",
    )


@pytest.mark.parametrize("action", ["alloc", "free_requested", "free_completed", "segment_alloc"])
def test_one_altered_address_fails(action: str, training: dict[str, Any], tmp_path: pathlib.Path) -> None:
    altered = copy.deepcopy(training)
    event = [event for event in altered["device_traces"][0] if event["action"] == action][-1]
    event["addr"] += 512
    status, out, err = run("plan", recorded_runs.write(tmp_path / "run.pickle", altered), "--verify", "--json")
    assert status == 3
    found = json.loads(out)
    assert found["same_address"] + found["same_segments"] < found["allocations"] + found["segments"]
    assert err.startswith("gpuconf plan: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("what", ["alloc", "free_completed", "segment_alloc", "the segment at the end"])
def test_an_altered_stream_fails(what: str, training: dict[str, Any], tmp_path: pathlib.Path) -> None:
    """Of an allocation that follows the event of its own segment, it was not compared, nor at the end."""
    altered = copy.deepcopy(training)
    events = altered["device_traces"][0]
    at = next(i for i, event in enumerate(events) if event["action"] == "segment_alloc")
    changed = next((event for event in events[at:] if event["action"] == what), altered["segments"][0])
    changed["stream"] += 7
    status, out, _ = run("plan", recorded_runs.write(tmp_path / "run.pickle", altered), "--verify")
    assert (status, "stream" in out or what == "the segment at the end") == (3, True), out


def test_an_altered_block_at_the_end_fails(training: dict[str, Any], tmp_path: pathlib.Path) -> None:
    altered = copy.deepcopy(training)
    blocks = max((s["blocks"] for s in altered["segments"]), key=len)
    blocks[0]["size"] += 512
    blocks[1]["address"] += 512
    blocks[1]["size"] -= 512
    status, out, _ = run("plan", recorded_runs.write(tmp_path / "run.pickle", altered), "--verify")
    assert status == 3
    assert "first difference: " in out


@pytest.mark.parametrize(
    "settings",
    [
        {"large_segment_size": 40 << 20},
        {"max_split_size": 4 << 20},
        {"roundup_power2_divisions": {"1": 1, "2": 1, "4": 2, "8": 2}},
    ],
)
def test_the_settings_of_the_snapshot_count(settings: dict[str, Any], tmp_path: pathlib.Path) -> None:
    (path,) = (path for path in recorded_runs.FILES if path.name == "cnn.json.gz")
    altered = {**recorded_runs.snapshot(path), "allocator_settings": settings}
    status, out, _ = run("plan", recorded_runs.write(tmp_path / "run.pickle", altered), "--verify")
    assert (status, "first difference: " in out) == (3, True)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"Thread,Time,Action,Pointer,Size,Stream\n", "it is not a pickle"),
        (pickle.dumps({"device_traces": []}, protocol=4), "no device_traces and segments"),
        (pickle.dumps({"segments": [], "device_traces": 3}, protocol=4), "no device_traces and segments"),
        (
            pickle.dumps(
                {"segments": [{"address": 4096, "total_size": 512, "blocks": []}], "device_traces": []}, protocol=4
            ),
            "its blocks have 0 bytes, and the segment has 512",
        ),
    ],
)
def test_a_file_that_is_no_snapshot(contents: bytes, message: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "run.pickle"
    path.write_bytes(contents)
    status, out, err = run("plan", str(path), "--verify")
    assert (status, out) == (1, "")
    assert message in err
    assert str(path) in err


def test_a_recording_of_gpuconf_is_refused(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "steps.pickle")
    with gpuconf.simulate("A10"), gpuconf.memory.record() as recording:
        gpuconf.memory.allocate(4096).free()
    recording.save(path)
    status, out, err = run("plan", path, "--verify")
    assert (status, out) == (1, "")
    assert "it is a recording of gpuconf's allocator" in err


def test_other_options_are_refused(tmp_path: pathlib.Path) -> None:
    status, out, err = run("plan", "run.pickle", "--verify", "--limit", "1GiB")
    assert (status, out) == (2, "")
    assert "--verify cannot be used with --limit" in err


def test_the_row_as_recorded_says_whether_it_fits(training: dict[str, Any], tmp_path: pathlib.Path) -> None:
    """Without a limit there is nothing to say."""
    path = recorded_runs.write(tmp_path / "run.pickle", training)
    reserved = gpuconf.plan(path).usages[0].recorded_bytes_reserved
    assert reserved is not None
    for limit, fits in ((None, "-"), (reserved, "yes"), (reserved - (2 << 20), "no")):
        (row,) = (line for line in str(gpuconf.plan(path, limit=limit)).splitlines() if "as recorded" in line)
        assert row.split()[3] == fits, (limit, row)
