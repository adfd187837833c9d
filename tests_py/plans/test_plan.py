"""Plans: whether a recorded job would fit."""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

import gpuconf
import pytest
from command import run
from gpuconf.plans.generated.policies import POLICIES as ALL

MIB = 1 << 20
HEADER = "Thread,Time,Action,Pointer,Size,Stream,GPU"


def trace_of(*steps: int, gpu: int = 0) -> str:
    """CSV of a job: a positive number allocates so many MiB, -n frees the nth of them."""
    sizes: list[int] = []
    lines = [HEADER]
    for i, step in enumerate(steps):
        if step > 0:
            sizes.append(step)
        action, number = ("allocate", len(sizes)) if step > 0 else ("free", -step)
        lines.append(f"1,{i}.5,{action},0x{number:x},{sizes[number - 1] * MIB},0,{gpu}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def holes(tmp_path: Path) -> Path:
    """Two holes of 2 MiB that are not one of 4."""
    path = tmp_path / "holes.csv"
    path.write_text(trace_of(2, 2, 2, -1, -3, 4))
    return path


def test_a_plan_needs_no_devices(holes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is listed: a configuration is still possible."""
    assert gpuconf.plan(holes, limit="7MiB").fits is True
    from gpuconf._core import runtime as _runtime

    assert not _runtime.enumerated()


def test_what_a_plan_tells(holes: Path) -> None:
    found = gpuconf.plan(holes, limit="7MiB")
    assert (found.limit, found.gpu, found.gpu_memory, found.events, found.lost) == (7 * MIB, None, None, 6, 0)
    assert found.policies == ALL
    assert found.fitting == ("virtual",)
    (usage,) = found.usages
    held = (("", "", (), 6 * MIB, 3, False),), (("", "", None, 6 * MIB, 3, False, 1),)
    assert usage == (0, 4, 6 * MIB, 0, 2, 0, 0, 1, 6 * MIB, 0, 0, None, *held)
    assert usage.peak_bytes_in_use == 6 * MIB
    *_, tensorflow, regions, virtual = found.results
    assert virtual == (0, "virtual", "", True, 6 * MIB, 7 * MIB, 6 * MIB, 6 * MIB, 0.0, None)
    assert (regions.fits, regions.least_limit, regions.bytes_limit) == (False, 8 * MIB, 8 * MIB)
    assert regions.failure == gpuconf_failure(6, 4 * MIB, "fragmented", 2 * MIB, 7 * MIB, 3 * MIB)
    assert tensorflow.failure is not None
    assert tensorflow.failure.cause == "fragmented"
    points = found.timeline(0, "virtual")
    assert [(p.time, p.bytes_in_use) for p in points] == [
        (0, 2 * MIB),
        (1, 4 * MIB),
        (2, 6 * MIB),
        (3, 4 * MIB),
        (4, 2 * MIB),
        (5, 6 * MIB),
    ]
    assert max(p.bytes_reserved for p in points) == virtual.peak_bytes_reserved
    with pytest.raises(LookupError, match="GPU:1 under policy 'virtual' is not in this plan"):
        found.timeline(1, "virtual")
    assert repr(found) == "<gpuconf.Plan of 6 events, fits: True>"


def test_at_most_100_holders_are_listed(one_gpu: None) -> None:
    buffers = []
    with gpuconf.memory.record() as recording:
        for number in range(130):
            with gpuconf.memory.tag(f"layer {number}"):
                buffers.append(gpuconf.memory.allocate((number + 1) * 1024))
    (usage,) = gpuconf.plan(recording, policy="virtual").usages
    assert len(usage.holders_at_peak) == 100
    assert usage.holders_at_peak[0].tag == "layer 129"
    for buffer in buffers:
        buffer.free()


def gpuconf_failure(*fields: object) -> tuple[object, ...]:
    return fields


def test_the_table(holes: Path) -> None:
    assert str(gpuconf.plan(holes, limit="7MiB", gpu="A10")) == (
        "6 events, 4 allocations\n"
        "GPU:0: 6.00MiB live at the peak\n"
        "limit: 7.00MiB on NVIDIA A10\n"
        "\n"
        "GPU    policy        fits  least limit  peak in use  peak reserved  fragmented\n"
        "GPU:0  pytorch       no       20.00MiB      6.00MiB       20.00MiB        0.0%\n"
        "GPU:0  expandable    no       20.00MiB      6.00MiB       20.00MiB        0.0%\n"
        "GPU:0  max_split 32  no       20.00MiB      6.00MiB       20.00MiB        0.0%\n"
        "GPU:0  roundup 16    no       20.00MiB      6.00MiB       20.00MiB        0.0%\n"
        "GPU:0  tensorflow    no        8.00MiB      6.00MiB        8.00MiB        0.0%\n"
        "GPU:0  regions       no        8.00MiB      6.00MiB        8.00MiB        0.0%\n"
        "GPU:0  virtual       yes       6.00MiB      6.00MiB        6.00MiB        0.0%\n"
        "\n"
        "GPU:0 pytorch: event 1 requests 2.00MiB: limit reached\n"
        "  in use 0B, reserved 0B, largest free block 0B\n"
        "GPU:0 pytorch-expandable: event 1 requests 2.00MiB: limit reached\n"
        "  in use 0B, reserved 0B, largest free block 0B\n"
        "GPU:0 pytorch-max-split: event 1 requests 2.00MiB: limit reached\n"
        "  in use 0B, reserved 0B, largest free block 0B\n"
        "GPU:0 pytorch-roundup: event 1 requests 2.00MiB: limit reached\n"
        "  in use 0B, reserved 0B, largest free block 0B\n"
        "GPU:0 tensorflow: event 6 requests 4.00MiB: fragmented\n"
        "  in use 2.00MiB, reserved 6.00MiB, largest free block 2.00MiB\n"
        "GPU:0 regions: event 6 requests 4.00MiB: fragmented\n"
        "  in use 2.00MiB, reserved 7.00MiB, largest free block 3.00MiB\n"
        "advice: gpuconf.configure(limit=7340032, growth=True)\n"
        "fits with virtual; does not fit with pytorch, pytorch-expandable, pytorch-max-split, pytorch-roundup, "
        "tensorflow, regions"
    )


@pytest.mark.parametrize("size", [(1 << 32) + 1, (5 << 30) - 1, 16385 << 20, (1 << 40) + 3])
def test_the_least_limit_in_the_table_is_enough(tmp_path: Path, size: int) -> None:
    """It was rounded down: 4097 MiB were 4.00GiB, and the job does not fit under 4.00GiB."""
    (tmp_path / "large.csv").write_text(f"{HEADER}\n1,1.5,allocate,0x1,{size},0,0\n")
    for policy in ALL:
        found = gpuconf.plan(tmp_path / "large.csv", policy=policy)
        row = re.search(r"GPU:0  .*?  -  +(\S+iB) ", str(found))
        assert row is not None
        assert gpuconf.plan(tmp_path / "large.csv", limit=row[1], policy=policy).fits, (
            row[1],
            found.results[0].least_limit,
        )
        assert f">{row[1]}<" in found._repr_html_()


def test_limits_and_gpus(holes: Path) -> None:
    nothing = gpuconf.plan(holes)
    assert (nothing.limit, nothing.fits, nothing.fitting) == (None, None, ())
    assert [r.fits for r in nothing.results] == [None] * len(ALL)
    assert str(nothing).endswith("no limit given")
    default = gpuconf.plan(holes, gpu="A10")
    assert (default.gpu, default.gpu_memory) == ("NVIDIA A10", 22731 << 20)
    with gpuconf.simulate("A10"):
        assert default.limit == gpuconf.memory.stats("GPU:0").bytes_limit, "what a pool on that GPU gets"
    assert gpuconf.plan(holes, limit=5 * MIB + 12345).limit == 5 * MIB + 12345
    full = gpuconf.plan(holes, limit="24GiB", gpu="T4:4MiB", policy="virtual")
    assert full.fits is False
    assert full.results[0].failure is not None
    assert full.results[0].failure.cause == "device full"
    assert gpuconf.plan(holes, gpu="K40").policies == (
        "pytorch",
        "pytorch-max-split",
        "pytorch-roundup",
        "tensorflow",
        "regions",
    ), "it has no virtual memory management"
    assert gpuconf.plan(holes, policy=["virtual", "regions"]).policies == ("virtual", "regions")


def test_the_documentation_has_each_policy() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "plan.md").read_text()
    assert tuple(re.findall(r"(?m)^\| `([a-z-]+)` \|", page.partition("| policy | allocator |\n")[2])) == ALL
    _, _, listed = (gpuconf.plan.__doc__ or "").partition("``policy`` is one of these")
    assert tuple(re.findall(r'``"([a-z-]+)"``', listed)) == ALL


def test_the_environment_counts_as_for_a_pool(holes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "1024")
    assert gpuconf.plan(holes, gpu="A10:24GiB", policy="virtual").limit == 23 << 30


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"limit": 5}, ValueError, "limit must be at least 1 MiB"),
        ({"limit": "much"}, ValueError, "limit 'much' is not a size"),
        ({"limit": "50%"}, ValueError, "limit '50%' is a percentage, but the GPU is not known here"),
        ({"limit": 1.5}, TypeError, "limit must be a number of bytes or text"),
        ({"gpu": "Z80"}, ValueError, "unknown GPU model"),
        ({"gpu": "2xT4"}, ValueError, "names 2 GPUs; a plan is for one GPU: plan the recording once for each"),
        ({"gpu": " "}, ValueError, "gpu must not be empty"),
        ({"gpu": 7}, TypeError, "gpu must be a string"),
        ({"gpu": "K40", "policy": "virtual"}, ValueError, "K40 has no virtual memory management"),
        ({"policy": "fast"}, ValueError, "'tensorflow', 'regions', 'virtual', but got 'fast'"),
        ({"policy": [7]}, ValueError, "but got 7"),
        ({"policy": 7}, TypeError, "policy must be one of the policies, or a list of them, but got int: 7"),
    ],
)
def test_arguments_that_cannot_be(
    holes: Path, arguments: dict[str, object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        gpuconf.plan(holes, **arguments)  # type: ignore[arg-type]


def test_a_recording_that_runs_has_no_plan() -> None:
    with gpuconf.memory.record() as recording, pytest.raises(RuntimeError, match="is running; stop it first"):
        gpuconf.plan(recording)


def test_nothing_and_failures_only(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + "\n")
    found = gpuconf.plan(path, limit="1GiB")
    assert (found.results, found.usages, found.fits) == ((), (), None)
    told = "no allocations: record the job again, from its start to its end"
    assert str(found) == f"0 events, 0 allocations\nlimit: 1.00GiB\n{told}"
    path.write_text(HEADER + "\n1,1,allocate failure,0x0,99,0,0\n")
    found = gpuconf.plan(path, limit="1GiB")
    assert found.fits is True
    assert "note: 1 allocation on GPU:0 failed during recording: later allocations may be missing" in str(found)


def test_what_a_trace_cannot_tell_is_said(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "\n".join([HEADER, "1,1,allocate,0x1,9,0x1,3", "1,1,allocate,0x1,9,0x2,3", "1,1,free,0x5,9,0,3"]) + "\n"
    )
    text = str(gpuconf.plan(path))
    assert "note: on GPU:3 1 free is missing: its block ends when its address is allocated again" in text
    assert "note: GPU:3 uses 3 streams, which only PyTorch's policies keep apart" in text
    gpuconf.simulate("T4")
    gpuconf.memory.allocate(1).free()  # so that the pool has reserved its memory
    with gpuconf.memory.record(events=1) as recording:
        gpuconf.memory.allocate(5).free()
    assert recording.lost == 1
    assert "note: 1 event before the trace was lost: an earlier peak may be missing" in str(gpuconf.plan(recording))


def test_a_file_that_was_cut_inside_its_last_field(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"{HEADER}\n1,1,allocate,0x1,9,0x10,3\n")
    assert "newline" not in str(gpuconf.plan(path))
    path.write_text(f"{HEADER}\n1,1,allocate,0x1,9,0x10,3")
    note = "note: the file's last line has no newline: if the file was cut there, the end of the job is missing"
    assert note in str(gpuconf.plan(path))


@pytest.mark.parametrize("growth", [False, True], ids=["regions", "virtual"])
def test_a_plan_is_what_the_session_was(growth: bool) -> None:
    """The peaks of a plan are those of the recorded pool, and the job really needs its least limit."""

    def job(limit: int) -> gpuconf.memory.Recording:
        draw = random.Random(7)
        gpuconf.simulate("T4")
        gpuconf.configure(limit=limit, growth=growth, libraries=[])
        recording = gpuconf.memory.record().start()
        held: list[gpuconf.memory.Buffer] = []
        try:
            for _ in range(600):
                if held and draw.random() < 0.45:
                    held.pop(draw.randrange(len(held))).free()
                else:
                    held.append(gpuconf.memory.allocate(int(2 ** draw.uniform(8, 24))))
        finally:
            recording.stop()
            for buffer in held:
                buffer.free()
        return recording

    policy = "virtual" if growth else "regions"
    limit = 2 << 30
    recording = job(limit)
    stats = gpuconf.memory.stats("GPU:0")
    found = gpuconf.plan(recording, limit=limit, policy=policy)
    (result,) = found.results
    assert found.fits
    assert result.peak_bytes_in_use == stats.peak_bytes_in_use == found.usages[0].peak_bytes_in_use
    assert result.peak_bytes_reserved == stats.peak_bytes_reserved
    job(result.least_limit)
    with pytest.raises(MemoryError):
        job(result.least_limit - MIB)


def test_each_logical_gpu_has_a_pool_of_its_own(two_gpus: None) -> None:
    with gpuconf.memory.record() as recording:
        buffers = [gpuconf.memory.allocate(n * MIB, f"GPU:{gpu}") for gpu, n in ((0, 3), (1, 5), (1, 4))]
    for buffer in buffers:
        buffer.free()
    found = gpuconf.plan(recording, limit="8MiB", policy="virtual")
    # 9 MiB are four granules of 2, and 1 MiB elsewhere: contiguous blocks of 5 and 4 MiB do not fit.
    assert [(r.gpu, r.fits, r.least_limit // MIB) for r in found.results] == [(0, True, 3), (1, False, 10)]
    assert found.fits is False, "all of them have to"


# Pictures


def test_a_picture(holes: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'gpuconf[plot]'")
    found = gpuconf.plan(holes, limit="7MiB")
    found.plot(tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    found.plot(tmp_path / "plan.svg")
    text = (tmp_path / "plan.svg").read_text()
    for label in ("GPU:0", "MiB", "seconds", "limit 7.00MiB", "reserved (tensorflow)", "in use (virtual)"):
        assert f"<!-- {label} -->" in text
    assert "matplotlib.pyplot" not in sys.modules, "no global state"


def test_a_picture_of_an_unknown_kind(holes: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'gpuconf[plot]'")
    with pytest.raises(ValueError, match=r"plan\.bmp5'?: a file name ends in one of \..*\.png"):
        gpuconf.plan(holes).plot(tmp_path / "plan.bmp5")
    assert not (tmp_path / "plan.bmp5").exists()


def test_a_picture_needs_matplotlib(holes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(NotImplementedError, match=r"pip install 'gpuconf\[plot\]'"):
        gpuconf.plan(holes).plot(tmp_path / "plan.png")


def test_bars_of_text(holes: Path) -> None:
    from gpuconf.plans.pages import plot as _plot

    assert _plot.bars(gpuconf.plan(holes, limit="8MiB"), rows=3, width=8) == [
        "GPU:0 virtual: █ in use, ▒ reserved, full width is 8.00MiB",
        "     1.000 s  ▕████····▏ 4.00MiB",
        "     3.000 s  ▕██████··▏ 6.00MiB",
        "     5.000 s  ▕██████▒▒▏ 6.00MiB",
    ]


def test_the_dictionary_is_stable(holes: Path) -> None:
    told = gpuconf.plan(holes, limit="7MiB", gpu="A10", policy="regions").to_dict()
    assert json.loads(json.dumps(told)) == told
    held = {"library": "", "tag": "", "bytes_in_use": 6 * MIB, "live_blocks": 3}
    assert told == {
        "schema": 1,
        "events": 6,
        "lost": 0,
        "limit": 7 * MIB,
        "gpu": {"name": "NVIDIA A10", "memory": 22731 << 20},
        "fits": False,
        "fitting": [],
        "out_of_memory": [],
        "usages": [
            {
                "gpu": 0,
                "num_allocs": 4,
                "peak_bytes_in_use": 6 * MIB,
                "live_blocks_before": 0,
                "live_blocks_after": 2,
                "failures": 0,
                "unfreed": 0,
                "streams": 1,
                "peak_bytes_requested": 6 * MIB,
                "needed_bytes": 0,
                "bytes_before": 0,
                "recorded_bytes_reserved": None,
                "holders_at_peak": [{"stack": [], **held, "before": False}],
                "sites_at_peak": [{"call_site": None, **held, "before": False, "lines": 1}],
            }
        ],
        "results": [
            {
                "gpu": 0,
                "policy": "regions",
                "settings": "",
                "fits": False,
                "least_limit": 8 * MIB,
                "bytes_limit": 8 * MIB,
                "peak_bytes_in_use": 6 * MIB,
                "peak_bytes_reserved": 8 * MIB,
                "fragmentation": 0.0,
                "failure": {
                    "event": 6,
                    "requested": 4 * MIB,
                    "cause": "fragmented",
                    "bytes_in_use": 2 * MIB,
                    "bytes_reserved": 7 * MIB,
                    "largest_free_block_bytes": 3 * MIB,
                },
            }
        ],
    }


def test_a_folder_of_traces(tmp_path: Path) -> None:
    """The processes of a job, the one that needs most first."""
    (tmp_path / "rank0.csv").write_text(trace_of(30, 40))
    (tmp_path / "rank1.csv").write_text(trace_of(100, 40, -1))
    (tmp_path / "notes.txt").write_text("not a trace")
    arguments = ["plan", str(tmp_path), "--limit", "100MiB", "--policy", "pytorch", "--policy", "virtual"]
    assert run(*arguments) == (
        3,
        "trace      fits  live at peak    pytorch    virtual\n"
        "rank1.csv  no       140.00MiB  140.00MiB  140.00MiB\n"
        "rank0.csv  yes       70.00MiB   70.00MiB   70.00MiB\n",
        "",
    )
    status, out, _ = run(*arguments[:2], "--json")
    told = json.loads(out)
    assert (status, told["schema"], [t["trace"] for t in told["traces"]]) == (0, 1, ["rank1.csv", "rank0.csv"])
    assert told["traces"][0]["usages"][0]["peak_bytes_in_use"] == 140 * MIB
    assert run(*arguments, "--plot")[0] == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no traces in" in run("plan", str(empty))[2]
