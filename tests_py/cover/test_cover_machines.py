# SPDX-License-Identifier: Apache-2.0
"""A cover where a disk is full, where home is a FUSE file system, and around programs that shut themselves in."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpuconf.plans.programs.cover import Options
from gpuconf.plans.programs.rehearse import what_was_written
from test_cover import ALL, NAMESPACES, ROOT, covered

needs_root = pytest.mark.skipif(not ROOT, reason="mounts a file system")


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A disk without a free byte."""
    disk = tmp_path / "full"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)], check=True)
    try:
        (disk / "old").write_text("precious")
        with (disk / "rest").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize)
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


REPLACE = """
open("new", "wb").write(bytes(1 << 20))
open("old", "a").write(" and after")
print(len(open("new", "rb").read()), open("old").read())
"""


@needs_root
@pytest.mark.parametrize("kind", ALL)
def test_a_full_disk_takes_what_a_rehearsal_writes_and_stays_as_it_is(full: Path, kind: str) -> None:
    before = contents(full)
    with covered(full, REPLACE, Options(only=kind)) as (_, printed):
        assert printed == "1048576 precious and after\n"
    assert contents(full) == before


@needs_root
def test_what_cannot_be_kept_is_one_line(full: Path, tmp_path: Path) -> None:
    with covered(tmp_path, "open('big', 'wb').write(bytes(1 << 20))", Options()) as (cover, _):
        (line,) = what_was_written(cover, str(full / "kept"))
    assert line == f"--keep {full}/kept: No space left on device; not all that the program wrote is there"


@needs_root
def test_a_mirror_needs_no_room_on_the_disk_of_temporary_files(
    full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "large").write_bytes(bytes(1 << 20))
    before = contents(full)
    monkeypatch.setenv("TMPDIR", str(full))
    with covered(folder, "print(len(open('large', 'rb').read()))", Options(only="mirror")) as (_, printed):
        assert printed == "1048576\n"
    assert contents(full) == before


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home that the machine's own process serves, as one on a network."""
    program = shutil.which("fuse-overlayfs")
    if program is None or not os.path.exists("/dev/fuse"):
        pytest.skip("fuse-overlayfs: not installed")
    home = tmp_path / "home"
    for name in ("home", "lower", "upper", "work"):
        (tmp_path / name).mkdir()
    (tmp_path / "lower" / "notes").write_text("precious")
    options = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    subprocess.run([program, "-o", options, str(home)], check=True)
    try:
        yield home
    finally:
        subprocess.run(["umount", str(home)], check=True)


@needs_root
@pytest.mark.parametrize("kind", ALL)
def test_a_home_that_a_process_serves(home: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    before = contents(home)
    program = """
    import os, pathlib
    home = pathlib.Path.home()
    try:
        (home / "notes").write_text("rewritten")
        (home / ".cache").mkdir()
        os.rename(home / "notes", home / "renamed")
        print(sorted(os.listdir(home)))
    except OSError as error:
        print(type(error).__name__)
    """
    folder = home.parent / "project"
    folder.mkdir()
    with covered(folder, program, Options(only=kind)) as (_, printed):
        assert printed == ("PermissionError\n" if kind == "mirror" else "['.cache', 'renamed']\n")
    with covered(home, program, Options(only=kind)) as (_, printed):
        assert printed == "['.cache', 'renamed']\n"
    assert contents(home) == before


LANDLOCK = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
ruleset = libc.syscall(444, struct.pack("Q", 1 << 1 | 1 << 8), 8, 0)  # WRITE_FILE, MAKE_REG
assert ruleset >= 0
os.mkdir("allowed")
place = os.open("allowed", os.O_PATH)
assert libc.syscall(445, ruleset, 1, struct.pack("=Qi", 1 << 1 | 1 << 8, place), 0) == 0
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(446, ruleset, 0) == 0
open("allowed/file", "w").write("own")
try:
    open("file", "w")
except PermissionError:
    print(open("allowed/file").read(), "refused")
"""


@pytest.mark.parametrize("kind", ALL)
def test_a_program_that_uses_landlock_itself(tmp_path: Path, kind: str) -> None:
    with covered(tmp_path, LANDLOCK, Options(only=kind)) as (_, printed):
        assert printed == "own refused\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap: not installed")
@pytest.mark.parametrize("kind", NAMESPACES)
def test_a_program_that_starts_bubblewrap(tmp_path: Path, kind: str) -> None:
    """A new /proc is refused by the kernel, as in a container: the cover's is not whole."""
    inside = "bwrap --unshare-all --ro-bind / / --bind $PWD $PWD %s sh -c 'echo own > new; cat new; > /x' 2>&1; "
    program = inside % "" + inside % "--proc /proc"
    with covered(tmp_path, program, Options(only=kind), python=False) as (_, printed):
        first, second, third = printed.splitlines()
    assert first == "own"
    assert "Read-only file system" in second
    assert re.fullmatch("bwrap: Can't mount proc on .*: Operation not permitted", third)
    assert list(tmp_path.iterdir()) == []
