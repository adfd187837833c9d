# SPDX-License-Identifier: Apache-2.0
"""A program that can change nothing of the machine.

The launcher in ``gocore/plan/cover`` tries what the kernel allows:

- ``root`` and ``user``: namespaces of mounts, processes and the network. What the program writes is in overlays in
  memory.
- ``mirror``: a copy of the working folder, and Landlock refuses all other writes. For containers that forbid mounts.
- ``unprotected``: none of it, if it is requested by name.

The folder of the report is in memory, too, so that nothing is left behind, whatever ends this process.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence

from ... import errors
from ..._typing import NamedTuple
from ...jobs.cgroup import host_room
from .outputs import Outputs

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAUNCHER = os.path.join(_PACKAGE, "_cover", "gpuconf-cover")
_MAPPED = os.path.join(_PACKAGE, "_cover", "libgpuconf-mapped.so")
_PRELOAD = os.path.join(_PACKAGE, "_always", "libgpuconf-always.so")
_ENVIRONMENT = "environment"  # what gocore/sim/always reads in the folder of the report
WRITES = 8 << 30  # bytes

UNPROTECTED = "unprotected"
_SAID = {
    "root": "overlays in a mount namespace",
    "user": "overlays in a user and mount namespace",
    "mirror": "a copy of the working folder; Landlock refuses all other writes",
    UNPROTECTED: "none, as requested by --unprotected; what the program wrote is real",
}


class Options(NamedTuple):
    """What a cover lets through."""

    network: bool = False  # whether the program has the machine's network
    writes: int = WRITES  # bytes that it may write, at most half of the memory that is free
    sockets: tuple[str, ...] = ()  # paths of sockets of others that it may use
    only: str = ""  # the one cover to use, "" for the first that works


class Entry(NamedTuple):
    """A file that the program wrote, replaced or removed, as it saw it."""

    path: str
    existed: bool  # whether the machine has a file there, which is as it was
    removed: bool
    size: int  # bytes


class Cover:
    """One program in a cover. ``start`` makes the cover, ``go`` lets the program begin."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._control: socket.socket | None = None
        self._launcher: subprocess.Popen[bytes] | None = None
        self._report = self._layers = -1
        self._outputs = Outputs()
        self._since = 0
        self.kind = ""
        self.inside = ""  # the folder of the report, as the program sees it
        self.folder = ""  # the same, as this process does
        self.notes = ""
        self.status: int | None = None  # as subprocess has it, once the program has ended
        self.outlived = 0  # processes that were there when it had ended
        self.refused: list[str] = []
        self.writes = min(options.writes, host_room().available // 2)
        self._full = False  # whether the program was ended because it had written more

    def start(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        *,
        stdout: int,
        stderr: int | None,
        folder: str | None = None,
        seconds: float | None = None,
    ) -> None:
        """Make the cover, with a working folder for the program if it is not this process's.

        Raises UnavailableError if this machine allows none, and OSError if there is no launcher, or after these
        seconds.
        """
        try:
            folder = folder or os.getcwd()
        except FileNotFoundError:
            raise errors.UnavailableError("the program was not run: the working folder has been removed") from None
        stdout, errors_to = self._outputs.given(stdout), self._outputs.given(2 if stderr is None else stderr)
        if errors_to != 2:  # None leaves it as it is, closed or not
            stderr = errors_to
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(seconds)
        self._control = ours
        options = ["--network"] if self._options.network else []
        options += ["--only", self._options.only] if self._options.only else []
        options += ["--preload", _PRELOAD] if os.path.exists(_PRELOAD) else []
        options += ["--mapped", _MAPPED]
        options += [word for path in self._options.sockets for word in ("--socket", path)]
        with theirs:
            self._launcher = subprocess.Popen(
                [LAUNCHER, "--control", str(theirs.fileno()), "--writes", str(self.writes), *options, "--", *words],
                stdin=self._outputs.empty(),
                stdout=stdout,
                stderr=stderr,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        self._outputs.started()
        while not self.kind:
            try:
                data, descriptors, _, _ = socket.recv_fds(ours, 1 << 16, 2)
            except TimeoutError:
                self._launcher.kill()
                raise
            kind, _, text = data.decode(errors="surrogateescape").partition(" ")
            if kind == "ready":
                self.kind, self.inside, self.notes = text.split("\n", 2)
                self._report, self._layers = (*descriptors, -1)[:2]
                self.folder = f"/proc/self/fd/{self._report}"
            elif kind == "refused":
                self.refused.append(text.replace("\n", ": ", 1))
            else:
                self.close()
                why = "; ".join(self.refused) or "the launcher ended"
                raise errors.UnavailableError(
                    f"the program was not run: this machine has no way to keep its writes from real files ({why}). "
                    "`gpuconf doctor` says what to set; --unprotected runs it all the same, and what it writes is real"
                )

    def go(self, variables: Mapping[str, str]) -> None:
        """Let the program begin, with these variables beside its environment.

        Raises OSError if it cannot be started.
        """
        assert self._control is not None
        with open(os.path.join(self.folder, _ENVIRONMENT), "wb") as file:
            file.write(b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in variables.items()))
        with open(os.path.join(self.folder, "tried"), "wb"):
            pass
        self._since = _after_all_before()
        sent = b"".join(
            os.fsencode(text) + b"\0" for text in ("go", *(f"{name}={value}" for name, value in variables.items()))
        )
        self._control.send(sent)
        self._control.settimeout(0)

    def poll(self) -> int | None:
        """Return the program's status if it has ended, as ``subprocess`` has it.

        Raises OSError if it could not be started.
        """
        try:
            while self.status is None and self._control is not None:
                data = self._control.recv(1 << 12)
                if data:
                    self._take(data.decode())
                else:  # something has killed the launcher
                    self.status = -9
        except BlockingIOError:
            pass
        except ConnectionError:
            self.status = -9
        return self.status

    def _take(self, text: str) -> None:
        kind, *numbers = text.split()
        if kind == "exec":
            number = int(numbers[0])
            raise OSError(number, os.strerror(number))
        if kind == "full":  # of a mirror
            self._full, self.writes = True, int(numbers[0])
        if kind == "status":
            status, self.outlived = map(int, numbers)
            self.status = os.waitstatus_to_exitcode(status) if status >= 0 else -9

    def fileno(self) -> int:
        """Return the descriptor that is readable when there is something to poll."""
        assert self._control is not None
        return self._control.fileno()

    def end(self) -> None:
        """End the program, and every process that it has left."""
        if self._control is None or not self.kind:
            return
        self._control.settimeout(None)
        try:
            self._control.send(b"end")
            while self.status is None and (data := self._control.recv(1 << 12)):
                self._take(data.decode())
        except OSError:  # it has ended
            pass
        self._outputs.flush()

    def close(self) -> None:
        """End it, and forget what it wrote, and its report."""
        self.end()
        if self._control is not None:
            self._control.close()  # the launcher removes the folder, where it is not in memory
            self._control = None
        if self._launcher is not None:
            self._launcher.wait()
            self._launcher = None
        self._outputs.close()
        for descriptor in (self._report, self._layers):
            if descriptor >= 0:
                os.close(descriptor)
        self._report = self._layers = -1

    def tried_sockets(self) -> list[str]:
        """Return the paths of sockets and FIFOs of others that the program tried, and did not reach."""
        try:
            with open(os.path.join(self.folder, "tried"), "rb") as file:
                lines = {os.path.normpath(os.fsdecode(line)) for line in file.read().splitlines()}
        except OSError:
            return []
        return sorted(path for path in lines if _is_socket_or_fifo(path))

    def written(self) -> Iterator[tuple[Entry, str]]:
        """Yield what the program wrote, replaced or removed, with the path of the file as this process can read it."""
        if self._layers < 0:
            return
        layers = f"/proc/self/fd/{self._layers}"
        for number in sorted(os.listdir(layers)):
            files = os.path.join(layers, number, "files")
            of = os.readlink(os.path.join(layers, number, "of"))
            for place, folders, names, folder in os.fwalk(files):  # a path may be longer than the kernel takes
                at = os.path.normpath(os.path.join(of, os.path.relpath(place, files)))
                for name in (*names, *folders):
                    facts = os.lstat(name, dir_fd=folder)
                    if facts.st_ctime_ns <= self._since or stat.S_ISDIR(facts.st_mode):
                        continue  # a copy that the cover made, or a folder
                    removed = stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0
                    real = os.path.join(at, name)
                    path = os.path.join(place, name)
                    if not _is_copy(facts, path, real):
                        yield Entry(real, os.path.lexists(real), removed, facts.st_size), path

    def keep(self, folder: str) -> int:
        """Copy what the program wrote below a folder, under the paths that it had.

        Returns how many files there were.
        """
        count = 0
        for entry, path in self.written():
            if entry.removed or not (os.path.isfile(path) or os.path.islink(path)):
                continue
            target = folder + entry.path
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.islink(path):
                os.symlink(os.readlink(path), target)
            else:
                _copy_sparse(_with_data(path), target)
                facts = os.lstat(path)  # not its owner, with whom a program that runs as its owner would be another one
                os.chmod(target, stat.S_IMODE(facts.st_mode) & 0o777)
                os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))
            count += 1
        return count

    def said(self) -> str:
        """Return what a reader has to know of the cover, in one line."""
        parts = (_SAID[self.kind], self.notes, "the network is on" if self.has_network() else "no network")
        return "; ".join(part for part in parts if part)

    def is_full(self) -> bool:
        """Whether the program has written all that it may."""
        layers = self._layers >= 0 and self.kind in ("root", "user")
        return self._full or (layers and os.statvfs(self._layers).f_bavail == 0)

    def has_network(self) -> bool:
        """Whether the program has the machine's network."""
        return self._options.network or self.kind not in ("root", "user")


def _after_all_before() -> int:
    """Return a time that no file of the cover's is newer than, and that each write after this is: file systems' clock
    lags.
    """
    coarse, now = 5, time.time_ns()  # CLOCK_REALTIME_COARSE, which time has no name for
    while time.clock_gettime_ns(coarse) <= now:
        time.sleep(0.0005)
    return now


def _is_copy(facts: os.stat_result, path: str, real: str) -> bool:
    """Whether a file is as on the machine: an overlay copies what is opened for writing, written to or not."""
    import filecmp

    try:
        there = os.lstat(real)
        same = stat.S_ISREG(facts.st_mode) and all(getattr(facts, name) == getattr(there, name) for name in _OF_COPIES)
        return same and filecmp.cmp(_with_data(path), real, shallow=False)
    except OSError:
        return False


_OF_COPIES = ("st_mode", "st_uid", "st_gid", "st_size", "st_mtime_ns")


def _with_data(path: str) -> str:
    """Return where the data of a file is: one whose mode or name alone has changed has it in the machine's file."""
    try:
        os.getxattr(path, "trusted.overlay.metacopy")
    except OSError:
        return path
    layer, _, rest = path.partition("/files/")
    at, origin = f"{layer}/files", "/"  # from the root of the layer, as it is there and as the machine has it
    for name in rest.split("/"):
        at = os.path.join(at, name)
        try:  # a folder that was renamed has one, too
            redirect = os.fsdecode(os.getxattr(at, "trusted.overlay.redirect"))
        except OSError:
            redirect = name
        origin = os.path.join(origin, redirect)
    return os.path.normpath(os.readlink(f"{layer}/of") + origin)


def _copy_sparse(source: str, target: str) -> None:
    with open(source, "rb") as file, open(target, "xb") as copy:
        end = os.fstat(file.fileno()).st_size
        copy.truncate(end)
        at = 0
        while at < end:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:  # there is only a hole
                return
            hole = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            os.lseek(copy.fileno(), at, os.SEEK_SET)
            while at < hole:
                at += os.sendfile(copy.fileno(), file.fileno(), at, hole - at)


def _is_socket_or_fifo(path: str) -> bool:
    """Whether the machine has one there: a program also looks for what is not installed."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)
