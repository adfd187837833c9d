"""Plans of PyTorch snapshots that end with an out-of-memory error.

The snapshots are PyTorch 2.15's, of a program that keeps the activations of growing batches, on a driver of 1 GiB of
host memory (tests_py/frameworks). In torch-2.15-out-of-memory the GPU was full. PyTorch's message was: "Tried to
allocate 34.00 MiB. GPU 0 has a total capacity of 1024.00 MiB of which 22.00 MiB is free. Of the allocated memory 938.89
MiB is allocated by PyTorch, and 63.11 MiB is reserved by PyTorch but unallocated." In torch-2.15-own-limit,
set_per_process_memory_fraction(0.5) was in
force.
"""

from __future__ import annotations

import copy
import gzip
import json
import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import gpuconf
import pytest
from command import run
from recordings import DATA

FOLDER = DATA / "snapshots"
MIB = 1 << 20


def snapshot(name: str) -> Any:
    return pickle.loads(gzip.decompress((FOLDER / f"torch-2.15-{name}.pickle.gz").read_bytes()))


def saved(path: pathlib.Path, contents: Any) -> str:
    path.write_bytes(pickle.dumps(contents, protocol=4))
    return str(path)


def test_what_is_said_of_a_full_gpu(tmp_path: pathlib.Path) -> None:
    status, out, err = run("plan", saved(tmp_path / "oom.pickle", snapshot("out-of-memory")))
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert "limit: 1.00GiB, the memory that PyTorch could use" in lines
    at = lines.index("GPU:0 ran out of memory at event 1412, which requests 33.00MiB")
    assert lines[at + 1 : at + 11] == [
        "  requested at /home/user/train.py:19 (forward)",
        "  938.89MiB in use, 1002.00MiB reserved, 22.00MiB left on the GPU",  # as in PyTorch's message
        "  63.11MiB free in 16 pieces, the largest 7.62MiB",
        "  large pool: 1000.00MiB reserved, 61.25MiB free",
        "  small pool: 2.00MiB reserved, 1.86MiB free",  # which serves no request above 1 MiB
        "held by:",
        "  638.00MiB in 23 blocks: at /home/user/train.py:19 (forward)",
        "  156.75MiB in 23 blocks: at /home/user/train.py:20 (forward)",
        "  96.09MiB in 48 blocks: at /home/user/train.py:12 (<listcomp>)",  # through PyTorch's own files
        "  48.05MiB in 24 blocks: at /home/user/train.py:8 (<listcomp>)",
    ]
    assert lines[at + 11].startswith("segments (")
    assert len([line for line in lines if line.startswith("  0x")]) == 12
    assert "  and 29 more with 756.00MiB, 0B free" in lines
    assert max(map(len, lines[at : at + 25])) <= 80
    # The model fails where PyTorch did, with the same figures.
    state = "in use 938.89MiB, reserved 1002.00MiB, largest free block 7.62MiB"
    assert lines[lines.index("GPU:0 pytorch: event 1412 requests 33.00MiB: fragmented") + 1] == f"  {state}"
    assert "advice: export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in lines
    assert not any(line.startswith("note:") for line in lines)


def test_as_json(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path / "oom.pickle", snapshot("out-of-memory"))
    status, out, _ = run("plan", path, "--json", "--policy", "pytorch", "--limit", "1GiB")
    (found,) = json.loads(out)["out_of_memory"]
    assert status == 3
    assert (found["gpu"], found["event"], found["requested"], found["bytes_limit"]) == (0, 1412, 33 * MIB, 1024 * MIB)
    assert (found["bytes_reserved"], found["device_free"], found["own_limit"]) == (1002 * MIB, 22 * MIB, False)
    assert found["call_site"] == ["/home/user/train.py", 19, "forward"]
    assert sum(found["free_blocks"]) == found["bytes_reserved"] - found["bytes_in_use"]
    assert sum(s["bytes_in_use"] for s in found["sites"]) == found["bytes_in_use"]
    assert sum(s["nbytes"] for s in found["segments"]) == found["bytes_reserved"]
    for s in found["segments"]:
        assert sum(b["nbytes"] for b in s["blocks"]) == s["nbytes"]
    assert len({b["stack"][0][0] for s in found["segments"] for b in s["blocks"] if b["stack"]}) > 1, "stacks are whole"


def test_the_failed_allocation_counts(tmp_path: pathlib.Path) -> None:
    whole = snapshot("out-of-memory")
    without = copy.deepcopy(whole)
    without["device_traces"][0] = [e for e in whole["device_traces"][0] if e["action"] != "oom"]
    least = {}
    for name, contents in (("with", whole), ("without", without)):
        found = gpuconf.plan(saved(tmp_path / f"{name}.pickle", contents), policy="pytorch")
        least[name] = found.results[0].least_limit
        assert found.fits is (False if name == "with" else None)
    assert least["with"] > 1024 * MIB > least["without"]


def test_pytorchs_own_limit(tmp_path: pathlib.Path) -> None:
    found = gpuconf.plan(saved(tmp_path / "limit.pickle", snapshot("own-limit")))
    (state,) = found.out_of_memory
    assert (state.own_limit, state.bytes_limit, found.limit) == (True, 502 * MIB, 502 * MIB)
    assert (
        "  the GPU had enough left: PyTorch reached its own limit, which snapshots do not record"
        in str(found).splitlines()
    )
    assert "no setting helps" not in str(found)  # its limit is unknown
    assert "has at least 502.00MiB" in str(found).splitlines()[0]


def test_what_fits_in_a_limit_that_is_not_recorded_depends(tmp_path: pathlib.Path) -> None:
    """PyTorch's own limit was at least what it had reserved, and less than that with the block that was refused."""
    contents = snapshot("own-limit")
    path = saved(tmp_path / "limit.pickle", contents)
    (state,) = gpuconf.plan(path).out_of_memory
    assert state.most_limit == 521 * MIB
    events = contents["device_traces"][0]
    refused = next(event for event in events if event["action"] == "oom")
    refused["size"] += 20 * MIB
    path = saved(tmp_path / "more.pickle", contents)
    found = gpuconf.plan(path)
    assert found.fits is None
    assert found.fitting == ()
    fits = {result.policy: result.fits for result in found.results}
    assert (fits["pytorch"], fits["pytorch-expandable"]) == (False, None)
    assert str(found).splitlines()[-1].startswith("depends on PyTorch's own limit, which is not recorded (--limit): ")
    assert run("plan", path)[0] == 4
    assert gpuconf.plan(path, limit=found.limit).fits is False  # which the user has named


def test_other_limits(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path / "oom.pickle", snapshot("out-of-memory"))
    assert gpuconf.plan(path, limit="2GiB", policy="pytorch").fits
    assert gpuconf.plan(path, gpu="T4", policy="pytorch").fits
    assert "what PyTorch could have" not in str(gpuconf.plan(path, limit="2GiB", policy="pytorch"))


def test_a_program_that_went_on(tmp_path: pathlib.Path) -> None:
    contents = snapshot("out-of-memory")
    events = contents["device_traces"][0]
    events.append({**next(e for e in events if e["action"] == "alloc"), "addr": 1 << 50})
    found = gpuconf.plan(saved(tmp_path / "on.pickle", contents), policy="pytorch")
    assert (found.out_of_memory, found.limit) == ((), None)
    assert "note: 1 allocation on GPU:0 failed during recording: later allocations may be missing" in str(found)


def test_the_gpu_that_ran_out(tmp_path: pathlib.Path) -> None:
    """Two GPUs: the second is the one whose part ends with the failure."""
    contents, other = snapshot("out-of-memory"), snapshot("own-limit")
    first = [e for e in other["device_traces"][0] if e["action"] != "oom"]
    contents["device_traces"] = [first, contents["device_traces"][0]]
    contents["segments"] = [*other["segments"], *({**s, "device": 1} for s in contents["segments"])]
    found = gpuconf.plan(saved(tmp_path / "two.pickle", contents), policy=["pytorch", "virtual"])
    (state,) = found.out_of_memory
    assert (state.gpu, state.bytes_reserved, found.limit) == (1, 1002 * MIB, 1024 * MIB)
    assert [(r.gpu, r.policy, r.fits) for r in found.results] == [
        (0, "pytorch", True),
        (0, "virtual", True),
        (1, "pytorch", False),
        (1, "virtual", True),
    ]


def no_segments(s: Any) -> None:
    s["segments"] = []


def freed_twice(s: Any) -> None:
    s["device_traces"][0].append(s["device_traces"][0][-1])


@pytest.mark.parametrize("alter", [no_segments, freed_twice])
def test_a_state_that_is_not_determined(alter: Callable[[Any], None], tmp_path: pathlib.Path) -> None:
    contents = snapshot("out-of-memory")
    alter(contents)
    found = gpuconf.plan(saved(tmp_path / "lost.pickle", contents), policy="virtual")
    assert any(line.startswith("  its state is not determined: ") for line in str(found).splitlines())
    assert found.to_dict()["out_of_memory"][0]["segments"] == []


def test_an_old_snapshot(tmp_path: pathlib.Path) -> None:
    """PyTorch 2.0 and 2.1 write no settings, no stacks by default, and not what the GPU had left."""
    contents = snapshot("out-of-memory")
    events = [
        {k: v for k, v in e.items() if k in ("action", "addr", "size", "stream")} for e in contents["device_traces"][0]
    ]
    for s in contents["segments"]:
        for name in ("is_expandable", "segment_pool_id", "frames", "requested_size"):
            del s[name]
        s["blocks"] = [{k: b[k] for k in ("size", "requested_size", "state")} for b in s["blocks"]]
    found = gpuconf.plan(saved(tmp_path / "old.pickle", {"segments": contents["segments"], "device_traces": [events]}))
    (state,) = found.out_of_memory
    assert (state.bytes_reserved, state.device_free, state.call_site) == (1002 * MIB, 0, None)
    assert "held by:" not in str(found)


def test_settings_of_pinned_memory_change_nothing(tmp_path: pathlib.Path) -> None:
    """In the settings of PyTorch 2.15, max_round_threshold and max_cached_size are those of pinned host memory."""
    contents = snapshot("out-of-memory")
    contents["allocator_settings"].update(max_round_threshold=1 << 20, max_cached_size=1 << 20)
    status, out, _ = run("plan", saved(tmp_path / "pinned.pickle", contents), "--verify", "--json")
    told = json.loads(out)
    assert (status, told["same_address"], told["same_segments"]) == (0, told["allocations"], told["segments"])


def test_truncated_anywhere(tmp_path: pathlib.Path) -> None:
    data = gzip.decompress((FOLDER / "torch-2.15-own-limit.pickle.gz").read_bytes())
    path = tmp_path / "cut.pickle"
    for length in range(0, len(data), 997):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match="cannot read"):
            gpuconf.plan(path)


def test_each_pool_has_a_line_if_there_are_several(tmp_path: pathlib.Path) -> None:
    (failed,) = gpuconf.plan(saved(tmp_path / "oom.pickle", snapshot("out-of-memory"))).out_of_memory
    first = next(s for s in failed.segments if not s.small)
    graphs = failed._replace(segments=tuple(s._replace(private=s is first) for s in failed.segments))
    assert [line.split(":")[0] for line in graphs.lines(width=0) if " pool: " in line] == [
        "  large pool",
        "  private pool",
        "  small pool",
    ]
    alone = failed._replace(segments=(first,))
    assert not [line for line in alone.lines(width=0) if " pool: " in line]
