# SPDX-License-Identifier: Apache-2.0
"""What a program in a cover can reach: no socket, process, network, device or power of the machine."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import termios
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import adapter
import pytest
from gpuconf import errors
from gpuconf.plans.programs.cover import Cover, Options

# A container may allow neither, or a root without power only those of a user.
ROOT = os.geteuid() == 0 and not adapter.why_not("unshare", adapter.NEW_MOUNTS)
USER = not adapter.why_not("unshare", adapter.NEW_USER | adapter.NEW_MOUNTS)
NAMESPACES = ["root"] * ROOT + ["user"] * USER
ALL = [*NAMESPACES, "mirror"]


@contextlib.contextmanager
def covered(folder: Path, program: str, options: Options, *, python: bool = True) -> Iterator[tuple[Cover, str]]:
    """Run a program in a cover: the cover, and what the program printed."""
    words = [sys.executable, "-c", textwrap.dedent(program)] if python else ["/bin/sh", "-c", program]
    cover = Cover(options)
    before = Path.cwd()
    with (folder.parent / f"{folder.name}.printed").open("w+b") as printed:
        os.chdir(folder)
        try:
            cover.start(words, os.environ, stdout=printed.fileno(), stderr=printed.fileno())
            cover.go({})
            deadline = time.monotonic() + 60
            while cover.poll() is None and time.monotonic() < deadline:
                select.select([cover], [], [], 1)
            cover.end()
            printed.seek(0)
            yield cover, printed.read().decode()
        finally:
            cover.close()
            os.chdir(before)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, list[bytes]]]:
    """A socket of another program, with a path, and what it got."""
    path, got = tmp_path / "s", []
    with socket.socket(socket.AF_UNIX) as listener:
        before = Path.cwd()
        os.chdir(tmp_path)  # the path of a temporary folder may be too long for a socket
        listener.bind("s")
        os.chdir(before)
        listener.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        got.append(connection.recv(100))

        threading.Thread(target=serve, daemon=True).start()
        yield path, got
        listener.shutdown(socket.SHUT_RDWR)


SEND = """
import socket
with socket.socket(socket.AF_UNIX) as s:
    try:
        s.connect("s")
        s.sendall(b"written")
        print("sent")
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.mark.parametrize("kind", ALL)
def test_a_socket_of_others_is_hidden_unless_it_is_allowed(
    tmp_path: Path, server: tuple[Path, list[bytes]], kind: str
) -> None:
    path, got = server
    with covered(tmp_path, SEND, Options(only=kind)) as (cover, printed):
        assert printed.strip() in ("ConnectionRefusedError", "FileNotFoundError")
        if kind != "mirror":  # there the working folder is a copy, without the socket
            assert cover.tried_sockets() == [str(path)]
    assert got == []
    if kind != "mirror":
        with covered(tmp_path, SEND, Options(only=kind, sockets=(str(path),))) as (_, printed):
            assert printed == "sent\n"
        deadline = time.monotonic() + 20
        while not got and time.monotonic() < deadline:
            time.sleep(0.01)  # the server reads in a thread of its own
        assert got == [b"written"]


def test_a_socket_elsewhere_is_refused_in_a_mirror_and_named(tmp_path: Path, server: tuple[Path, list[bytes]]) -> None:
    path, got = server
    folder = tmp_path / "work"
    folder.mkdir()
    program = SEND.replace('"s"', '"../s"')
    with covered(folder, program, Options(only="mirror")) as (cover, printed):
        assert printed == "ConnectionRefusedError\n"
        assert cover.tried_sockets() == [str(path)]
    assert got == []
    with covered(folder, program, Options(only="mirror", sockets=(str(path),))) as (_, printed):
        assert printed == "sent\n"


@pytest.mark.parametrize("kind", ALL)
def test_a_fifo_of_others_is_not_reached(tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    reading = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    program = """
    import os
    try:
        os.write(os.open("fifo", os.O_WRONLY | os.O_NONBLOCK), b"x")
        print("written")
    except OSError:
        print("no")
    """
    try:
        with covered(tmp_path, program, Options(only=kind)) as (_, printed):
            assert printed == "no\n"
        assert os.read(reading, 10) == b""
    finally:
        os.close(reading)


@pytest.mark.parametrize("kind", NAMESPACES)
def test_the_network_is_the_loopback_alone_unless_it_is_asked_for(tmp_path: Path, kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        program = f"""
        import socket
        own = socket.create_server(("127.0.0.1", 0))
        socket.create_connection(own.getsockname()).close()
        try:
            socket.create_connection(("127.0.0.1", {port}), 2)
            print("reached")
        except OSError:
            print("own only")
        print(len(socket.if_nameindex()))
        """
        with covered(tmp_path, program, Options(only=kind)) as (cover, printed):
            assert printed.split("\n")[:2] == ["own only", "1"]
            assert cover.said().endswith("; no network")
        with covered(tmp_path, program, Options(only=kind, network=True)) as (cover, printed):
            assert printed.startswith("reached")
            assert cover.said().endswith("; the network is on")


@pytest.mark.parametrize("kind", ALL)
def test_signals_reach_no_process_outside(tmp_path: Path, kind: str) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"]) as other:
        program = f"""
        import os
        for number in ({other.pid}, {os.getpid()}):
            try:
                os.kill(number, 9)
                print("sent")
            except (ProcessLookupError, PermissionError):
                print("refused")
        """
        with covered(tmp_path, program, Options(only=kind)) as (_, printed):
            assert printed == "refused\nrefused\n"
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize("kind", NAMESPACES)
def test_abstract_sockets_stay_inside_with_the_network_on(tmp_path: Path, kind: str) -> None:
    name = f"\0gpuconf-{os.urandom(8).hex()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        program = f"import socket; print(socket.socket(socket.AF_UNIX).connect_ex({name!r}) != 0)"
        with covered(tmp_path, program, Options(only=kind, network=True)) as (cover, printed):
            assert printed == "True\n" or "abstract sockets reach" in cover.said()


@pytest.mark.parametrize("kind", NAMESPACES)
def test_what_a_program_leaves_ends_and_is_counted(tmp_path: Path, kind: str) -> None:
    program = "for i in 1 2 3; do env -i setsid sleep 1000 & done; sleep 0.3"
    with covered(tmp_path, program, Options(only=kind), python=False) as (cover, _):
        assert (cover.status, cover.outlived) == (0, 3)


@pytest.mark.skipif(not ROOT, reason="only root has such powers")
def test_root_keeps_no_power_over_the_machine(tmp_path: Path) -> None:
    program = """
    sed -n 's/^CapEff:.//p' /proc/self/status /proc/1/status
    mount -t tmpfs none /mnt 2>/dev/null && echo mounted
    mount -o remount,rw /sys 2>/dev/null && echo remounted
    umount -l /tmp 2>/dev/null && echo unmounted
    mknod node b 7 0 2>/dev/null && echo made
    chmod 600 /dev/null 2>/dev/null && echo changed
    date -s 2020-01-01 >/dev/null 2>&1 && echo set
    (echo 1 > /proc/sys/vm/overcommit_memory) 2>/dev/null && echo written
    ip link set lo down 2>/dev/null && echo down
    ls -m /dev
    """
    with covered(tmp_path, program, Options(only="root"), python=False) as (_, printed):
        powers, of_first, devices = printed.split("\n", 2)
    refused = (12, 16, 17, 21, 22, 25, 27)  # NET_ADMIN, SYS_MODULE, SYS_RAWIO, SYS_ADMIN, SYS_BOOT, SYS_TIME, MKNOD
    assert [number for number in refused if (int(powers, 16) | int(of_first, 16)) >> number & 1] == []
    known = set("fd full null ptmx pts random shm stderr stdin stdout tty urandom zero".split())
    assert set(devices.replace("\n", " ").replace(",", "").split()) == known


@pytest.mark.parametrize("kind", NAMESPACES)
def test_a_namespace_of_its_own_gives_a_program_nothing_back(tmp_path: Path, kind: str) -> None:
    program = (
        "unshare -Urm sh -c 'mount -t tmpfs none /mnt && echo inner; mount -o remount,bind,rw /sys && echo "
        "outer' 2>/dev/null"
    )
    with covered(tmp_path, program, Options(only=kind), python=False) as (_, printed):
        assert printed == "inner\n"


@pytest.mark.parametrize("kind", NAMESPACES)
def test_writes_are_limited(tmp_path: Path, kind: str) -> None:
    program = """
    import errno
    try:
        with open("big", "wb") as file:
            for _ in range(20): file.write(bytes(1 << 20))
    except OSError as error:
        print(errno.errorcode[error.errno])
    """
    with covered(tmp_path, program, Options(only=kind, writes=10 << 20)) as (cover, printed):
        assert printed == "ENOSPC\n"
        assert cover.is_full()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ALL)
def test_what_a_program_wrote_is_named_and_can_be_kept(tmp_path: Path, kind: str) -> None:
    folder, kept = tmp_path / "work", tmp_path / "kept"
    folder.mkdir()
    for name in ("old", "removed", "same", "mode", "name"):
        (folder / name).write_text("before")
    program = """
    import os
    os.chmod("mode", 0o600)
    os.chmod("name", 0o600)
    os.rename("name", "renamed")
    open("old", "a").write(" and after")
    os.remove("removed")
    os.makedirs("deep/er")
    open("deep/er/new", "w").write("new")
    os.symlink("new", "deep/er/link")
    with open("sparse", "wb") as file:
        file.truncate(4 << 30)
    """
    with covered(folder, program, Options(only=kind)) as (cover, _):
        found = {os.path.relpath(entry.path, folder): entry for entry, _ in cover.written()}
        assert {name: entry.existed for name, entry in found.items() if not entry.removed} == {
            "old": True, "deep/er/new": False, "deep/er/link": False, "sparse": False, "mode": True, "renamed": False,
        }  # fmt: skip
        assert kind == "mirror" or found["removed"].removed
        cover.keep(str(kept))
    copies = Path(f"{kept}{folder}")
    assert (copies / "old").read_text() == "before and after"
    assert (copies / "mode").read_text() == (copies / "renamed").read_text() == "before"
    assert (copies / "mode").stat().st_mode & 0o777 == 0o600
    assert (copies / "deep/er/link").read_text() == "new"
    assert (copies / "sparse").stat().st_size == 4 << 30
    assert (copies / "sparse").stat().st_blocks * 512 < 1 << 20
    assert sorted(path.name for path in folder.iterdir()) == ["mode", "name", "old", "removed", "same"]
    assert (folder / "old").read_text() == "before"


def test_a_program_that_writes_more_than_it_may_in_a_mirror_is_ended(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "copied").write_bytes(bytes(20 << 20))  # does not count
    program = """
    import os, time
    with open("big", "wb", 0) as file:
        for _ in range(8): file.write(bytes(1 << 20))
        print("written", flush=True)
        time.sleep(1)
        with open(os.environ["TMPDIR"] + "/more", "wb", 0) as more:
            print("more", flush=True)
            for _ in range(200): more.write(bytes(1 << 20)), time.sleep(0.05)
    """
    with covered(folder, program, Options(only="mirror", writes=10 << 20)) as (cover, printed):
        assert printed == "written\nmore\n"
        assert (cover.is_full(), cover.status, cover.writes) == (True, -9, 10 << 20)
        assert sum(entry.size for entry, _ in cover.written()) < 150 << 20
    program = "open('big', 'wb').write(bytes(8 << 20))"
    with covered(folder, program, Options(only="mirror", writes=10 << 20)) as (cover, _):
        assert (cover.is_full(), cover.status) == (False, 0)


def test_a_cover_in_a_cover(tmp_path: Path) -> None:
    """A program that rehearses another one."""
    inner = [
        sys.executable,
        str(Path(__file__).parent / "covered.py"),
        "",
        "/bin/sh",
        "-c",
        "echo inner > new; cat new",
    ]
    with covered(tmp_path, f"import subprocess; subprocess.run({inner!r}, check=True)", Options()) as (_, printed):
        assert printed == "inner\n"
    assert list(tmp_path.iterdir()) == []


def test_a_working_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    before = Path.cwd()
    os.chdir(folder)
    folder.rmdir()
    try:
        with pytest.raises(errors.UnavailableError, match="the working folder has been removed"):
            Cover(Options()).start(["/bin/true"], os.environ, stdout=1, stderr=2)
    finally:
        os.chdir(before)


@pytest.mark.parametrize("kind", ALL)
def test_a_folder_for_temporary_files_that_does_not_exist(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mirror could not be made, and nothing said why: the other covers and Python take /tmp then."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    with covered(folder, "print('ran')", Options(only=kind)) as (_, printed):
        assert printed == "ran\n"


def test_a_folder_that_is_too_large_for_a_mirror_is_not_copied(tmp_path: Path) -> None:
    cover, large = Cover(Options(only="mirror")), tmp_path / "large"
    with large.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, (2 << 30) + 1)
    try:
        with pytest.raises(errors.UnavailableError, match=r"at most 50,000 files and 2 GiB.*--unprotected runs it"):
            cover.start(["/bin/true"], os.environ, stdout=1, stderr=2, folder=str(tmp_path))
    finally:
        cover.close()
        large.unlink()


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    cover = Cover(Options())
    try:
        cover.start(["./missing"], os.environ, stdout=1, stderr=2, folder=str(tmp_path))
        cover.go({})
        select.select([cover], [], [], 60)
        with pytest.raises(FileNotFoundError):
            cover.poll()
    finally:
        cover.close()


@pytest.mark.skipif(not ROOT, reason="mounts a file system")
@pytest.mark.parametrize("kind", NAMESPACES)
def test_a_read_only_file_system_stays_read_only(tmp_path: Path, kind: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", str(tmp_path)], check=True)
    try:
        program = "import errno\ntry: open('x', 'w')\nexcept OSError as error: print(errno.errorcode[error.errno])"
        with covered(tmp_path, program, Options(only=kind)) as (_, printed):
            assert printed == "EROFS\n"
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


OWN_GROUP = """
import os, signal
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
os.killpg(os.getpgrp(), signal.SIGTERM)
os.kill(0, signal.SIGTERM)
print("survived", os.getpgrp() > 0, os.getsid(0) > 0)
"""


@pytest.mark.parametrize("kind", ALL)
def test_a_signal_to_the_group_of_the_program_reaches_the_program_alone(tmp_path: Path, kind: str) -> None:
    """It ended the cover, and the program was said to be killed."""
    with covered(tmp_path, OWN_GROUP, Options(only=kind)) as (cover, printed):
        assert (cover.status, printed) == (0, "asked\nasked\nsurvived True True\n")


@pytest.mark.parametrize("kind", ALL)
def test_a_caller_that_ignores_the_end_of_children(tmp_path: Path, kind: str) -> None:
    """The launcher inherited that, could not wait for the program, and waited for ever."""
    program = "import signal; print(signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN)"
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with covered(tmp_path, program, Options(only=kind)) as (cover, printed):
            assert (cover.status, printed) == (0, "True\n")
    finally:
        signal.signal(signal.SIGCHLD, before)


THROUGH_DESCRIPTORS = """
import contextlib, os
for descriptor in range(3):
    for change in (lambda: os.fchmod(descriptor, 0o667), lambda: os.utime(descriptor, (1, 1)),
                   lambda: os.fchown(descriptor, 1, 1), lambda: os.ftruncate(descriptor, 0),
                   lambda: os.chmod(f"/proc/self/fd/{descriptor}", 0o667)):
        with contextlib.suppress(OSError):
            change()
print("printed")
"""


@pytest.mark.parametrize("kind", ALL)
def test_files_that_the_program_has_from_the_start_stay_as_they_are(tmp_path: Path, kind: str) -> None:
    """/dev/null got another mode, and the log of the rehearsal another owner."""
    log = tmp_path / "work.printed"
    (tmp_path / "work").mkdir()
    null = os.stat("/dev/null")
    with covered(tmp_path / "work", THROUGH_DESCRIPTORS, Options(only=kind)) as (_, printed):
        assert printed == "printed\n"
        after = os.stat("/dev/null")
        assert (after.st_mode, after.st_uid, after.st_mtime_ns) == (null.st_mode, null.st_uid, null.st_mtime_ns)
        assert (log.stat().st_mode & 0o777, log.stat().st_uid) == (0o666 & ~umask(), os.geteuid())
        assert log.stat().st_mtime > 1


def umask() -> int:
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


def test_a_terminal_gets_its_settings_back(tmp_path: Path) -> None:
    main, terminal = pty.openpty()
    settings = termios.tcgetattr(terminal)
    size = fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(8))
    cover = Cover(Options())
    program = "import sys, tty, fcntl, termios; tty.setraw(1); fcntl.ioctl(1, termios.TIOCSWINSZ, bytes([7, 0] * 4))"
    try:
        words = [sys.executable, "-c", program]
        cover.start(words, os.environ, stdout=terminal, stderr=terminal, folder=str(tmp_path))
        cover.go({})
        while cover.poll() is None:
            select.select([cover], [], [], 1)
        assert termios.tcgetattr(terminal) != settings, "the program has changed them"
    finally:
        cover.close()
    assert termios.tcgetattr(terminal) == settings
    assert fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(8)) == size
    os.close(main)
    os.close(terminal)


OUT_OF_A_MIRROR = """
import array, ctypes, errno, fcntl, os, socket, sys
server, file, other = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)

def tried(call):
    try:
        call()
        return "worked"
    except OSError as error:
        return errno.errorcode[error.errno]

def by_number(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")

with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
    print(tried(lambda: s.sendto(b"x", server)), tried(lambda: s.sendmsg([b"x"], [], 0, server)))
with open(file) as opened:
    for request in (0x40086602, 0x40087602):  # FS_IOC_SETFLAGS, FS_IOC_SETVERSION
        print(tried(lambda: fcntl.ioctl(opened, request, array.array("l", [0xC0]))))
flags = (ctypes.c_uint64 * 3)(0x40)  # FS_XFLAG_NOATIME
for number in (469, 0x40000000 + 90):  # file_setattr, and chmod of the x32 interface
    print(tried(lambda: by_number(libc.syscall(number, -100, file.encode(), flags, 24, 0))))
add_key = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
print(tried(lambda: by_number(libc.syscall(add_key, b"user", b"gpuconf", b"x", 1, -4))))
print(tried(lambda: by_number(libc.shmget(0x1234567, 4096, 0o1666))))
print(tried(lambda: os.setpriority(os.PRIO_PROCESS, int(other), 15)))
print(tried(lambda: os.setpriority(os.PRIO_USER, 0, 15)), tried(lambda: os.sched_setaffinity(int(other), {0})))
print(tried(lambda: os.setpriority(os.PRIO_PROCESS, os.getpid(), 1)), tried(lambda: os.setpriority(os.PRIO_PGRP, 0, 2)))
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
print(tried(lambda: ours.sendmsg([b"x"])), tried(lambda: os.sched_setaffinity(os.getpid(), {0})))
"""


def test_ways_out_of_a_mirror_that_are_no_writes_to_files(tmp_path: Path) -> None:
    """Datagrams reached the servers of others, and flags of files, priorities and shared memory the machine."""
    (tmp_path / "work").mkdir()
    (tmp_path / "file").touch()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.setblocking(False)
        before = Path.cwd()
        os.chdir(tmp_path)
        server.bind("s")
        os.chdir(before)
        (tmp_path / "work" / "program.py").write_text(OUT_OF_A_MIRROR)
        program = f"{sys.executable} program.py ../s {tmp_path}/file {os.getpid()}"
        with covered(tmp_path / "work", program, Options(only="mirror"), python=False) as (_, printed):
            assert printed.split() == [
                *("ECONNREFUSED", "ECONNREFUSED", "EACCES", "EACCES", "ENOSYS", "ENOSYS", "ENOSYS", "ENOSYS"),
                *("EPERM", "EPERM", "EPERM"),
                *("worked", "worked", "worked", "worked"),
            ]
        with pytest.raises(BlockingIOError):
            server.recv(1)


CHANGES = """
import os, shutil
open("opened", "r+").close()
os.chmod("mode", 0o640)
os.mkdir("new")
shutil.copy("/bin/true", "new/setuid")
os.chmod("new/setuid", 0o6755)
shutil.move("folder", "renamed")
os.chmod("renamed/inner", 0o600)
for _ in range(30):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
open("deep", "w").close()
"""


@pytest.mark.parametrize("kind", ALL)
def test_what_is_listed_and_kept(tmp_path: Path, kind: str) -> None:
    """What was only opened was listed. A kept file had the overlay's attributes, with which it could not be read in the
    next rehearsal, or was one of root's that everybody runs as root.
    """
    work = tmp_path / "work"
    work.mkdir()
    for name in ("opened", "mode", "folder/inner"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(name)
    with covered(work, CHANGES, Options(only=kind)) as (cover, printed):
        assert (cover.status, printed) == (0, "")
        listed = {Path(entry.path).relative_to(work) for entry, _ in cover.written() if len(entry.path) < 4096}
        assert not any(path.name == "opened" for path in listed)
        deep = [entry for entry, _ in cover.written() if entry.path.endswith("/deep")]
        assert len(deep) == 1
        with contextlib.suppress(OSError):  # of the file whose path is too long to copy
            cover.keep(str(tmp_path / "kept"))
    kept = Path(f"{tmp_path}/kept{work}")
    for name, content in {"mode": "mode", "renamed/inner": "folder/inner"}.items():
        if (kept / name).exists():
            assert (kept / name).read_text() == content
            assert os.listxattr(kept / name) == []
    assert (kept / "new" / "setuid").stat().st_mode & 0o7777 == 0o755
