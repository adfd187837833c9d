"""Recordings and other files that are not the user's own, and disks that are full."""

from __future__ import annotations

import os
import pickle
import sqlite3
import sys
import time
from pathlib import Path

import gpuconf
import pytest
from command import COMMAND, HOLES, run
from gpuconf import memory
from gpuconf._core import files
from gpuconf.cli import console
from script import environment, execute

ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b31m\r\u202e"
SHOWN = "\\x1b]0;title\\x07\\x1b[2J\\x9b31m\\r\\u202e"


def snapshot(path: Path, nbytes: int, name: str) -> Path:
    """A snapshot of PyTorch with a frame of this name."""
    frames = [{"filename": f"{name}.py", "line": 3, "name": name}]
    event = {"addr": 1 << 40, "size": nbytes, "stream": 0, "time_us": 1, "frames": frames}
    trace = [{"action": action, **event} for action in ("segment_alloc", "alloc", "free_requested", "free_completed")]
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [trace], "allocator_settings": {}}))
    return path


def test_names_from_files_never_reach_a_terminal_raw(tmp_path: Path) -> None:
    old, new = (snapshot(tmp_path / f"{n}.pickle", n << 21, ESCAPES.replace("/", "")) for n in (1, 2))
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / f"{ESCAPES.replace('/', '')}.csv").write_text(HOLES)
    for words in (
        ["plan", str(new), "--limit", "1GiB"],
        ["plan", str(new), "--limit", "1MiB"],
        ["diff", str(old), str(new)],
        ["plan", str(jobs), "--fleet", "T4"],
        ["plan", str(tmp_path / f"{ESCAPES}.csv")],
        ["run", "--memory", ESCAPES, "true"],
    ):
        code, out, err = run(*words)
        assert code in (0, 1, 2, 3), (words, err)
        assert "Traceback" not in err
        assert [c for c in out + err if c != "\n" and not c.isprintable()] == [], words
    assert SHOWN in run("diff", str(old), str(new))[1]


def test_plain_text() -> None:
    assert console.plain(ESCAPES) == SHOWN
    assert console.plain("GPU:0  [███▓▓]  ünïcode…\n\tx\n") == "GPU:0  [███▓▓]  ünïcode…\n\tx\n"


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, 0, i, i, 1, 2 FROM n"
COLUMNS = "(start, deviceId, address, bytes, memoryOperationType, memKind)"


@pytest.mark.parametrize(
    "code",
    [
        f"CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS{COLUMNS} AS {ENDLESS}",
        f"CREATE TABLE t(a); CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS{COLUMNS} AS {ENDLESS} LIMIT 1000000000",
        f"CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS{COLUMNS}; CREATE VIEW ENUM_CUDA_MEM_KIND(id, name) AS {ENDLESS}",
    ],
)
def test_a_database_cannot_loop(tmp_path: Path, code: str) -> None:
    """A view may have rows without end. An enumeration that is one does not count."""
    path = tmp_path / "report.sqlite"
    with sqlite3.connect(path) as database:
        database.executescript(code)
    began = time.monotonic()
    if "ENUM" in code:
        assert len(memory.load_trace(path)) == 0
    else:
        with pytest.raises(gpuconf.errors.InvalidArgumentError, match="without the memory events"):
            memory.load_trace(path)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("words", [["--html", "page.html"], ["--plot", "plan.png"]], ids=" ".join)
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, words: list[str]) -> None:
    """On a full disk a report is not written, the error names it, and the old file stays; it was emptied first."""
    (tmp_path / "holes.csv").write_text(HOLES)
    plan = [COMMAND, "plan", "holes.csv", "--gpu", "A10", *words]
    # Else Python cuts what it compiles, and every later program fails at that.
    env = environment({"PYTHONDONTWRITEBYTECODE": "1"})
    first = execute(plan, cwd=tmp_path, env=env)  # in which matplotlib writes its cache of fonts
    if first.returncode == 1 and "is not installed" in first.stderr:
        pytest.skip(first.stderr)
    (tmp_path / words[1]).write_text("old")
    done = execute(["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *plan], cwd=tmp_path, env=env)
    assert (done.returncode, done.stderr) == (1, f"gpuconf plan: {words[1]}: File too large\n")
    assert (tmp_path / words[1]).read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["holes.csv", words[1]])


def test_a_saved_trace_replaces_the_old_one_whole(tmp_path: Path) -> None:
    (tmp_path / "holes.csv").write_text(HOLES)
    trace = memory.load_trace(tmp_path / "holes.csv")
    (tmp_path / "real.csv").write_text("old")
    os.chmod(tmp_path / "real.csv", 0o640)
    (tmp_path / "link.csv").symlink_to("real.csv")
    trace.save(tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").stat().st_mode & 0o777 == 0o640
    assert len(memory.load_trace(tmp_path / "real.csv")) == len(trace)
    with pytest.raises(FileNotFoundError, match=r"missing/x\.csv"):
        trace.save(tmp_path / "missing" / "x.csv")
    done = execute(
        [
            sys.executable,
            "-c",
            f"from gpuconf import memory; memory.load_trace({str(tmp_path / 'holes.csv')!r}).save("
            "'/dev/stdout', 'rmm')",
        ],
        check=True,
        env=environment({}),
    )
    assert done.stdout.startswith("Thread,Time,Action")


def test_a_null_pointer_for_a_stream() -> None:
    """gpuconf_logical_stream() returns 0 for a null pointer; it ended the process."""
    from gpuconf._core import abi

    gpuconf.simulate("T4")
    gpuconf.memory.stats("GPU:0")
    assert abi.library().gpuconf_logical_stream(0, None) == 0


def test_a_file_without_a_name_is_written_itself() -> None:
    """Its descriptor's link names what is no path: the text went to a new file of that name."""
    descriptor = os.memfd_create("report")
    with files.replacing(f"/proc/self/fd/{descriptor}") as file:
        file.write("text")
    assert os.pread(descriptor, 10, 0) == b"text"
    assert [name for name in os.listdir("/") if name.startswith("memfd:")] == []
    os.close(descriptor)
