"""``gpuconf diff``: which lines of a program need more memory than before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpuconf import memory
from test_command import HOLES, run

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
    assert [change["bytes_after"] - change["bytes_before"] for change in gpu["changes"]] == [12 * MIB, 8 * MIB, -2 * MIB]
    assert gpu["changes"][0]["call_site"] == [f"{two}/new/model.py", 10, "forward"]
    page = (two / "page.html").read_text()
    assert f"<td>{two}/new/model.py:10 (forward)</td>" in page
    assert "+12.00MiB" in page
    assert "http://" not in page
    assert "https://" not in page


def test_traces_without_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HOLES)
    (tmp_path / "b.csv").write_text(HOLES.replace("4194304", "8388608"))
    code, out, _ = run("diff", "a.csv", "b.csv", cwd=tmp_path)
    assert (code, out) == (3, "GPU:0: peak 6.00MiB -> 10.00MiB (+4.00MiB, +66.7%)\n  +4.00MiB at unknown line, -1 block\n")


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
