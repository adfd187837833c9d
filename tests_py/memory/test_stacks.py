"""record(stacks=True): the Python calls that led to each allocation, in traces, files and plans, and the line of a
program that is named for it, whatever else its stack contains.
"""

from __future__ import annotations

import ctypes
import gc
import json
import pathlib
import pickle
import re
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpuconf
import pytest
from gpuconf import memory
from gpuconf._core.stacks import call_site, shown
from gpuconf.memory import Trace, TraceEvent
from script import run_well


@pytest.fixture(autouse=True)
def machine(one_gpu: None) -> None:
    """What most tests need; others simulate their own."""


HERE = __file__


def line_of(function: Any, offset: int = 1) -> int:
    return int(function.__code__.co_firstlineno) + offset


def allocations(trace: Trace) -> list[TraceEvent]:
    return [e for e in trace if e.action == "allocate"]


def build(nbytes: int) -> memory.Buffer:
    return memory.allocate(nbytes)


def train(n: int) -> list[memory.Buffer]:
    with memory.tag("optimizer"):
        return [build(1000 + i) for i in range(n)]


def test_the_innermost_call_comes_first() -> None:
    with memory.record(stacks=True) as recording:
        here = sys._getframe()
        line, name = here.f_lineno, here.f_code.co_name
        train(1)[0].free()
        tensor = gpuconf.constant([1.0] * 100)
        total = gpuconf.add(tensor, tensor)
        del tensor, total
    of_buffer, of_constant, of_add = (e.stack for e in allocations(recording.trace))
    assert of_buffer[0] == (HERE, line_of(build), "build")
    outer = [(HERE, line_of(train, 2), "train"), (HERE, line + 1, name)]
    assert [frame for frame in of_buffer if frame[2] in ("train", name)] == outer
    assert of_constant[0] == (HERE, line + 2, name), "gpuconf's own calls are left out"
    assert of_add[0] == (HERE, line + 3, name)
    assert [e.stack for e in recording.events if e.action == "free"] == [()] * 3
    assert allocations(recording.trace)[0].call_site == (HERE, line_of(build), "build")


def test_without_stacks_there_are_none() -> None:
    with memory.record() as recording:
        train(1)[0].free()
    assert {e.stack for e in recording.events} == {()}
    assert {(e.library, e.tag) for e in recording.events if "segment" not in e.action} == {("gpuconf", "optimizer")}
    assert recording.events[-1].call_site is None


def test_each_distinct_stack_is_stored_once() -> None:
    with memory.record(stacks=True) as recording:
        for _ in range(200):
            for buffer in train(3):
                buffer.free()
    assert len({e.stack for e in allocations(recording.trace)}) == 1
    assert len(recording.trace._names["stacks"]) == 2
    first, *others = (e.stack for e in allocations(recording.trace))
    assert all(stack is first for stack in others)


def test_deep_stacks_keep_the_innermost_calls() -> None:
    def deep(n: int) -> memory.Buffer:
        return memory.allocate(1000) if n == 0 else deep(n - 1)

    with memory.record(stacks=True) as recording:
        deep(200).free()
    (event,) = allocations(recording.trace)
    assert len(event.stack) >= 60
    assert {frame[2] for frame in event.stack} == {"deep"}


def test_code_that_is_compiled_and_dropped_again_and_again() -> None:
    """A code object's address may come again for another one; a stack must not."""
    with memory.record(stacks=True) as recording:
        for i in range(300):
            space: dict[str, Any] = {"allocate": memory.allocate}
            source = "\n" * (i % 7) + f"def made_{i}():\n    allocate(1000).free()\nmade_{i}()"
            exec(compile(source, f"<made {i}>", "exec"), space)
            del space
            gc.collect(0)
    assert [(e.stack[0][0], e.stack[0][2]) for e in allocations(recording.trace)] == [
        (f"<made {i}>", f"made_{i}") for i in range(300)
    ]
    assert [e.stack[0][1] for e in allocations(recording.trace)] == [i % 7 + 2 for i in range(300)]


def test_a_recording_releases_the_code_that_it_has_seen() -> None:
    space: dict[str, Any] = {"allocate": memory.allocate}
    exec("def made():\n    allocate(1000).free()", space)
    code = weakref.ref(space["made"].__code__)
    recording = memory.record(stacks=True)
    with recording:
        space["made"]()
    del space
    gc.collect()
    assert code() is None
    assert len(allocations(recording.trace)) == 1


def test_threads_have_stacks_of_their_own() -> None:
    def work() -> None:
        for _ in range(300):
            build(256).free()

    def other() -> None:
        for _ in range(300):
            memory.allocate(512).free()

    with memory.record(stacks=True) as recording:
        threads = [threading.Thread(target=function) for function in (work, other) * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {(e.nbytes, e.stack[0][2]) for e in allocations(recording.trace)} == {(256, "build"), (512, "other")}
    assert len(allocations(recording.trace)) == 2400


def test_c_callers_have_a_stack_where_they_hold_the_gil() -> None:
    gpuconf.config.list_logical_devices()
    with_gil, without = ctypes.PyDLL(gpuconf.library_path()), ctypes.CDLL(gpuconf.library_path())
    for library in (with_gil, without):
        library.gpuconf_malloc.restype = ctypes.c_void_p
        library.gpuconf_free.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    with memory.record(stacks=True) as recording:
        for library in (with_gil, without):
            library.gpuconf_free(library.gpuconf_malloc(ctypes.c_size_t(1000), 0, None), 0, 0, None)
        # Numba's entry point, through ctypes, which releases the GIL: it is acquired again.
        without.gpuconf_library_malloc.restype = ctypes.c_void_p
        without.gpuconf_free(without.gpuconf_library_malloc(4, ctypes.c_size_t(1000), 0, None), 0, 0, None)
    held, released, numba = allocations(recording.trace)
    assert held.stack[0][0] == numba.stack[0][0] == HERE
    assert (held.library, numba.library, released.stack) == ("c", "numba", ())


def test_an_exception_in_flight_survives() -> None:
    class Raises:
        def __del__(self) -> None:
            memory.allocate(1000).free()

    def fail_with(raises: Raises) -> None:
        kept.append(raises)
        try:
            raise KeyError("kept")
        finally:
            kept.clear()
            del raises

    kept: list[Raises] = []
    with memory.record(stacks=True) as recording:
        with pytest.raises(KeyError, match="kept"):
            fail_with(Raises())
        with pytest.raises(MemoryError):
            memory.allocate(1 << 50)
    assert [e.stack[0][2] for e in allocations(recording.trace)] == ["__del__"]
    failure = next(e for e in recording.events if e.action == "allocate failure")
    assert failure.stack[0][2] == "test_an_exception_in_flight_survives"


def test_a_reset_ends_stacks_too_and_the_next_recording_has_its_own() -> None:
    recording = memory.record(stacks=True).start()
    build(1000).free()
    gpuconf.simulate("H100-80GB")
    train(1)[0].free()
    assert [e.stack[0][2] for e in allocations(recording.stop())] == ["build"]
    with recording:
        build(500).free()
    assert [e.stack[0][2] for e in allocations(recording.trace)] == ["build"]
    with memory.record() as plain:
        build(500).free()
    assert allocations(plain.trace)[0].stack == ()


def test_a_trace_whose_older_events_are_lost_has_the_stacks_of_live_blocks() -> None:
    with memory.record(events=4, stacks=True) as recording:
        kept = train(1)
        for _ in range(20):
            memory.allocate(256).free()
    first = allocations(recording.trace)[0]
    assert (first.nbytes, first.tag, first.stack[0][2]) == (1000, "optimizer", "build")
    kept[0].free()


# Files


@pytest.fixture
def recorded(two_gpus: None) -> Trace:
    def odd() -> None:
        with memory.tag('a,"b";c=d%é'):
            memory.allocate(300, "GPU:1").free()

    space: dict[str, Any] = {"odd": odd}
    exec(compile("def caller():\n    odd()", 'a,"b";=%\n:1:é.py', "exec"), space)
    with memory.record(stacks=True) as recording:
        kept = train(3)
        space["caller"]()
        kept.pop().free()
    for buffer in kept:
        buffer.free()
    return recording.trace


def origins(trace: Trace) -> list[Any]:
    """By GPU, as a snapshot has them."""
    found = [(e.action, e.gpu, e.library, e.tag, e.stack) for e in trace if "segment" not in e.action]
    return sorted(found, key=lambda event: event[1])


@pytest.mark.parametrize("name", ["trace.csv", "trace.pickle"])
def test_files_keep_holders_and_stacks(recorded: Trace, tmp_path: Path, name: str) -> None:
    recorded.save(tmp_path / name)
    again = memory.load_trace(tmp_path / name)
    assert origins(again) == origins(recorded)
    assert {frame[0] for _, _, _, _, stack in origins(again) for frame in stack} >= {HERE, 'a,"b";=%\n:1:é.py'}
    again.save(tmp_path / f"again-{name}")
    assert origins(memory.load_trace(tmp_path / f"again-{name}")) == origins(recorded)


def test_a_stack_is_written_once_to_csv(recorded: Trace, tmp_path: Path) -> None:
    recorded.save(tmp_path / "trace.csv")
    header, *lines = (tmp_path / "trace.csv").read_text(encoding="utf-8").splitlines()
    assert header == "Thread,Time,Action,Pointer,Size,Stream,GPU,Library,Tag,Stack"
    stacks = [line.split(",")[-1] for line in lines]
    assert stacks[0].startswith(f"1={HERE}:{line_of(build)}:build;")
    assert stacks[1:3] == ["1", "1"]
    assert all(line.count(",") == header.count(",") for line in lines)


def test_a_snapshot_has_frames_that_memory_viz_shows(recorded: Trace, tmp_path: Path) -> None:
    recorded.save(tmp_path / "trace.pickle")
    snapshot = pickle.loads((tmp_path / "trace.pickle").read_bytes())
    alloc = next(e for e in snapshot["device_traces"][0] if e["action"] == "alloc")
    assert alloc["frames"][0] == {"filename": HERE, "line": line_of(build), "name": "build"}
    assert (alloc["library"], alloc["tag"]) == ("gpuconf", "optimizer")
    live = [b for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"]
    assert [b["frames"][0]["name"] for b in live] == ["build", "build"]
    frames = [e["frames"] for e in snapshot["device_traces"][0] if e["action"] == "alloc"]
    assert all(f is frames[0] for f in frames), "equal stacks are one object in the file"


def test_a_plan_shows_who_holds_the_peak(recorded: Trace, tmp_path: Path) -> None:
    recorded.save(tmp_path / "trace.csv")
    for trace in (recorded, tmp_path / "trace.csv"):
        found = gpuconf.plan(trace, limit="8MiB")
        first, second = (usage.holders_at_peak for usage in found.usages)
        assert [(h.library, h.tag, h.bytes_in_use, h.live_blocks) for h in first] == [("gpuconf", "optimizer", 3072, 3)]
        assert first[0].call_site == (HERE, line_of(build), "build")
        assert second[0].tag == 'a,"b";c=d%é'
        # In 80 columns.
        line = rf"  3\.0KiB in 3 blocks: gpuconf optimizer at \S*test_stacks\.py:{line_of(build)} \(build\)"
        assert any(re.fullmatch(line, shown) for shown in str(found).splitlines())
        assert found.to_dict()["usages"][0]["holders_at_peak"][0]["stack"][0] == [HERE, line_of(build), "build"]


def test_advice_names_the_lines_that_hold_the_most(one_gpu: None, tmp_path: Path) -> None:
    def through(library: Callable[[], Any], n: int) -> list[Any]:
        return [library() for _ in range(n)]  # one line of ours, whatever it calls

    code = compile(
        "def library(): return allocate(3 << 20)\ndef other(): return library()", "/x/site-packages/l.py", "exec"
    )
    names: dict[str, Any] = {"allocate": memory.allocate}
    exec(code, names)
    with memory.record(stacks=True) as recording:
        kept = through(names["library"], 2) + through(names["other"], 1)
    found = gpuconf.plan(recording, limit="8MiB")
    for buffer in kept:
        buffer.free()
    line = through.__code__.co_firstlineno + 1
    (usage,) = found.usages
    assert len(usage.holders_at_peak) == 2, "two ways through the library"
    assert [(site.bytes_in_use, site.live_blocks) for site in usage.sites_at_peak] == [(9 << 20, 3)]
    who = f"9.00MiB in 3 blocks: gpuconf (untagged) at {HERE}:{line} ("
    assert re.search(
        rf"^  9\.00MiB in 3 blocks: gpuconf \(untagged\) at \S*test_stacks\.py:{line} \(", str(found), re.MULTILINE
    )
    assert f"\nadvice: no setting makes it fit: 9.00MiB are live at the peak; the largest holders are {who}" in str(
        found
    )


def test_advice_without_a_setting_that_fits_is_the_least_limit(one_gpu: None) -> None:
    with memory.record() as recording:
        kept = [memory.allocate((2 << 20) + 256) for _ in range(4)]
    for buffer in kept:
        buffer.free()
    found = gpuconf.plan(recording, limit="9MiB", policy=["pytorch", "pytorch-expandable"])
    assert "no setting makes it fit: the smallest limit that one of them needs is 20.00MiB (pytorch-expandable)" in str(
        found
    )


def test_old_events_have_the_new_fields() -> None:
    old = TraceEvent(1.0, 2, "allocate", 0, 3, 4, 5)  # type: ignore[call-arg]
    assert (old.library, old.tag, old.stack, old.call_site) == ("", "", (), None)


def test_a_thread_may_allocate_while_the_interpreter_ends() -> None:
    run_well("""
        import atexit, threading, gpuconf
        gpuconf.simulate("H100-80GB")
        recording = gpuconf.memory.record(stacks=True).start()
        def work():
            while True:
                gpuconf.memory.allocate(1000).free()
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        atexit.register(lambda: gpuconf.memory.stats())
    """)


# gocore/base/trace has the same rule: tests_go/base/trace reads this table, too.
ROWS = json.loads(
    (pathlib.Path(__file__).parents[2] / "tests_go" / "base" / "trace" / "testdata" / "call_sites.json").read_text()
)
GIB = 1 << 30


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["case"])
def test_stacks(row: dict[str, Any]) -> None:
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
