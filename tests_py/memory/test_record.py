"""Recordings: what a program does with device memory."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import gpuconf
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20


@pytest.fixture(autouse=True)
def no_recording_stays() -> Iterator[None]:
    yield
    gpuconf.memory.record().start().stop()  # refused while another one runs


def blocks(events: tuple[gpuconf.memory.TraceEvent, ...]) -> list[tuple[str, int, int]]:
    """The events of blocks, without segments."""
    return [(e.action, e.gpu, e.nbytes) for e in events if not e.action.startswith("segment")]


def test_a_recording_tells_what_was_done(two_gpus: None) -> None:
    held = gpuconf.memory.allocate(500, "GPU:1")
    before = time.time()
    with gpuconf.memory.record() as recording:
        assert recording.running
        first = gpuconf.memory.allocate(1000)
        with gpuconf.device("GPU:1"), pytest.raises(MemoryError):
            gpuconf.memory.allocate(1 << 50)
        first.free()
        gpuconf.memory.allocate(0).free()
        held.free()
        assert len(recording) == 4
        assert recording.lost == 0
    assert not recording.running
    gpuconf.memory.allocate(7777).free()  # after its end
    assert blocks(recording.events) == [
        ("allocate", 1, 500),  # live when it started
        ("allocate", 0, 1000),
        ("allocate failure", 1, 1 << 50),
        ("free", 0, 1000),
        ("free", 1, 500),
    ]
    *_, allocated, failed, freed, _ = recording.events
    assert (allocated.address, failed.address, freed.address) == (first.ptr, 0, first.ptr)
    assert allocated.stream == 0
    assert allocated.thread == freed.thread != 0
    assert before - 0.01 <= allocated.time <= freed.time <= time.time() + 0.01
    assert recording.trace.events is recording.events
    assert repr(recording) == f"<gpuconf.Recording: <gpuconf.Trace of {len(recording)} events>>"


def test_each_thread_has_its_number(one_gpu: None) -> None:
    with gpuconf.memory.record() as recording:
        gpuconf.memory.allocate(1).free()
        other = threading.Thread(target=lambda: gpuconf.memory.allocate(2).free())
        other.start()
        other.join()
    threads = {e.nbytes: e.thread for e in recording.events if e.action == "free"}
    assert threads[1] != threads[2]
    import platform

    if platform.machine() == "x86_64":
        assert threads == {1: threading.get_ident(), 2: other.ident}


def test_start_and_stop_by_hand(one_gpu: None) -> None:
    recording = gpuconf.memory.record()
    assert repr(recording) == "<gpuconf.Recording, not started>"
    with pytest.raises(RuntimeError, match="was never started"):
        _ = recording.trace
    assert recording.start() is recording
    assert repr(recording) == "<gpuconf.Recording, running>"
    with pytest.raises(RuntimeError, match="is running; stop it first"):
        _ = recording.trace
    with pytest.raises(RuntimeError, match="a recording is running already"):
        gpuconf.memory.record().start()
    trace = recording.stop()
    assert recording.stop() is trace
    assert (len(trace), trace.events, list(trace)) == (0, (), [])
    with recording:
        gpuconf.memory.allocate(5).free()
    assert blocks(recording.events) == [("allocate", 0, 5), ("free", 0, 5)]
    assert len(trace) == 0, "what it told before stays"


def test_a_failing_block_ends_its_recording(one_gpu: None) -> None:
    recording = gpuconf.memory.record()
    with pytest.raises(KeyError), recording:
        raise KeyError
    assert not recording.running
    assert len(recording.trace) == 0


def test_a_full_recording_keeps_the_newest_and_says_how_many_were_lost(one_gpu: None) -> None:
    kept = gpuconf.memory.allocate(11)
    with gpuconf.memory.record(events=10) as recording:
        early = gpuconf.memory.allocate(12)
        for size in range(100, 200):
            gpuconf.memory.allocate(size).free()
        assert recording.lost == 191
        assert len(recording) == 10
    kept.free()
    early.free()
    assert recording.lost >= 191
    assert repr(recording.trace).endswith(f"{recording.lost} older events lost>")
    told = blocks(recording.events)
    assert sorted(told[:2]) == [("allocate", 0, 11), ("allocate", 0, 12)], "what was live by then"
    assert told[2:] == [(action, 0, size) for size in range(195, 200) for action in ("allocate", "free")]


@pytest.mark.parametrize("events", [0, -1, (1 << 28) + 1, 1 << 200])
def test_numbers_of_events_that_cannot_be(events: int) -> None:
    with pytest.raises(ValueError, match="a recording can keep 1 to"):
        gpuconf.memory.record(events=events)
    with pytest.raises(TypeError, match="events must be an int, but got float"):
        gpuconf.memory.record(events=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("end", ["reset", "simulate", "the end of a simulation"])
def test_what_gives_the_devices_up_ends_a_recording(end: str) -> None:
    """It continued, and could not be stopped if its handle was lost."""
    simulation = gpuconf.simulate("T4")
    with gpuconf.memory.record() as recording:
        gpuconf.memory.allocate(1).free()
        if end == "reset":
            gpuconf.reset()
        elif end == "simulate":
            gpuconf.simulate("2xA10")
        else:
            with simulation:
                pass
        assert not recording.running
        assert repr(recording) == "<gpuconf.Recording, ended>"
        gpuconf.simulate("T4")
        gpuconf.memory.allocate(2).free()
        with gpuconf.memory.record() as other:
            gpuconf.memory.allocate(3).free()
        assert blocks(recording.events) == [("allocate", 0, 1), ("free", 0, 1)], "what it had seen by then"
        assert len(recording) == len(recording.trace)
        assert recording.lost == 0
    assert recording.stop() is recording.trace
    assert blocks(other.events) == [("allocate", 0, 3), ("free", 0, 3)]


def test_a_reset_before_devices_are_listed_ends_a_recording_too() -> None:
    recording = gpuconf.memory.record().start()
    gpuconf.reset()
    assert not recording.running
    assert len(recording.stop()) == 0


def test_a_reset_that_is_refused_ends_no_recording(one_gpu: None) -> None:
    with gpuconf.memory.record() as recording, gpuconf.memory.allocate(5):
        with pytest.raises(RuntimeError, match="in use"):
            gpuconf.reset()
        assert recording.running
    assert blocks(recording.events) == [("allocate", 0, 5), ("free", 0, 5)]


def test_a_recording_that_is_dropped_ends(one_gpu: None) -> None:
    """No public function could stop it, and no other recording could start."""
    gpuconf.memory.record().start()
    recording = gpuconf.memory.record().start()
    assert recording.running
    recording = gpuconf.memory.record()
    with recording:
        assert hasattr(recording, "__exit__"), "to look at it changes nothing"
        assert recording.running
        gpuconf.memory.allocate(3).free()
    assert blocks(recording.events) == [("allocate", 0, 3), ("free", 0, 3)]


def test_a_copy_does_not_end_a_recording(one_gpu: None) -> None:
    import copy
    import pickle

    with gpuconf.memory.record() as recording:
        for make in (copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled; the trace of a recording can"):
                make(recording)
        copy.copy(recording)  # has the same run
        assert recording.running
        gpuconf.memory.allocate(6).free()
    for again in (copy.deepcopy(recording.trace), pickle.loads(pickle.dumps(recording.trace))):
        assert again.events == recording.events


def test_with_by_hand_and_in_an_exit_stack(one_gpu: None) -> None:
    import contextlib

    with contextlib.ExitStack() as stack:
        recording = stack.enter_context(gpuconf.memory.record())
        gpuconf.memory.allocate(4).free()
    assert not recording.running
    assert len(blocks(recording.events)) == 2
    assert recording.__enter__() is recording
    assert recording.running
    recording.__exit__(None, None, None)
    assert not recording.running
    assert len(recording) == 0


def test_three_threads_that_stop_a_recording_get_the_same_trace(one_gpu: None) -> None:
    """Two of them got an error in almost every run: 739 in 500 rounds."""
    traces: list[list[gpuconf.memory.Trace]] = []
    failures: list[BaseException] = []
    together = threading.Barrier(4)
    recording = gpuconf.memory.record()

    def stop() -> None:
        for _ in range(200):
            together.wait()
            try:
                traces[-1].append(recording.stop())
            except BaseException as error:
                failures.append(error)
            together.wait()

    threads = [threading.Thread(target=stop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for size in range(1, 201):
        recording.start()
        gpuconf.memory.allocate(size).free()
        traces.append([])
        together.wait()
        together.wait()
    for thread in threads:
        thread.join()
    assert not failures
    for size, told in enumerate(traces, 1):
        assert len(told) == 3
        assert told[0] is told[1] is told[2]
        assert blocks(told[0].events) == [("allocate", 0, size), ("free", 0, size)]


@pytest.mark.parametrize(
    ("stream", "told"), [(0, 0), (1, 0), (2, 2)], ids=["null", "legacy, which is the same", "per thread"]
)
def test_c_callers_are_recorded_with_their_stream(one_gpu: None, stream: int, told: int) -> None:
    import ctypes

    gpuconf.config.list_logical_devices()
    core = ctypes.CDLL(gpuconf.library_path())
    core.gpuconf_malloc.restype = ctypes.c_void_p
    core.gpuconf_malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    core.gpuconf_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    with gpuconf.memory.record() as recording:
        core.gpuconf_free(core.gpuconf_malloc(1234, 0, stream), 1234, 0, stream)
    assert [(e.action, e.nbytes, e.stream) for e in recording.events[1:]] == [
        ("allocate", 1234, told),
        ("free", 1234, told),
    ]
