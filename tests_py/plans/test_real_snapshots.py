"""Plans of snapshots that PyTorch wrote, with every setting of _record_memory_history, against what PyTorch itself
counted.

benchmarks/snapshots.py writes them: PyTorch is the real one, on simulated GPUs.
"""

from __future__ import annotations

import gzip
import json
import pathlib
import pickle
import re
from typing import Any

import gpuconf
import pytest
from command import run
from gpuconf._core.stacks import call_site
from gpuconf.plans.pages.history import histories
from gpuconf.plans.recordings.replay import verify
from recordings import DATA, Recording

FOLDER = DATA / "snapshots" / "recorded"
COUNTED = json.loads(Recording("snapshots/counters.json").read_text())  # by PyTorch itself
NAMES = sorted(path.name.removesuffix(".pickle.gz") for path in FOLDER.glob("*.pickle.gz"))
GIB = 1 << 30


def unpacked(name: str, folder: pathlib.Path) -> pathlib.Path:
    path = folder / f"{name}.pickle"
    path.write_bytes(gzip.decompress((FOLDER / f"{name}.pickle.gz").read_bytes()))
    return path


@pytest.mark.parametrize("name", NAMES)
def test_the_peaks_are_those_that_pytorch_counted(name: str, tmp_path: pathlib.Path) -> None:
    """Allocated, requested and reserved bytes, to the byte, in the plan and on the page; and --verify agrees."""
    path = unpacked(name, tmp_path)
    counted = COUNTED[name]
    found = gpuconf.plan(path, policy="pytorch")
    pages = {history.gpu: sum(history.peak.in_use) for history in histories(gpuconf.memory.load_trace(path))}
    assert found.usages
    for usage in found.usages:
        counters = counted[usage.gpu]
        ended = "allocated_bytes.all.current" if not usage.num_allocs else "allocated_bytes.all.peak"
        # With "state", a block that the program no longer has waits to be freed.
        if usage.num_allocs or "not-recorded" in name:
            assert usage.peak_bytes_in_use == counters[ended]
        assert usage.recorded_bytes_reserved == counters["reserved_bytes.all.peak"]
        if usage.num_allocs:
            assert usage.peak_bytes_requested == counters["requested_bytes.all.peak"]
        assert pages[usage.gpu] == usage.peak_bytes_in_use
        assert sum(site.bytes_in_use for site in usage.sites_at_peak) == usage.peak_bytes_in_use
    assert verify(path).difference == ""


@pytest.mark.parametrize("name", [name for name in NAMES if re.search("default|late|out-of-memory|three", name)])
def test_the_lines_are_those_of_the_program(name: str, tmp_path: pathlib.Path) -> None:
    for usage in gpuconf.plan(unpacked(name, tmp_path), policy="pytorch").usages:
        for site in usage.sites_at_peak:
            if site.call_site is not None and site.lines == 1:
                file, _, function = site.call_site
                assert file == "/home/me/train.py" or re.fullmatch(
                    r"\w+Backward\d|AccumulateGrad|sum_dim_IntList", function
                ), site


def test_what_there_was_before_is_a_row_of_its_own(tmp_path: pathlib.Path) -> None:
    name = next(name for name in NAMES if name.endswith("late"))
    found = gpuconf.plan(unpacked(name, tmp_path), policy="pytorch")
    (usage,) = found.usages
    before = [site for site in usage.sites_at_peak if site.before]
    assert sum(site.bytes_in_use for site in before) > 8 << 20
    assert f"  {before[0]}" in str(found).splitlines()
    assert str(before[0]).endswith("blocks: allocated before the recording")


def test_the_gpu_that_ran_out_of_memory_comes_first(tmp_path: pathlib.Path) -> None:
    """It was below the lines of the other GPUs; on the page, two screens down."""
    name = next(name for name in NAMES if name.endswith("three-gpus"))
    status, out, err = run("plan", str(unpacked(name, tmp_path)))
    assert (status, err) == (0, "") or status == 3
    lines = out.splitlines()
    assert lines[0] == "GPU:1 ran out of memory: it needs 41.93GiB and has 40.00GiB; no setting helps"
    assert lines[1] == "  39.13GiB of it are held by /home/me/train.py:34 (<module>)"
    assert lines[3].startswith("GPU:1 ran out of memory at event ")
    table = lines.index("") + 1
    assert max(map(len, lines[: lines.index("held by:") + 5])) <= 80, table


def test_a_row_says_what_was_reserved_in_the_recording(tmp_path: pathlib.Path) -> None:
    name = next(name for name in NAMES if name.endswith("default"))
    text = str(gpuconf.plan(unpacked(name, tmp_path), limit="1GiB", policy="pytorch"))
    assert re.search(r"^GPU:0  as recorded  yes\s+-\s+40.51MiB\s+\S+\s+-$", text, re.MULTILINE), text


def pickled(path: pathlib.Path, segments: list[Any], events: list[Any]) -> pathlib.Path:
    contents = {"segments": segments, "device_traces": [events], "allocator_settings": {}, "external_annotations": []}
    path.write_bytes(pickle.dumps(contents, 4))
    return path


def segment(address: int, blocks: list[tuple[int, str]]) -> dict[str, Any]:
    made, at = [], address
    for size, state in blocks:
        made.append({"address": at, "size": size, "requested_size": size, "state": state, "frames": []})
        at += size
    kind = {"stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": []}
    return {"device": 0, "address": address, "total_size": at - address, "blocks": made, **kind}


def event(action: str, address: int, size: int) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "frames": []}


def test_the_page_has_the_peak_of_the_plan_if_old_blocks_are_freed(tmp_path: pathlib.Path) -> None:
    """The page began at zero, so its peak was 3 GiB where 5 were in use."""
    a = 0x7F0000000000
    segments = [
        segment(a, [(2 * GIB, "active_allocated"), (2 * GIB, "inactive")]),
        segment(a + 4 * GIB, [(GIB, "active_allocated"), (3 * GIB, "inactive")]),
    ]
    freed = [event("free_requested", a, 4 * GIB), event("free_completed", a, 4 * GIB)]
    path = pickled(
        tmp_path / "old.pickle", segments, [event("alloc", a + 4 * GIB, GIB), *freed, event("alloc", a, 2 * GIB)]
    )
    (history,) = histories(gpuconf.memory.load_trace(path))
    (usage,) = gpuconf.plan(path, policy="virtual").usages
    assert sum(history.peak.in_use) == usage.peak_bytes_in_use == 5 * GIB
    assert [sum(moment.in_use) for moment in history.moments] == [4 * GIB, 5 * GIB, GIB, 3 * GIB]
    assert sorted(block.nbytes for block in history.blocks) == [GIB, 4 * GIB]
    assert history.spans() == [(a, 8 * GIB)], "segments that no event mentions"
    assert (usage.bytes_before, usage.recorded_bytes_reserved) == (4 * GIB, 8 * GIB)


def test_pytorchs_policy_starts_with_the_recorded_segments(tmp_path: pathlib.Path) -> None:
    """It started from a compact state, in which the free memory of the two segments is one block."""
    a, mib = 0x7F0000000000, 1 << 20
    end = [(5 * mib, "inactive"), (10 * mib, "active_allocated"), (5 * mib, "inactive")]
    segments = [segment(a + i * 64 * mib, end) for i in range(2)]
    segments.append(segment(a + 256 * mib, [(8 * mib, "active_allocated"), (12 * mib, "inactive")]))
    events = [event("segment_alloc", a + 256 * mib, 20 * mib), event("alloc", a + 256 * mib, 8 * mib)]
    found = gpuconf.plan(pickled(tmp_path / "holes.pickle", segments, events), policy="pytorch")
    assert found.results[0].least_limit == found.usages[0].recorded_bytes_reserved == 60 * mib


def test_a_snapshot_that_pytorch_cannot_have_written_is_named(tmp_path: pathlib.Path) -> None:
    a = 0x7F0000000000
    odd = segment(a, [(1024, "active_allocated"), (52428800 - 1024, "inactive")])
    found = gpuconf.plan(
        pickled(tmp_path / "odd.pickle", [odd], [event("alloc", a + 1, 1000), event("alloc", a, 1024)])
    )
    assert "GPU:0 contradicts itself, so it is synthetic or damaged: event 1: the block that is allocated at" in str(
        found
    )
    broken = {**odd, "total_size": 5}
    found = gpuconf.plan(pickled(tmp_path / "broken.pickle", [broken], [event("alloc", a, 1024)]))
    assert "synthetic or damaged: segments[0]: its blocks have 52428800 bytes, and the segment has 5" in str(found)


def test_a_snapshot_without_a_history_says_so(tmp_path: pathlib.Path) -> None:
    name = next(name for name in NAMES if name.endswith("not-recorded"))
    assert "the trace has no allocation on GPU:0: this is what was live when it was taken" in str(
        gpuconf.plan(unpacked(name, tmp_path), policy="pytorch")
    )


def test_stacks_of_pytorch_2_0(tmp_path: pathlib.Path) -> None:
    """Up to 2.0, a block's stack and requested size are in a list; nothing was known of who held the memory."""
    frames = [
        {"filename": "/venv/lib/python3.10/site-packages/torch/nn/functional.py", "line": 2515, "name": "layer_norm"},
        {"filename": "/home/me/model.py", "line": 31, "name": "forward"},
    ]
    newest = {"addr": 0x7F0000000000, "real_size": GIB - 100, "frames": frames}
    block = {"size": GIB, "state": "active_allocated", "history": [newest, {**newest, "frames": frames[:1]}]}
    kept = {
        "device": 0,
        "address": 0x7F0000000000,
        "total_size": GIB,
        "allocated_size": GIB,
        "active_size": GIB,
        "stream": 0,
    }
    path = pickled(tmp_path / "old.pickle", [{**kept, "segment_type": "large", "blocks": [block]}], [])
    (usage,) = gpuconf.plan(path, policy="pytorch").usages
    assert usage.sites_at_peak == (("", "", ("/home/me/model.py", 31, "forward"), GIB, 1, False, 1),)
    assert usage.peak_bytes_requested == GIB - 100


def test_the_page_adds_up_lines(tmp_path: pathlib.Path) -> None:
    """It had a bar for each stack, with the same name, and none for what was there before."""
    name = next(name for name in NAMES if name.endswith("late"))
    path = unpacked(name, tmp_path)
    (usage,) = gpuconf.plan(path, policy="pytorch").usages
    (history,) = histories(gpuconf.memory.load_trace(path))
    assert sum(site.peak_bytes for site in history.sites) == usage.peak_bytes_in_use
    assert len({call_site(site.stack) for site in history.sites}) == len(history.sites)
    assert any(not site.stack for site in history.sites)


def test_needs_that_round_to_the_limit_are_told_apart(tmp_path: pathlib.Path) -> None:
    """It "needs 14.00GiB and has 14.00GiB"."""
    size = 14 << 30
    common = {"stream": 0, "frames": []}
    events = [
        {"action": "segment_alloc", "addr": 1 << 40, "size": size, "time_us": 1, **common},
        {"action": "alloc", "addr": 1 << 40, "size": size, "time_us": 2, **common},
        {"action": "oom", "device_free": 1 << 20, "size": 2 << 20, "time_us": 3, **common},
    ]
    path = pickled(tmp_path / "oom.pickle", [segment(1 << 40, [(size, "active_allocated")])], events)
    first = run("plan", str(path))[1].splitlines()[0]
    assert first.startswith("GPU:0 ran out of memory: it needs 14.00GiB, 1.00MiB more than it has")
