"""``gpuconf diff``: which lines of a program need more memory than before."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from command import HOLES, run
from gpuconf import memory
from recordings import DATA

MIB = 1 << 20

MODEL = """
from gpuconf import memory
def forward(kept, n, extra):
    kept.append(memory.allocate(n << 20))
    {}
    for _ in range(extra):
        kept.append(memory.allocate(4 << 20))
def optimizer(kept):
    with memory.tag("optimizer"):
        kept.append(memory.allocate(2 << 20))
"""


def record(path: Path, moved: str, n: int, extra: int, optimizer: bool) -> None:
    """Record a step of a model whose file is in another folder and whose lines have moved."""
    path.mkdir()
    source = path / "model.py"
    source.write_text(moved + MODEL.format("pass"))
    module: dict[str, object] = {}
    exec(compile(source.read_text(), str(source), "exec"), module)
    forward, step = module["forward"], module["optimizer"]
    kept: list[memory.Buffer] = []
    with memory.record(stacks=True) as recording:
        forward(kept, n, extra)  # type: ignore[operator]
        if optimizer:
            step(kept)  # type: ignore[operator]
        for buffer in kept:
            buffer.free()
    recording.save(path / "trace.pickle")


@pytest.fixture
def two(tmp_path: Path, one_gpu: None) -> Path:
    record(tmp_path / "old", "", 8, 3, optimizer=True)
    record(tmp_path / "new", "# a\n# b\n\n", 16, 6, optimizer=False)
    return tmp_path


def test_it_names_the_lines_that_grew(two: Path) -> None:
    code, out, err = run("diff", "old/trace.pickle", "new/trace.pickle", cwd=two)
    assert (code, err) == (3, "")
    lines = out.splitlines()
    assert lines[0] == "GPU:0: peak 22.00MiB -> 40.00MiB (+18.00MiB, +81.8%)"
    assert lines[1] == f"  +12.00MiB at {two}/new/model.py:10 (forward), +3 blocks of gpuconf (untagged)"
    assert lines[2] == f"  +8.00MiB at {two}/new/model.py:7 (forward), 1 block of gpuconf (untagged)"
    assert lines[3] == f"  -2.00MiB at {two}/old/model.py:10 (optimizer), -1 block of gpuconf optimizer"
    assert len(lines) == 4


def test_a_lower_peak_and_none_at_all(two: Path) -> None:
    code, out, _ = run("diff", "new/trace.pickle", "old/trace.pickle", cwd=two)
    assert code == 0
    assert out.startswith("GPU:0: peak 40.00MiB -> 22.00MiB (-18.00MiB, -45.0%)\n")
    assert run("diff", "old/trace.pickle", "old/trace.pickle", cwd=two) == (0, "GPU:0: peak 22.00MiB, as before\n", "")


def test_json_and_a_page(two: Path) -> None:
    code, out, _ = run("diff", "old/trace.pickle", "new/trace.pickle", "--json", "--html", "page.html", cwd=two)
    assert code == 3
    (gpu,) = json.loads(out)["gpus"]
    assert (gpu["gpu"], gpu["bytes_before"], gpu["bytes_after"]) == (0, 22 * MIB, 40 * MIB)
    assert [change["bytes_after"] - change["bytes_before"] for change in gpu["changes"]] == [
        12 * MIB,
        8 * MIB,
        -2 * MIB,
    ]
    assert gpu["changes"][0]["call_site"] == [f"{two}/new/model.py", 10, "forward"]
    page = (two / "page.html").read_text()
    assert f"<td>{two}/new/model.py:10 (forward)</td>" in page
    assert "+12.00MiB" in page
    assert re.search("(src|href)=", page.partition("<script>")[0]) is None
    found = re.search(r'id="figures">(.*?)</script>', page)
    assert found is not None
    before, after = json.loads(found[1]).values()  # above each other, to one scale
    assert [
        max(map(sum, zip(*(line["y"] for line in one["data"] if "stackgroup" in line), strict=True)))
        for one in (before, after)
    ] == [22 * MIB, 40 * MIB]
    assert before["layout"]["yaxis"] == after["layout"]["yaxis"]


def test_traces_without_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HOLES)
    (tmp_path / "b.csv").write_text(HOLES.replace("4194304", "8388608"))
    code, out, _ = run("diff", "a.csv", "b.csv", cwd=tmp_path)
    assert (code, out) == (
        3,
        "GPU:0: peak 6.00MiB -> 10.00MiB (+4.00MiB, +66.7%)\n  +4.00MiB at unknown line, -1 block\n",
    )


def test_mistakes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HOLES)
    (tmp_path / "bad.csv").write_text("what\n")
    code, _, err = run("diff", "a.csv", "none.csv", cwd=tmp_path)
    assert (code, err) == (1, "gpuconf diff: none.csv: No such file or directory\n")
    code, _, err = run("diff", "a.csv", "bad.csv", cwd=tmp_path)
    assert code == 1
    assert err.startswith("gpuconf diff: ")
    assert len(err.splitlines()) == 1
    code, _, err = run("diff", "a.csv", "a.csv", "--html", "a.csv", cwd=tmp_path)
    assert (code, err) == (2, "gpuconf diff: --html would replace the trace 'a.csv'\n")
    assert (tmp_path / "a.csv").read_text() == HOLES


# The block at 0x900 was there before the recording; the address 0x100 is used twice.
MOMENTS = f"""Thread,Time,Action,Pointer,Size,Stream
1,10:00:00.000000,allocate,0x100,{4 * MIB},0
1,10:00:01.000000,allocate,0x200,{8 * MIB},0
1,10:00:02.000000,free,0x100,{4 * MIB},0
1,10:00:02.500000,allocate,0x100,{16 * MIB},0
1,10:00:03.000000,free,0x900,{MIB},0
"""


@pytest.mark.parametrize(
    ("first", "second", "code", "expected"),
    [
        ("0", "1", 3, "GPU:0: 5.00MiB at 0 s -> 13.00MiB at 1 s (+8.00MiB, +160.0%)"),
        ("0.5", "2.2", 3, "GPU:0: 5.00MiB at 0.5 s -> 9.00MiB at 2.2 s (+4.00MiB, +80.0%)"),
        ("2.5", "99", 0, "GPU:0: 25.00MiB at 2.5 s -> 24.00MiB at 3 s (-1.00MiB, -4.0%)"),
        ("1.5", "1", 0, "GPU:0: 13.00MiB at 1 s, as at 1.5 s"),
    ],
)
def test_two_moments_of_one_recording(tmp_path: Path, first: str, second: str, code: int, expected: str) -> None:
    (tmp_path / "job.csv").write_text(MOMENTS)
    ended, out, err = run("diff", "job.csv", "--between", first, second, cwd=tmp_path)
    late = "gpuconf diff: the recording of GPU:0 ends after 3 s\n" * (second == "99")
    assert (ended, out.splitlines()[0], err) == (code, expected, late)


def test_short_times_have_no_exponent(tmp_path: Path) -> None:
    (tmp_path / "job.csv").write_text(MOMENTS)
    assert "MiB at 0.00008 s" in run("diff", "job.csv", "--between", "0.00008", "1", cwd=tmp_path)[1]


def test_the_lines_that_grew_between_two_moments_of_a_snapshot(tmp_path: Path) -> None:
    snapshot = DATA / "snapshots" / "torch-2.15-own-limit.pickle.gz"
    (tmp_path / "job.pickle").write_bytes(gzip.decompress(snapshot.read_bytes()))
    code, out, _ = run("diff", "job.pickle", "--between", "0", "1", "--json", "--html", "page.html", cwd=tmp_path)
    (gpu,) = json.loads(out)["gpus"]
    most = gpu["changes"][0]
    assert (code, gpu["bytes_before"], gpu["seconds"][0]) == (3, 0, 0)
    assert 0 < gpu["seconds"][1] < 1, "the end of the recording"
    assert (most["call_site"], most["blocks_after"]) == (["/home/user/train.py", 12, "<listcomp>"], 48)
    assert "job.pickle after 1 s" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a", "--between", "-1", "2"), "--between must be a number of seconds, 0 or more, but got '-1'"),
        (("a", "--between", "1", "nan"), "--between must be a number of seconds, 0 or more, but got 'nan'"),
        (("a",), "name two recordings, or one and two moments in it"),
        (("a", "b", "--between", "1", "2"), "name two recordings, or one and two moments in it"),
    ],
)
def test_moments_that_are_wrong(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    code, _, err = run("diff", *words, cwd=tmp_path)
    assert code == 2
    assert message in err
