"""Files of events: RMM's CSV and PyTorch's snapshots, written, read, and rejected."""

from __future__ import annotations

import collections
import copyreg
import ctypes
import os
import pickle
import pickletools
import re
import sys
from pathlib import Path
from typing import Any

import gpuconf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from script import execute, run_well

HEADER = "Thread,Time,Action,Pointer,Size,Stream"
MIB = 1 << 20

Short = tuple[str, int, int, int, int]  # action, GPU, address, bytes, stream


def short(events: tuple[gpuconf.memory.TraceEvent, ...]) -> list[Short]:
    return [(e.action, e.gpu, e.address, e.nbytes, e.stream) for e in events]


def session(growth: bool = False, trim: bool = False) -> gpuconf.memory.Recording:
    """A small job on two logical GPUs, with blocks that are live before and after it."""
    for gpu in gpuconf.config.list_physical_devices("GPU"):
        gpuconf.config.experimental.set_memory_growth(gpu, growth)
    held = gpuconf.memory.allocate(3 * MIB + 5)
    with gpuconf.memory.record() as recording:
        blocks = [gpuconf.memory.allocate(n * MIB) for n in (1, 2, 3, 40)]
        other = gpuconf.memory.allocate(1000, "GPU:1")
        blocks[1].free()
        with pytest.raises(MemoryError):
            gpuconf.memory.allocate(1 << 50)
        held.free()
        blocks[3].free()
        if trim:
            assert ctypes.CDLL(gpuconf.library_path()).gpuconf_trim() == 1
        blocks += [gpuconf.memory.allocate(5 * MIB)]
    for block in (*blocks, other):
        block.free()
    return recording


# RMM's CSV


def test_the_csv_is_rmms(one_gpu: None, tmp_path: Path) -> None:
    gpuconf.config.list_logical_devices()
    with gpuconf.memory.record() as recording:
        buffer = gpuconf.memory.allocate(1000)
        with pytest.raises(MemoryError):
            gpuconf.memory.allocate(1 << 50)
        buffer.free()
    recording.save(tmp_path / "trace.csv")
    header, *lines = (tmp_path / "trace.csv").read_text().splitlines()
    assert header == HEADER + ",Library,Tag", "two more columns, since both are known"
    clock = r"\d\d:\d\d:\d\d\.\d{6}"
    thread = recording.events[0].thread
    for line, rest in zip(
        lines,
        [
            rf"allocate,0x{buffer.ptr:x},1000,0,gpuconf,",
            r"allocate failure,0x0,1125899906842624,0,gpuconf,",
            rf"free,0x{buffer.ptr:x},1000,0,gpuconf,",
        ],
        strict=True,
    ):
        assert re.fullmatch(rf"{thread},{clock},{rest}", line)


def rmm_parser(text: str) -> list[Short]:
    """The rules of RMM's own parser (benchmarks/utilities/log_parser.hpp): columns by name, three actions, C's
    conversions.
    """
    names, *rows = [line.split(",") for line in text.splitlines()]
    events = []
    for row in rows:
        assert len(row) == len(names)
        field = dict(zip(names, row, strict=True))
        assert field["Thread"].isdecimal()
        assert field["Action"] in ("allocate", "allocate failure", "free")
        assert field["Size"].isdecimal()
        pointer = 0 if field["Pointer"] == "(nil)" else int(field["Pointer"], 16)
        stream = re.match(r"\d+", field["Stream"])  # like stoul: text after the digits is ignored
        assert stream is not None
        events.append((field["Action"], 0, pointer, int(field["Size"]), int(stream[0])))
    return events


def test_rmms_parser_accepts_what_is_written(two_gpus: None, tmp_path: Path) -> None:
    recording = session()
    recording.save(tmp_path / "trace.csv")
    text = (tmp_path / "trace.csv").read_text()
    assert text.startswith(HEADER + ",GPU,Library,Tag\n"), "one more column, since there are two GPUs"
    want = [(a, 0, at, n, s) for a, _, at, n, s in short(recording.events) if not a.startswith("segment")]
    assert rmm_parser(text) == want
    again = gpuconf.memory.load_trace(tmp_path / "trace.csv")
    assert short(again.events) == [e for e in short(recording.events) if not e[0].startswith("segment")]


def test_what_rmm_writes_is_read(tmp_path: Path) -> None:
    (tmp_path / "rmm").write_bytes(
        b"Thread,Time,Action,Pointer,Size,Stream\r\n"
        b"77,23:59:59.900000,allocate,0x7f8a40000000,1024,0x1\r\n"
        b"77,23:59:59.950000,allocate failure,(nil),99,0\r\n"
        b"77,00:00:00.100000,free,0x7f8a40000000,1024,0x1\r\n"
    )
    trace = gpuconf.memory.load_trace(tmp_path / "rmm")
    assert short(trace.events) == [
        ("allocate", 0, 0x7F8A40000000, 1024, 1),
        ("allocate failure", 0, 0, 99, 0),
        ("free", 0, 0x7F8A40000000, 1024, 1),
    ]
    assert [round(e.time - trace.events[0].time, 6) for e in trace.events] == [0, 0.05, 0.2]
    trace.save(tmp_path / "again.csv")
    times = [line.split(",")[1] for line in (tmp_path / "again.csv").read_text().splitlines()[1:]]
    assert times == ["23:59:59.900000", "23:59:59.950000", "00:00:00.100000"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1: the file is empty; expected header Thread,Time,Action,Pointer,Size,Stream"),
        (b"hello\n", 'line 1: no column Action in "hello"'),
        (HEADER.encode() + b"\n1,1,allocate,0x1,1,0\n1,1,grow,0x1,1,0\n", 'line 3: invalid Action "grow"'),
        (HEADER.encode() + b"\n1,1,allocate,0x1,1\n", 'line 2: 5 fields in "1,1,allocate,0x1,1"; the header has 6'),
        (HEADER.encode() + b"\n1,1,allocate,0x1,-5,0\n", 'line 2: invalid Size "-5"'),
        (HEADER.encode() + b"\n1,1,\xff\xfe,0x1,5,0\n", "invalid Action "),
        (b"\x7fELF\0\0\0", "it is neither CSV nor a pickle"),
        (
            b"\x80",
            "it is not a memory snapshot: at byte 0: the file is incomplete (missing bytes: 1): copy",
        ),
    ],
    ids=[
        "nothing",
        "another text",
        "an action",
        "a field less",
        "a size",
        "bytes",
        "another file",
        "a byte of a pickle",
    ],
)
def test_files_that_are_none_are_refused_with_the_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        gpuconf.memory.load_trace(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        gpuconf.memory.load_trace("/nonexistent/trace.csv")


@pytest.mark.parametrize(("name", "wanted"), [("trace.txt", None), ("trace", None), ("trace.csv", "cuda")])
def test_formats_that_are_none(name: str, wanted: str | None, one_gpu: None, tmp_path: Path) -> None:
    with gpuconf.memory.record() as recording:
        pass
    with pytest.raises(ValueError, match="format"):
        recording.save(tmp_path / name, wanted)
    assert not (tmp_path / name).exists()


# PyTorch's snapshots


def load(path: Path) -> Any:
    return pickle.loads(path.read_bytes())


def test_a_snapshot_is_read_again(two_gpus: None, tmp_path: Path) -> None:
    recording = session()
    recording.save(tmp_path / "trace.pickle")
    again = gpuconf.memory.load_trace(tmp_path / "trace.pickle")
    for gpu in (0, 1):
        assert [e for e in short(again.events) if e[1] == gpu] == [e for e in short(recording.events) if e[1] == gpu]
        times = [[e.time for e in events if e.gpu == gpu] for events in (recording.events, again.events)]
        assert times[0] == times[1]


# The opcodes that the viewer's unpickler knows (torch/utils/viz/MemoryViz.js): any other would stop it.
VIEWER = {
    "APPEND", "APPENDS", "BINFLOAT", "BINGET", "BININT", "BININT1", "BININT2", "BINPUT",
    "BINUNICODE", "DICT", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "FRAME", "LIST", "LONG1",
    "LONG_BINGET", "LONG_BINPUT", "MARK", "MEMOIZE", "NEWFALSE", "NEWTRUE", "NONE", "PROTO",
    "SETITEM", "SETITEMS", "SHORT_BINUNICODE", "STOP", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
}  # fmt: skip


def draw_as_the_viewer_does(snapshot: Any) -> int:
    """Go back from the last state event by event, like the viewer's state history; it needs each block in a segment."""
    drawn = 0
    for gpu, trace in enumerate(snapshot["device_traces"]):
        segments = {s["address"]: s["total_size"] for s in snapshot["segments"] if s["device"] == gpu}
        blocks = {}
        for segment in snapshot["segments"]:
            assert sum(b["size"] for b in segment["blocks"]) == segment["total_size"]
            address = segment["address"]
            for block in segment["blocks"]:
                assert block["address"] == address
                if block["state"] == "active_allocated" and segment["device"] == gpu:
                    blocks[address] = block["requested_size"]
                address += block["size"]
        for event in reversed(trace):
            for address, size in blocks.items():
                assert any(start <= address and address + size <= start + length for start, length in segments.items())
                drawn += 1
            action, address, size = event["action"], event["addr"], event["size"]
            if action == "alloc":
                assert blocks.pop(address) == size
            elif action == "free_completed":
                blocks[address] = size
            elif action == "segment_alloc":
                assert segments.pop(address) == size
            elif action == "segment_free":
                segments[address] = size
            elif action == "segment_map":
                (start,) = (s for s, n in segments.items() if s <= address and address + size <= s + n)
                length = segments.pop(start)
                segments.update(
                    {
                        a: n
                        for a, n in ((start, address - start), (address + size, start + length - address - size))
                        if n
                    }
                )
            elif action == "segment_unmap":
                below = next((s for s, n in segments.items() if s + n == address), address)
                above = segments.pop(address + size, 0)
                segments[below] = segments.pop(below, 0) + size + above
            else:
                assert action in ("free_requested", "oom")
    return drawn


@pytest.mark.parametrize("trim", [False, True], ids=["kept", "trimmed"])
@pytest.mark.parametrize("growth", [False, True], ids=["regions", "granules"])
def test_the_viewer_can_draw_a_snapshot(growth: bool, trim: bool, two_gpus: None, tmp_path: Path) -> None:
    session(growth, trim).save(tmp_path / "trace.pickle")
    data = (tmp_path / "trace.pickle").read_bytes()
    assert {op.name for op, _, _ in pickletools.genops(data)} <= VIEWER
    assert data[1] <= 4, "the viewer's latest protocol"
    snapshot = load(tmp_path / "trace.pickle")
    assert draw_as_the_viewer_does(snapshot) > 20
    actions = {e["action"] for trace in snapshot["device_traces"] for e in trace}
    assert actions >= {"alloc", "free_requested", "free_completed", "oom"}
    assert ("segment_map" if growth else "segment_alloc") in actions
    assert ("segment_unmap" in actions) == (growth and trim)


def test_the_viewer_can_draw_a_file_of_rmms(two_gpus: None, tmp_path: Path) -> None:
    """It has no segments: they are synthesized around the blocks."""
    session().save(tmp_path / "trace.csv")
    gpuconf.memory.load_trace(tmp_path / "trace.csv").save(tmp_path / "trace.pickle")
    assert draw_as_the_viewer_does(load(tmp_path / "trace.pickle")) > 20


def test_torchs_own_code_takes_a_snapshot(two_gpus: None, tmp_path: Path) -> None:
    """torch.cuda._memory_viz, of an installed torch, or alone from the folder that TORCH_MEMORY_VIZ names."""
    import sys

    folder = os.environ.get("TORCH_MEMORY_VIZ")
    if folder:
        sys.path.insert(0, folder)
        import _memory_viz as viz  # type: ignore[import-not-found]
    else:
        viz = pytest.importorskip(
            "torch.cuda._memory_viz", reason="torch is not installed, and TORCH_MEMORY_VIZ is not set"
        )
    session(growth=True).save(tmp_path / "trace.pickle")
    snapshot = load(tmp_path / "trace.pickle")
    assert "total_reserved: " in viz.segsum(snapshot)
    told = viz.trace(snapshot)
    assert "raise OutOfMemoryError" in told
    assert "MEM[" not in told.split("Device 1")[1], "each block is in a segment"
    for html in (viz.trace_plot(snapshot), viz.segment_plot(snapshot)):
        assert "snapshot.pickle" in html
    assert viz.memory(snapshot, format_flamegraph=str).startswith("stream_0;")


def torch_snapshot(**changes: Any) -> dict[str, Any]:
    """A snapshot with PyTorch's field names, built by hand."""
    event = {
        "action": "alloc",
        "addr": 0x7F0000000000,
        "size": 1000,
        "stream": 0,
        "time_us": 1_700_000_000_123_456,
        "frames": [],
    }
    live = {"size": 512, "requested_size": 300, "state": "active_allocated", "address": 0x7F0000100000}
    free = {"size": 1536, "requested_size": 1536, "state": "inactive"}
    return {
        "device_traces": [
            [],
            [
                event,
                {**event, "action": "free_requested"},
                {**event, "action": "snapshot", "size": 0},
                {**event, "action": "free_completed", "stream": 5},
                {**event, "action": "oom", "addr": -1, "device_free": 3},
                {**event, "action": "segment_alloc", "size": 2048, "addr": 0x7F0000100000},
                {**event, "action": "what comes next"},
                {"action": "user_defined"},
            ],
        ],
        "segments": [{"device": 1, "address": 0x7F0000100000, "total_size": 2048, "stream": 0, "blocks": [live, free]}],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "max_split_size": -1},
        **changes,
    }


def write(tmp_path: Path, content: object, protocol: int = 4) -> Path:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_what_torch_writes_is_read(protocol: int, tmp_path: Path) -> None:
    trace = gpuconf.memory.load_trace(write(tmp_path, torch_snapshot(), protocol))
    assert short(trace.events) == [
        ("allocate", 1, 0x7F0000100000, 300, 0),  # live at the end, and in no event
        ("allocate", 1, 0x7F0000000000, 1000, 0),
        ("free", 1, 0x7F0000000000, 1000, 5),
        ("allocate failure", 1, 0, 1000, 0),
        ("segment_alloc", 1, 0x7F0000100000, 2048, 0),
    ]
    assert {e.time for e in trace.events} == {1_700_000_000.123456}


class Bomb:
    """A pickle of it would call its constructor."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


EXTENSION = 240  # of the codes reserved for programs' own use


def hostile(mark: Path) -> dict[str, bytes]:
    """Pickles that try to access a file, or to break their reader."""
    touch = f"touch {mark}".encode()
    return {
        "os.system": pickle.dumps(Bomb(os.system, f"touch {mark}"), protocol=4),
        "a path's method": pickle.dumps(Bomb(Path.touch, mark), protocol=4),
        "eval, in protocol 0's words behind protocol 2's mark": b"\x80\x02c__builtin__\neval\n(S\"open('"
        + str(mark).encode()
        + b"', 'w')\"\ntR.",
        "deep inside": pickle.dumps(
            torch_snapshot(segments=[{"blocks": [Bomb(os.system, f"touch {mark}")]}]), protocol=4
        ),
        "an instance": b"\x80\x02(ios\nsystem\nS'" + touch + b"'\n.",
        "a plain class": pickle.dumps({"device_traces": [Path]}, protocol=4),
        "an ordered dictionary": pickle.dumps(collections.OrderedDict(device_traces=[]), protocol=4),
        "a persistent id": b"\x80\x02Pelsewhere\n.",
        "a persistent id from the stack": b"\x80\x04K\x01Q.",
        "an extension": b"\x80\x02\x82" + bytes([EXTENSION]) + b".",
        "an extension that was used before": b"\x80\x02\x82"
        + bytes([EXTENSION])
        + b"X"
        + len(touch).to_bytes(4, "little")
        + touch
        + b"\x85R.",
        "a buffer out of band": b"\x80\x05\x97.",
        "a call of what is no function": b"\x80\x04]\x8c\x01x\x85R.",
        "a state for a list": b"\x80\x04]}b.",
        "a new object of a list": b"\x80\x04])\x81.",
        "cut off": pickle.dumps(torch_snapshot(), protocol=4)[:-20],
        "an empty stack": b"\x80\x04.",
        "a mark that is not there": b"\x80\x04t.",
        "a memory of nothing": b"\x80\x04h\x05.",
        "a text of 2**63 bytes": b"\x80\x04\x8d" + (2**63 - 1).to_bytes(8, "little") + b"x.",
        "a protocol to come": b"\x80\x63N.",
        "a number of many digits": b"\x80\x02I" + b"9" * 10_000 + b"\n.",
    }


@pytest.mark.parametrize("name", hostile(Path()))
def test_a_pickle_runs_nothing(name: str, tmp_path: Path) -> None:
    mark = tmp_path / "it ran"
    copyreg.add_extension("os", "system", EXTENSION)  # type: ignore[no-untyped-call]
    try:
        used_before = pickle.loads(b"\x80\x02\x82" + bytes([EXTENSION]) + b".")  # it is in pickle's cache from here on
        assert used_before is os.system
        with pytest.raises(ValueError, match=r"cannot read .* as a trace: it is"):
            gpuconf.memory.load_trace(write(tmp_path, hostile(mark)[name]))
    finally:
        copyreg.remove_extension("os", "system", EXTENSION)  # type: ignore[no-untyped-call]
        copyreg.clear_extension_cache()
    assert not mark.exists()


def test_a_pickle_of_9_bytes_takes_no_memory(tmp_path: Path) -> None:
    """It contains a memo index of 2**30.

    Python's unpickler, formerly the reader, created a table of 16 GiB for that.
    """
    write(tmp_path, b"\x80\x04K\x01r\xff\xff\xff\x3f.")
    out = run_well(f"""
        import gpuconf
        def peak():  # ru_maxrss is at least that of the parent
            with open("/proc/self/status") as file:
                return int(file.read().partition("VmHWM:")[2].split()[0])
        path = {str(tmp_path / "snapshot.pickle")!r}
        gpuconf.simulated()  # loads the core
        before = peak()
        try:
            gpuconf.memory.load_trace(path)
        except ValueError as error:
            print("it has no device_traces" in str(error))
        print(peak() - before < 16 << 10)
        """)
    assert out == "True\nTrue\n"


def test_a_plan_of_a_huge_allocation_takes_no_memory(tmp_path: Path) -> None:
    """The size is only a number in the file, but a plan needed memory and time for each 2 MiB of it."""
    path = tmp_path / "trace.csv"
    path.write_text(f"Action,Pointer,Size\nallocate,0x1,{1 << 50}\n")
    with pytest.raises(ValueError, match="event 1: more than 4398046511104 bytes are live at one time"):
        gpuconf.plan(path)


def test_mutants_of_snapshots() -> None:
    """A sample of the 100,000 of ``make fuzz``: none prints anything, takes much memory, or is read differently than by
    Python.
    """
    script = Path(__file__).with_name("snapshot_mutants.py")
    done = execute([sys.executable, script, "3000"])
    assert (done.returncode, done.stderr) == (0, ""), done
    assert re.match(r"3000 mutants: \d\d\d+ read, the others refused", done.stdout)


def test_a_pickle_that_names_a_class_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"it refers to (posix|os)\.system; only plain containers are supported"):
        gpuconf.memory.load_trace(write(tmp_path, hostile(tmp_path / "x")["os.system"]))


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
BLOCK = {"size": 5, "state": "active_allocated"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "it has no device_traces"),
        ([], "it has no device_traces; call torch.cuda.memory._record_memory_history() before"),
        ({"segments": []}, "it has no device_traces"),
        (torch_snapshot(device_traces=[7]), "device_traces[0]: expected a list, but got int"),
        (torch_snapshot(device_traces=[[{}, 7]]), "device_traces[0][1]: expected a dict, but got int"),
        (
            torch_snapshot(device_traces=[[{"action": "alloc", "size": 1}]]),
            "device_traces[0][0]: addr must be an integer from 0 to 18446744073709551615, but got None",
        ),
        (
            torch_snapshot(device_traces=[[{"action": "alloc", "addr": "x", "size": 1}]]),
            "addr must be an integer from 0 to 18446744073709551615, but got str",
        ),
        (
            torch_snapshot(device_traces=[[{"action": "alloc", "addr": 1, "size": -1}]]),
            "size must be an integer from 0 to 9223372036854775807, but got -1",
        ),
        (torch_snapshot(device_traces=[[{"action": "alloc", "addr": 1, "size": 1.5}]]), "but got 1.5"),
        (torch_snapshot(device_traces=[[{"action": "oom", "size": 1 << 9999}]]), "but got int"),
        (torch_snapshot(segments=7), "segments: expected a list, but got int"),
        (torch_snapshot(segments=[7]), "segments[0]: expected a dict, but got int"),
        (torch_snapshot(segments=[{"address": 1, "blocks": 7}]), "segments[0].blocks: expected a list, but got int"),
        (
            torch_snapshot(segments=[{"address": 1, "blocks": [7]}]),
            "segments[0].blocks[0]: expected a dict, but got int",
        ),
        (
            torch_snapshot(segments=[{"address": 1, "blocks": [{"size": None}]}]),
            "segments[0].blocks[0]: size must be an integer from 0 to 9223372036854775807, but got None",
        ),
        (
            torch_snapshot(segments=[{"address": 1, "device": 1 << 20, "blocks": [BLOCK]}]),
            "segments[0]: device must be an integer from 0 to 1023, but got 1048576",
        ),
        (torch_snapshot(device_traces=CYCLE), "device_traces[0][0]: expected a dict, but got list"),
    ],
)
def test_snapshots_that_are_none_are_refused_with_the_entry(content: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        gpuconf.memory.load_trace(write(tmp_path, content))


def test_actions_that_nobody_knows_are_skipped(tmp_path: Path) -> None:
    events = [{"action": action} for action in ("later", None, 7, [], {}, CYCLE)]
    assert len(gpuconf.memory.load_trace(write(tmp_path, torch_snapshot(device_traces=[events], segments=[])))) == 0


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["allocate", "allocate failure", "free"]),
        st.integers(0, 1023),
        st.integers(1, 2**64 - 1),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**64 - 1),
    ),
    max_size=30,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS)
def test_csv_round_trip(tmp_path: Path, events: list[Short]) -> None:
    lines = [f"1,0.5,{a},0x{at:x},{n},0x{s:x},{gpu}" for a, gpu, at, n, s in events]
    (tmp_path / "a.csv").write_text("\n".join([HEADER + ",GPU", *lines]))
    trace = gpuconf.memory.load_trace(tmp_path / "a.csv")
    assert short(trace.events) == events
    trace.save(tmp_path / "b.csv")
    assert gpuconf.memory.load_trace(tmp_path / "b.csv").events == trace.events


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7), st.integers(1, 300), st.integers(0, 2**60)), max_size=40)
)
def test_snapshot_round_trip(tmp_path: Path, steps: list[tuple[int, int, int, int]]) -> None:
    """Of consistent jobs: each step allocates an address that is free, or frees one that is not."""
    live: dict[tuple[int, int], int] = {}
    lines = []
    for gpu, slot, size, stream in steps:
        address = (slot + 1) * 4096
        known = live.pop((gpu, address), None)
        if known is None:
            live[gpu, address] = size
        lines.append(f"0,7.25,{'free' if known else 'allocate'},0x{address:x},{known or size},0x{stream:x},{gpu}")
    (tmp_path / "a.csv").write_text("\n".join([HEADER + ",GPU", *lines]))
    trace = gpuconf.memory.load_trace(tmp_path / "a.csv")
    trace.save(tmp_path / "a.pickle")
    again = gpuconf.memory.load_trace(tmp_path / "a.pickle")
    for gpu in range(3):
        assert [e for e in again.events if e.gpu == gpu] == [e for e in trace.events if e.gpu == gpu]
    draw_as_the_viewer_does(load(tmp_path / "a.pickle"))
