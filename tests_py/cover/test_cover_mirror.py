# SPDX-License-Identifier: Apache-2.0
"""The copy of a working folder keeps real files where a container forbids more than mounts."""

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import adapter
import pytest

# What runs a program in a mirror, below a filter as Podman's, which forbids process_vm_readv.
COVERED = """
import ctypes, os, struct, sys, time
from gpuconf.plans.programs.cover import Cover, Options

def step(code, jump, number):
    return struct.pack("HBBI", code, jump[0], jump[1], number)

libc = ctypes.CDLL(None)
number = {"x86_64": 310, "aarch64": 270}[os.uname().machine]
steps = ctypes.create_string_buffer(
    step(0x20, (0, 0), 0) + step(0x15, (0, 1), number) + step(0x06, (0, 0), 0x00050001) + step(0x06, (0, 0), 0x7FFF0000)
)
class Filter(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("steps", ctypes.c_void_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Filter(4, ctypes.addressof(steps))), 0, 0) == 0
cover = Cover(Options(only="mirror"))
cover.start(sys.argv[1:], dict(os.environ), stdout=1, stderr=2)
cover.go({})
while cover.poll() is None:
    time.sleep(0.01)
cover.close()
"""
PROGRAM = """
import os, sys
outside = sys.argv[1]
open("own", "w").close()
os.chmod("own", 0o600)
print(oct(os.stat("own").st_mode & 0o777))
for change in (lambda: os.chmod(outside, 0o600), lambda: os.utime(outside, (1, 1)),
               lambda: os.chmod(os.open(outside, 0), 0o600)):
    try:
        change()
    except PermissionError:
        print("refused")
try:
    os.chmod("none", 0o600)
except FileNotFoundError:
    print("not found")
"""


@pytest.mark.skipif(platform.machine() not in {"x86_64", "aarch64"}, reason="the filter names a call by its number")
def test_modes_and_times_of_real_files_stay_where_memory_of_other_processes_cannot_be_read(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    outside = tmp_path / "outside"
    outside.write_text("precious")
    outside.chmod(0o644)
    before = outside.stat()
    words = [sys.executable, "-c", COVERED, sys.executable, "-c", PROGRAM, str(outside)]
    done = subprocess.run(words, cwd=project, capture_output=True, text=True, check=False, timeout=60)
    if "this machine has no way" in done.stderr:
        pytest.skip("this kernel has no Landlock")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["0o600", "refused", "refused", "refused", "not found", ""]
    after = outside.stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_mode,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )


@pytest.mark.skipif(bool(adapter.why_not("syscall", 444, 0, 0, 1)), reason="this kernel has no Landlock")
def test_the_folder_of_temporary_files_is_copied_without_the_copy() -> None:
    """The copy is made there, and was copied into itself until paths were too long."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a long path would not be used
        (Path(folder) / "old").write_text("precious")
        program = "import os; open('new', 'w').close(); print(sorted(os.listdir()))"
        words = [sys.executable, "-c", COVERED, sys.executable, "-c", program]
        environment = {**os.environ, "TMPDIR": folder}
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.stdout, done.stderr) == ("['new', 'old']\n", "")
        assert os.listdir(folder) == ["old"]
