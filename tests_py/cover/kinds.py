# SPDX-License-Identifier: Apache-2.0
"""Kinds of writes, as programs do them:
``python kinds.py NAME`` in a prepared project prints what the program saw, as JSON.

`prepare` makes the project: files that are precious to their owner. A kind changes some of them, makes new ones, and
returns what it read back, without times, so that a run in a cover and one in a copy of the project can be compared.
``python kinds.py --each NAME ...`` runs each kind in the folder of its name, in a process of its own. What is here
needs the standard library only; `library_kinds` needs others.
"""

import bz2
import configparser
import contextlib
import csv
import ctypes
import dbm
import errno
import fcntl
import fileinput
import functools
import glob
import gzip
import hashlib
import importlib.util
import io
import json
import logging
import logging.handlers
import lzma
import mailbox
import mmap
import multiprocessing
import multiprocessing.process
import os
import pickle
import select
import shelve
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONG_AGO = 1_600_000_000  # when the precious files were last written
BIG = 64 << 20


@dataclass(frozen=True)
class Place:
    """Where a kind runs: in the project, its working folder. The other folders have a precious file, too."""

    project: str  # absolute
    home: str
    temporary: str  # a folder below /tmp, by its absolute path
    shared: str  # a folder in /dev/shm
    token: str  # what begins the names of this test in places that all share


@dataclass(frozen=True)
class Kind:
    name: str
    run: Callable[[Place], Any]
    modules: tuple[str, ...]  # that are not the standard library's
    programs: tuple[str, ...]
    big: bool  # the project has big.bin

    def missing(self) -> str:
        """Why this kind cannot run here, or nothing."""
        lacking = [name for name in self.modules if importlib.util.find_spec(name.partition(".")[0]) is None]
        lacking += [name for name in self.programs if shutil.which(name) is None]
        return f"{', '.join(lacking)}: not installed" if lacking else ""


KINDS: dict[str, Kind] = {}


def kind(
    *modules: str, programs: str = "", big: bool = False
) -> Callable[[Callable[[Place], Any]], Callable[[Place], Any]]:
    """Register a function under its name with dashes; those that need nothing are found by their parameter, below."""

    def register(function: Callable[[Place], Any]) -> Callable[[Place], Any]:
        name = function.__name__.strip("_").replace("_", "-")
        assert name not in KINDS, name
        KINDS[name] = Kind(name, function, modules, tuple(programs.split()), big)
        return function

    return register


# The project.


def archive_of(names: dict[str, bytes], mode: str) -> bytes:
    """A tar or zip file with these members."""
    buffer = io.BytesIO()
    if mode == "zip":
        with zipfile.ZipFile(buffer, "w") as zipped:
            for name, data in names.items():
                zipped.writestr(zipfile.ZipInfo(name), data)
    else:
        with tarfile.open(fileobj=buffer, mode="w") as tarred:
            for name, data in names.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tarred.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def database() -> bytes:
    """A SQLite file with a table of runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "runs.sqlite")
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE runs (name TEXT, loss REAL)")
        connection.execute("INSERT INTO runs VALUES ('first', 0.5)")
        connection.commit()
        connection.close()
        with open(path, "rb") as file:
            return file.read()


def precious() -> dict[str, bytes]:
    """The project's files."""
    lines = b"".join(b"precious line %d\n" % number for number in range(100))
    members = {"precious.txt": b"from the archive\n", "new/member.txt": b"new\n"}
    return {
        "precious.txt": lines,
        "notes.txt": b"notes\n" * 10,
        "data.bin": bytes(range(256)) * 64,
        "config.json": b'{"rate": 0.1}',
        "settings.ini": b"[run]\nrate = 0.1\n",
        "table.csv": b"step,loss\n1,0.5\n2,0.25\n",
        "train.log": b"epoch 1\nepoch 2\n",
        "train.log.1": b"an older log\n",
        "state.pickle": pickle.dumps({"step": 1}),
        "best/model.pt": b"the best weights" * 100,
        "ck/ck-1.pt": b"1" * 1000,
        "ck/ck-2.pt": b"2" * 1000,
        "ck/ck-3.pt": b"3" * 1000,
        "ck-1/model.pt": b"first",
        "ck-2/model.pt": b"second",
        "deep/a/b/c.txt": b"deep\n",
        "alone/only/one.txt": b"one\n",
        "mounted/precious.txt": b"precious\n",
        "package/__init__.py": b"VALUE = 1\n",
        "package/part.py": b"PART = 2\n",
        "secret": b"a secret\n",
        "tool.sh": b"#!/bin/sh\necho tool >tool.out\n",
        "kept.txt": b"read only\n",
        "twin.a": b"twin\n",
        "old.zip": archive_of(members, "zip"),
        "old.tar": archive_of(members, "tar"),
        "old.gz": gzip.compress(b"zipped\n", mtime=0),
        "old.bz2": bz2.compress(b"zipped\n"),
        "old.xz": lzma.compress(b"zipped\n"),
        "runs.sqlite": database(),
        ".hidden": b"hidden\n",
    }


MODES = {"secret": 0o600, "tool.sh": 0o755, "kept.txt": 0o444}
_PRECIOUS: dict[str, bytes] = {}


def prepare(folder: str, *, big: bool = False) -> None:
    """Make the project in a new folder."""
    if not _PRECIOUS:
        _PRECIOUS.update(precious())
    os.makedirs(folder)
    for name, data in _PRECIOUS.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        os.chmod(path, MODES.get(name, 0o644))
    for name in ("empty", "group"):
        os.mkdir(os.path.join(folder, name))
    os.chmod(os.path.join(folder, "group"), 0o2775)
    os.link(os.path.join(folder, "twin.a"), os.path.join(folder, "twin.b"))
    for target, name in (("ck-1", "latest"), ("precious.txt", "alias"), ("nothing", "dangling"), ("deep/a", "way")):
        os.symlink(target, os.path.join(folder, name))
    if big:
        with open(os.path.join(folder, "big.bin"), "wb") as file:
            file.write(b"begin")
            file.truncate(BIG)
    with contextlib.suppress(OSError):
        os.setxattr(os.path.join(folder, "data.bin"), "user.origin", b"here")
    for at, _, names in os.walk(folder, topdown=False):
        for name in names:
            os.utime(os.path.join(at, name), (LONG_AGO, LONG_AGO), follow_symlinks=False)
        os.utime(at, (LONG_AGO, LONG_AGO))


# What a program sees.


def digest(path: str) -> str:
    """A file's content in a few characters; itself if it is short text."""
    with open(path, "rb") as file:
        data = file.read()
    return hashlib.sha256(data).hexdigest()[:12] if len(data) > 60 or not data.isascii() else data.decode()


def entry(path: str) -> str:
    """What a name is: kind, mode, size, and content or target."""
    status = os.lstat(path)
    mode = f"{stat.S_IMODE(status.st_mode):o}"
    if stat.S_ISLNK(status.st_mode):
        return f"link to {os.readlink(path)}"
    if stat.S_ISDIR(status.st_mode):
        return f"folder {mode}"
    if not stat.S_ISREG(status.st_mode):
        return f"special {stat.S_IFMT(status.st_mode):o} {mode}"
    return f"file {mode} {status.st_size} {digest(path)}"


def tree(*folders: str) -> dict[str, str]:
    """Everything in folders (the working folder), by name."""
    found = {}
    for folder in folders or (".",):
        for at, inner, names in os.walk(folder):
            inner[:] = [name for name in inner if name not in {".git", "__pycache__", "mounted"}]
            for name in inner + names:
                path = os.path.normpath(os.path.join(at, name))
                if name != "big.bin" and name != "mounted":
                    found[path] = entry(path)
    return dict(sorted(found.items()))


def text(path: str) -> str:
    with open(path) as file:
        return file.read()


def write(path: str, data: str, mode: str = "w") -> None:
    with open(path, mode) as file:
        file.write(data)


def error_of(error: Exception) -> str:
    """An error's name without a path, which is another in each run."""
    number = error.errno if isinstance(error, OSError) else None
    return (
        f"{type(error).__name__} {errno.errorcode.get(number, '') if number else str(error).partition('/')[0]}".rstrip()
    )


def tried(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What a call returns, or the name of its error."""
    try:
        return function(*arguments, **named)
    except OSError as error:
        return error_of(error)


def sh(command: str, **named: Any) -> int:
    return subprocess.run(["sh", "-c", command], check=False, **named).returncode


def python(source: str, *options: str, **named: Any) -> int:
    return subprocess.run([sys.executable, *options, "-c", source], check=False, **named).returncode


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def exchange(old: str, new: str, flags: int) -> str:
    """Rename by renameat2, with its flags."""
    if libc().renameat2(-100, old.encode(), -100, new.encode(), flags) == 0:
        return "done"
    return errno.errorcode[ctypes.get_errno()]


# Opening.


def open_w(at: Place) -> Any:
    write("precious.txt", "over\n")
    write("new.txt", "new\n")
    return text("precious.txt"), text("new.txt"), tree()


def open_a(at: Place) -> Any:
    write("train.log", "epoch 3\n", "a")
    write("new.log", "epoch 1\n", "a")
    return text("train.log"), text("new.log"), tree()


def open_r_plus(at: Place) -> Any:
    with open("precious.txt", "r+") as file:
        first = file.readline()
        file.seek(0)
        file.write("PRECIOUS")
        file.seek(0)
        return first, file.readline(), tried(open, "absent.txt", "r+"), digest("data.bin")


def open_x(at: Place) -> Any:
    write("new.txt", "new\n", "x")
    return tried(write, "precious.txt", "lost\n", "x"), tried(write, "new.txt", "lost\n", "x"), tree()


def open_w_then_seek(at: Place) -> Any:
    with open("data.bin", "wb") as file:
        file.seek(100_000)
        file.write(b"end")
    return os.path.getsize("data.bin"), digest("data.bin")


def open_with_opener(at: Place) -> Any:
    with open("precious.txt", "w", opener=lambda path, flags: os.open(path, flags | os.O_SYNC, 0o600)) as file:
        file.write("opened\n")
    with open("new.txt", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write("opened\n")
    return entry("precious.txt"), entry("new.txt")


def os_open_trunc(at: Place) -> Any:
    os.close(os.open("precious.txt", os.O_TRUNC | os.O_WRONLY))
    return os.path.getsize("precious.txt"), tried(os.open, "absent.txt", os.O_TRUNC | os.O_WRONLY)


def os_open_creat(at: Place) -> Any:
    os.close(os.open("new.txt", os.O_CREAT | os.O_WRONLY, 0o640))
    os.close(os.open("precious.txt", os.O_CREAT | os.O_WRONLY, 0o640))
    return tried(os.open, "notes.txt", os.O_CREAT | os.O_EXCL | os.O_WRONLY), tree()


def os_open_append(at: Place) -> Any:
    descriptor = os.open("train.log", os.O_APPEND | os.O_RDWR)
    os.write(descriptor, b"epoch 3\n")
    os.lseek(descriptor, 0, os.SEEK_SET)
    seen = os.read(descriptor, 1000).decode()
    os.close(descriptor)
    return seen, text("train.log")


def os_open_tmpfile(at: Place) -> Any:
    descriptor = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o644)
    os.write(descriptor, b"unnamed\n")
    before = sorted(os.listdir("."))
    linked = libc().linkat(-100, f"/proc/self/fd/{descriptor}".encode(), -100, b"named.txt", 0x400)
    os.close(descriptor)
    return linked, sorted(set(os.listdir(".")) - set(before)), text("named.txt")


def os_truncate(at: Place) -> Any:
    os.truncate("precious.txt", 0)
    os.truncate("data.bin", 10)
    write("new.txt", "0123456789")
    os.truncate("new.txt", 4)
    return tried(os.truncate, "absent.txt", 0), text("new.txt"), tree()


def ftruncate(at: Place) -> Any:
    with open("data.bin", "r+b") as file:
        file.truncate(100_000)
    with open("notes.txt", "r+b") as file:
        os.ftruncate(file.fileno(), 3)
    return os.path.getsize("data.bin"), digest("data.bin"), text("notes.txt")


def pwrite(at: Place) -> Any:
    descriptor = os.open("data.bin", os.O_RDWR)
    counts = os.pwrite(descriptor, b"here", 1000), os.pwritev(descriptor, [b"and", b"there"], 2000)
    seen = os.pread(descriptor, 4, 1000).decode(), os.pread(descriptor, 8, 2000).decode()
    os.close(descriptor)
    return counts, seen, digest("data.bin")


def sendfile(at: Place) -> Any:
    with open("data.bin", "rb") as source, open("precious.txt", "wb") as target, open("new.bin", "wb") as new:
        counts = (
            os.sendfile(target.fileno(), source.fileno(), 0, 500),
            os.sendfile(new.fileno(), source.fileno(), 7, 500),
        )
    return counts, digest("precious.txt"), digest("new.bin")


def copy_file_range(at: Place) -> Any:
    with open("data.bin", "rb") as source, open("precious.txt", "r+b") as target:
        count = os.copy_file_range(source.fileno(), target.fileno(), 300)
    return count, digest("precious.txt")


def fallocate(at: Place) -> Any:
    for name in ("notes.txt", "new.bin"):
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
        os.posix_fallocate(descriptor, 0, 50_000)
        os.close(descriptor)
    return os.path.getsize("notes.txt"), os.path.getsize("new.bin"), digest("notes.txt")


def mmap_shared(at: Place) -> Any:
    with open("data.bin", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[10:14] = b"here"
        memory.flush()
        file.seek(10)
        seen = file.read(4).decode()
    return seen, digest("data.bin")


def mmap_of_a_file_that_was_read(at: Place) -> Any:
    with open("data.bin", "rb") as reader:
        first = reader.read(4).hex()
        with open("data.bin", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            memory[0:4] = b"here"
        with open("data.bin", "rb") as other:
            again = other.read(4).decode()
    return first, again


def io_fileio(at: Place) -> Any:
    with io.FileIO("precious.txt", "w") as file:
        file.write(b"raw\n")
    with io.FileIO("notes.txt", "r+") as file:
        file.write(b"raw\n")
    with io.FileIO("new.txt", "x") as file:
        file.write(b"raw\n")
    return tree()


def buffered_random(at: Place) -> Any:
    with io.BufferedRandom(io.FileIO("data.bin", "r+")) as file:
        file.seek(100)
        file.write(b"here")
        file.seek(98)
        return file.read(8).hex()


def descriptors_of_one_file(at: Place) -> Any:
    with open("notes.txt", "a+") as file:
        other = os.dup(file.fileno())
        os.write(other, b"by a copy\n")
        os.close(other)
        again = text("notes.txt")
        file.seek(0)
        return file.read() == again, again


def left_open_at_exit(at: Place) -> Any:
    code = python(
        "f = open('precious.txt', 'w'); f.write('not closed'); g = open('new.txt', 'w'); g.write('not closed')"
    )
    return code, text("precious.txt"), text("new.txt")


def opened_then_renamed(at: Place) -> Any:
    with open("train.log", "a") as file:
        file.write("before\n")
        file.flush()
        os.rename("train.log", "old.log")
        file.write("after\n")
    write("train.log", "fresh\n")
    return text("old.log"), text("train.log")


def read_while_it_is_replaced(at: Place) -> Any:
    with open("config.json") as file:
        write("config.tmp", "{}")
        os.replace("config.tmp", "config.json")
        return file.read(), text("config.json")


def opened_then_unlinked(at: Place) -> Any:
    with open("precious.txt", "r+") as file:
        os.unlink("precious.txt")
        file.write("still")
        file.seek(0)
        return file.read(5), os.fstat(file.fileno()).st_nlink, os.path.exists("precious.txt")


def read_only_file(at: Place) -> Any:
    refused = tried(write, "kept.txt", "lost\n")
    os.chmod("kept.txt", 0o644)
    write("kept.txt", "written\n")
    return "refused" if refused else "root", text("kept.txt"), entry("kept.txt")


@kind(big=True)
def big_append(at: Place) -> Any:
    with open("big.bin", "ab") as file:
        file.write(b"end")
    with open("big.bin", "rb") as file:
        first = file.read(5).decode()
        file.seek(-3, os.SEEK_END)
        return first, file.read().decode(), os.path.getsize("big.bin")


@kind(big=True)
def big_in_place(at: Place) -> Any:
    with open("big.bin", "r+b") as file:
        file.seek(BIG // 2)
        file.write(b"middle")
        file.seek(0)
        first = file.read(5).decode()
        file.seek(BIG // 2)
        return first, file.read(6).decode(), os.path.getsize("big.bin")


@kind(big=True)
def big_replaced(at: Place) -> Any:
    write("big.tmp", "small\n")
    os.replace("big.tmp", "big.bin")
    return text("big.bin")


@kind(big=True)
def big_attributes(at: Place) -> Any:
    os.chmod("big.bin", 0o600)
    os.utime("big.bin", (1, 2))
    os.rename("big.bin", "moved.bin")
    status = os.stat("moved.bin")
    return f"{stat.S_IMODE(status.st_mode):o}", status.st_mtime, status.st_size


def sparse_of_4_gib(at: Place) -> Any:
    with open("sparse.bin", "wb") as file:
        file.seek((4 << 30) - 1)
        file.write(b"\0")
    status = os.stat("sparse.bin")
    os.unlink("sparse.bin")
    return status.st_size, status.st_blocks < 1000, os.path.exists("sparse.bin")


# Compressed files and archives.


def bz2_open(at: Place) -> Any:
    with bz2.open("old.bz2", "wt") as file:
        file.write("over\n")
    with bz2.open("new.bz2", "wt") as file:
        file.write("new\n")
    with bz2.open("old.bz2", "rt") as file:
        return file.read(), sorted(os.listdir("."))


def gzip_append(at: Place) -> Any:
    with gzip.open("old.gz", "at") as file:
        file.write("more\n")
    with gzip.open("old.gz", "rt") as file:
        return file.read()


def lzma_open(at: Place) -> Any:
    with lzma.open("old.xz", "wt") as file:
        file.write("over\n")
    with lzma.open("old.xz", "rt") as file:
        return file.read()


def zipfile_append(at: Place) -> Any:
    with zipfile.ZipFile("old.zip", "a") as file:
        file.writestr("more.txt", "more\n")
    with zipfile.ZipFile("old.zip") as file:
        file.extractall(".")
        return file.namelist(), text("precious.txt"), text("more.txt"), text("new/member.txt")


def tarfile_append(at: Place) -> Any:
    with tarfile.open("old.tar", "a") as file:
        file.add("notes.txt")
    with tarfile.open("old.tar") as file:
        names = file.getnames()
        file.extract("precious.txt")
    return names, text("precious.txt")


def make_archive(at: Place) -> Any:
    shutil.make_archive("ck-all", "zip", "ck")
    shutil.unpack_archive("ck-all.zip", "best")
    return sorted(zipfile.ZipFile("ck-all.zip").namelist()), tree("best")


# shutil.


def copy_over(at: Place) -> Any:
    shutil.copy("notes.txt", "precious.txt")
    shutil.copy("tool.sh", "best/model.pt")
    shutil.copy("secret", "new.txt")
    return tree()


def last_copied_to_best(at: Place) -> Any:
    write("last.pth", "weights")
    shutil.copy2("last.pth", "best.pth")
    shutil.copy2("last.pth", "best/model.pt")
    return text("best.pth"), tree("best"), os.stat("best.pth").st_mtime_ns == os.stat("last.pth").st_mtime_ns


def copy_parts(at: Place) -> Any:
    shutil.copyfile("notes.txt", "precious.txt")
    shutil.copymode("tool.sh", "precious.txt")
    shutil.copystat("secret", "data.bin")
    return entry("precious.txt"), entry("data.bin"), os.stat("data.bin").st_mtime == LONG_AGO


def move_file(at: Place) -> Any:
    shutil.move("precious.txt", "empty")
    shutil.move("notes.txt", "data.bin")
    return tree()


def move_folder(at: Place) -> Any:
    shutil.move("ck", "empty")
    shutil.move("best", "best.old")
    return tree()


def rmtree(at: Place) -> Any:
    shutil.rmtree("best")
    shutil.rmtree("deep")
    return tried(shutil.rmtree, "absent"), tree()


def rmtree_with_a_dangling_link(at: Place) -> Any:
    os.symlink("nowhere", "best/dangling")
    shutil.rmtree("best")
    return os.path.lexists("best"), os.path.lexists("dangling")


def rmtree_and_again(at: Place) -> Any:
    shutil.rmtree("ck")
    os.mkdir("ck")
    write("ck/ck-9.pt", "nine")
    return tree("ck")


def rmtree_through_a_link(at: Place) -> Any:
    outcome = tried(shutil.rmtree, "latest", ignore_errors=True)
    shutil.rmtree(os.path.realpath("latest"))
    return outcome, os.path.islink("latest"), os.path.exists("latest")


def copytree(at: Place) -> Any:
    shutil.copytree("ck", "ck.copy")
    shutil.copytree("ck-2", "ck-1", dirs_exist_ok=True)
    return tree()


def best_deleted(at: Place) -> Any:  # the program that made plan delete a user's model
    write("last.pt", "weights")
    shutil.copy("last.pt", "best/model.pt")
    shutil.rmtree("best")
    return tree()


# Renaming.


def rename_file(at: Place) -> Any:
    os.rename("precious.txt", "moved.txt")
    os.rename("notes.txt", "empty/notes.txt")
    return tried(os.rename, "absent", "x"), tree()


def rename_over(at: Place) -> Any:
    write("new.txt", "new\n")
    os.rename("new.txt", "precious.txt")
    os.replace("notes.txt", "data.bin")
    return tree()


def rename_folder(at: Place) -> Any:
    os.rename("ck", "ck.prev")
    os.mkdir("ck")
    write("ck/ck-1.pt", "again")
    return tree("ck", "ck.prev")


def rename_new_folder(at: Place) -> Any:
    os.makedirs("ck.tmp/inner")
    write("ck.tmp/inner/model.pt", "new")
    os.rename("ck.tmp", "ck-9")
    return tree("ck-9"), tried(os.rename, "ck-9", "ck")


def rename_over_an_empty_folder(at: Place) -> Any:
    os.mkdir("new")
    write("new/file", "x")
    os.rename("new", "empty")
    return tree("empty"), os.path.exists("new")


def rename_then_link_back(at: Place) -> Any:
    os.rename("config.json", "config.old.json")
    os.symlink("config.old.json", "config.json")
    return text("config.json"), tree()


def rename_exchange(at: Place) -> Any:
    return exchange("precious.txt", "notes.txt", 2), digest("precious.txt"), digest("notes.txt")


def rename_no_replace(at: Place) -> Any:
    return exchange("precious.txt", "notes.txt", 1), exchange("precious.txt", "other.txt", 1), tree()


def renames(at: Place) -> Any:
    os.renames("alone/only/one.txt", "elsewhere/below/one.txt")
    return os.path.exists("alone"), tree()


def rotate_by_hand(at: Place) -> Any:
    os.rename("train.log", "train.log.1")
    write("train.log", "a new log\n")
    return text("train.log.1"), text("train.log")


def chmod_then_rename(at: Place) -> Any:
    os.chmod("precious.txt", 0o600)
    os.rename("precious.txt", "moved.txt")
    os.utime("notes.txt", (5, 5))
    os.rename("notes.txt", "notes.old")
    return tree()


# Links.


def link_then_replace(at: Place) -> Any:
    os.link("precious.txt", "backup.txt")
    write("new.txt", "new\n")
    os.replace("new.txt", "precious.txt")
    return digest("backup.txt"), text("precious.txt"), tried(os.link, "notes.txt", "precious.txt")


def link_of_a_new_file(at: Place) -> Any:
    write("new.txt", "new\n")
    os.link("new.txt", "best/new.txt")
    write("best/new.txt", "more\n", "a")
    return text("new.txt"), os.stat("new.txt").st_nlink, os.path.samefile("new.txt", "best/new.txt")


def hard_linked_files(at: Place) -> Any:
    write("twin.a", "more\n", "a")
    return text("twin.a"), text("twin.b"), os.path.samefile("twin.a", "twin.b"), os.stat("twin.b").st_nlink


def hard_linked_file_is_removed(at: Place) -> Any:
    before = os.stat("twin.b").st_nlink
    os.unlink("twin.a")
    return before, os.stat("twin.b").st_nlink, text("twin.b")


def latest_by_unlink(at: Place) -> Any:
    os.unlink("latest")
    os.symlink("ck-2", "latest")
    return text("latest/model.pt"), os.readlink("latest")


def latest_by_replace(at: Place) -> Any:
    os.symlink("ck-2", "latest.tmp")
    os.replace("latest.tmp", "latest")
    return text("latest/model.pt"), os.readlink("latest"), tree()


def write_through_a_link(at: Place) -> Any:
    write("alias", "through\n")
    write("way/b/c.txt", "through\n")
    write("latest/new.pt", "new")
    write("dangling", "made\n")
    return tree()


def file_becomes_a_link(at: Place) -> Any:
    os.unlink("precious.txt")
    os.symlink("notes.txt", "precious.txt")
    os.unlink("way")
    os.mkdir("way")
    return text("precious.txt"), tree()


def unlink(at: Place) -> Any:
    os.unlink("precious.txt")
    os.remove("best/model.pt")
    os.unlink("alias")
    write("notes2.txt", "x")
    os.unlink("notes2.txt")
    return tried(os.unlink, "precious.txt"), tried(open, "best/model.pt"), tree()


def unlink_and_again(at: Place) -> Any:
    os.unlink("precious.txt")
    write("precious.txt", "again\n")
    os.unlink("data.bin")
    os.mkdir("data.bin")
    os.rmdir("empty")
    write("empty", "a file\n")
    return tree()


# Attributes.


def chmod(at: Place) -> Any:
    os.chmod("precious.txt", 0o600)
    os.chmod("best", 0o700)
    with open("notes.txt") as file:
        os.fchmod(file.fileno(), 0o640)
    return tree(), digest("precious.txt")


def chmod_of_a_written_file(at: Place) -> Any:
    write("new.txt", "new\n")
    os.chmod("new.txt", 0o400)
    write("precious.txt", "over\n")
    os.chmod("precious.txt", 0o755)
    return entry("new.txt"), entry("precious.txt")


def chmod_then_opened(at: Place) -> Any:  # and not written: its time stays
    os.chmod("precious.txt", 0o600)
    with open("precious.txt", "a"):
        pass
    os.rename("data.bin", "data.old")
    os.utime("table.csv", (LONG_AGO, LONG_AGO))
    names = ("precious.txt", "notes.txt", "data.old", "table.csv")
    for name in names[1:]:
        with open(name, "r+"):
            pass
    return [os.stat(name).st_mtime == LONG_AGO for name in names]


def chown(at: Place) -> Any:
    uid, gid = os.getuid(), os.getgid()
    write("new.txt", "new\n")
    os.chown("new.txt", uid, gid)
    os.chown("new.txt", -1, -1)
    outcome = tried(os.chown, "precious.txt", uid, gid), tried(os.lchown, "alias", uid, gid)
    return outcome, os.stat("new.txt").st_uid == uid


def utime(at: Place) -> Any:
    os.utime("precious.txt", (1000, 2000))
    os.utime("alias", (3000, 4000), follow_symlinks=False)
    os.utime("best", ns=(5, 6))
    write("new.txt", "new\n")
    os.utime("new.txt", (7, 8))
    return [os.lstat(name).st_mtime_ns for name in ("precious.txt", "alias", "best", "new.txt", "notes.txt")]


def touch(at: Place) -> Any:
    Path("precious.txt").touch()
    Path("new.txt").touch()
    os.utime("notes.txt")
    recent = [os.stat(name).st_mtime > LONG_AGO for name in ("precious.txt", "new.txt", "notes.txt", "data.bin")]
    return recent, tried(Path("data.bin").touch, exist_ok=False), entry("new.txt")


def extended_attributes(at: Place) -> Any:
    write("new.txt", "new\n")
    before = tried(os.getxattr, "data.bin", "user.origin")
    outcome = [tried(os.setxattr, name, "user.step", b"1") for name in ("new.txt", "data.bin")]
    after = tried(os.getxattr, "data.bin", "user.step")
    return str(before), outcome, str(after), str(tried(os.removexattr, "data.bin", "user.origin"))


def umask(at: Place) -> Any:
    os.umask(0o077)
    write("new.txt", "new\n")
    os.mkdir("new")
    return entry("new.txt"), entry("new"), entry("precious.txt")


def folder_with_group_bit(at: Place) -> Any:
    write("group/new.txt", "new\n")
    os.mkdir("group/inner")
    return tree("group"), entry("group")


# Folders and special files.


def mkdir(at: Place) -> Any:
    os.mkdir("new")
    os.mkdir("best/new", 0o700)
    return tried(os.mkdir, "best"), tried(os.mkdir, "absent/new"), tree()


def makedirs(at: Place) -> Any:
    os.makedirs("new/a/b")
    os.makedirs("best/a/b")
    os.makedirs("ck", exist_ok=True)
    return tried(os.makedirs, "ck"), tree()


def rmdir(at: Place) -> Any:
    os.rmdir("empty")
    return tried(os.rmdir, "best"), tried(os.rmdir, "empty"), tree()


def removedirs(at: Place) -> Any:
    os.unlink("alone/only/one.txt")
    os.removedirs("alone/only")
    return os.path.exists("alone"), sorted(os.listdir("."))


def fifo(at: Place) -> Any:
    os.mkfifo("pipe")
    writer = threading.Thread(target=write, args=("pipe", "through the pipe"))
    writer.start()
    seen = text("pipe")
    writer.join()
    return seen, entry("pipe")


def unix_socket(at: Place) -> Any:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("socket")
        server.listen()
        client.connect("socket")
        client.sendall(b"through the socket")
        with server.accept()[0] as peer:
            seen = peer.recv(100).decode()
    return seen, entry("socket")


def folder_that_may_be_mounted(at: Place) -> Any:
    write("mounted/precious.txt", "over\n")
    write("mounted/new.txt", "new\n")
    os.mkdir("mounted/inner")
    os.rename("mounted/new.txt", "mounted/inner/moved.txt")
    return sorted(os.listdir("mounted")), text("mounted/precious.txt"), text("mounted/inner/moved.txt")


def mknod(at: Place) -> Any:
    os.mknod("node", 0o640 | stat.S_IFREG)
    return entry("node"), tried(os.mknod, "precious.txt")


# Listing what was written.


def listdir(at: Place) -> Any:
    write("ck/ck-4.pt", "4")
    os.unlink("ck/ck-1.pt")
    return sorted(os.listdir("ck")), sorted(os.listdir(".")), sorted(os.listdir(os.path.abspath("ck")))


def scandir(at: Place) -> Any:
    write("ck/ck-4.pt", "4")
    os.mkdir("ck/new")
    with os.scandir("ck") as entries:
        return sorted(
            (item.name, item.is_file(), item.is_symlink(), item.stat().st_size * item.is_file()) for item in entries
        )


def glob_glob(at: Place) -> Any:
    write("ck/ck-4.pt", "4")
    os.rename("ck/ck-2.pt", "ck/ck-5.pt")
    return sorted(glob.glob("ck/*.pt")), sorted(glob.glob("**/*.pt", recursive=True))


def pathlib_glob(at: Place) -> Any:
    Path("ck/ck-4.pt").write_text("4")
    Path("ck/ck-1.pt").unlink()
    return (
        sorted(map(str, Path("ck").glob("*.pt"))),
        sorted(map(str, Path().rglob("*.pt"))),
        sorted(map(str, Path("ck").iterdir())),
    )


def walk(at: Place) -> Any:
    os.makedirs("deep/a/new")
    write("deep/a/new/file", "x")
    os.unlink("deep/a/b/c.txt")
    seen = [(folder, sorted(inner), sorted(names)) for folder, inner, names in os.walk("deep")]
    return sorted(seen), sorted((folder, sorted(names)) for folder, _, names, _ in os.fwalk("deep"))


def keep_last_3(at: Place) -> Any:
    for step in range(4, 9):
        write(f"ck/ck-{step}.pt", str(step))
        for old in sorted(glob.glob("ck/ck-*.pt"))[:-3]:
            os.remove(old)
    return tree("ck")


def resume_from_the_newest(at: Place) -> Any:
    write("ck/ck-4.pt", "four")
    newest = max(Path("ck").glob("*.pt"), key=lambda path: path.stat().st_mtime)
    return str(newest), newest.read_text()


def pathlib_all(at: Place) -> Any:
    folder = Path("new")
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    (folder / "a.txt").rename(folder / "b.txt")
    (folder / "b.txt").replace("precious.txt")
    Path("notes.txt").write_bytes(b"over")
    Path("secret").chmod(0o640)
    Path("link").symlink_to("notes.txt")
    Path("hard").hardlink_to("notes.txt")
    Path("data.bin").unlink()
    Path("empty").rmdir()
    with Path("train.log").open("a") as file:
        file.write("more\n")
    return Path("link").read_text(), Path("precious.txt").stat().st_size, Path("data.bin").exists(), tree()


# Together: what makes a write safe, and locks.


def atomic_write(at: Place) -> Any:
    for name in ("config.json", "new.json"):
        with open(f"{name}.tmp", "w") as file:
            file.write("{}")
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{name}.tmp", name)
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)
    return text("config.json"), tree()


def flock(at: Place) -> Any:
    with open("precious.txt", "a") as file, open("new.lock", "w") as lock, open("new.lock") as second:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return tried(fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB), sorted(os.listdir("."))


def lockf(at: Place) -> Any:
    with open("data.bin", "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10)
        file.write(b"locked")
        file.flush()
        busy = python("import fcntl\nf = open('data.bin', 'r+b')\ntry: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, "
                      "10)\n"
                      "except OSError: raise SystemExit(3)")  # fmt: skip
    return busy, digest("data.bin")


def lock_file(at: Place) -> Any:
    descriptor = os.open("run.lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    second = tried(os.open, "run.lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.close(descriptor)
    os.unlink("run.lock")
    return second, os.path.exists("run.lock")


# Formats of the standard library.


def pickle_dump(at: Place) -> Any:
    with open("state.pickle", "rb") as file:
        state = pickle.load(file)
    state["step"] += 1
    with open("state.pickle", "wb") as file:
        pickle.dump(state, file)
    with open("state.pickle", "rb") as file:
        return pickle.load(file)


def shelve_new_and_again(at: Place) -> Any:
    with shelve.open("shelf") as shelf:
        shelf["step"] = 1
    with shelve.open("shelf", writeback=True) as shelf:
        shelf["step"] += 1
        return dict(shelf)


def dbm_dumb(at: Place) -> Any:
    with dbm.open("base", "n") as base:
        base[b"step"] = b"1"
    with dbm.open("base", "w") as base:
        base[b"step"] = b"2"
        return base[b"step"].decode()


def json_dump(at: Place) -> Any:
    with open("config.json") as file:
        config = json.load(file)
    config["rate"] = 0.2
    with open("config.json", "w") as file:
        json.dump(config, file)
    return json.loads(text("config.json"))


def config_parser(at: Place) -> Any:
    parser = configparser.ConfigParser()
    parser.read("settings.ini")
    parser["run"]["rate"] = "0.2"
    with open("settings.ini", "w") as file:
        parser.write(file)
    return text("settings.ini")


def csv_rows(at: Place) -> Any:
    with open("table.csv", "a", newline="") as file:
        csv.writer(file).writerow([3, 0.125])
    with open("table.csv") as file:
        return list(csv.reader(file))


def mailbox_add(at: Place) -> Any:
    box = mailbox.Maildir("mail")
    box.add("Subject: x\n\nbody\n")
    return len(box), sorted(os.listdir("mail"))


def sqlite_new(at: Place) -> Any:
    with contextlib.closing(sqlite3.connect("new.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (1)")
    with contextlib.closing(sqlite3.connect("new.sqlite")) as connection:
        return connection.execute("SELECT * FROM t").fetchall()


def sqlite_update(at: Place) -> Any:
    with contextlib.closing(sqlite3.connect("runs.sqlite")) as connection, connection:
        connection.execute("UPDATE runs SET loss = 0.25")
        connection.execute("INSERT INTO runs VALUES ('second', 0.125)")
    with contextlib.closing(sqlite3.connect("runs.sqlite")) as connection:
        return connection.execute("SELECT * FROM runs ORDER BY name").fetchall()


def sqlite_wal(at: Place) -> Any:
    with (
        contextlib.closing(sqlite3.connect("runs.sqlite")) as first,
        contextlib.closing(sqlite3.connect("runs.sqlite")) as second,
    ):
        mode = first.execute("PRAGMA journal_mode = WAL").fetchall()
        with first:
            first.execute("UPDATE runs SET loss = 0.25")
        return mode, second.execute("SELECT * FROM runs").fetchall(), sorted(glob.glob("runs.sqlite*"))


def sqlite_rolled_back(at: Place) -> Any:
    connection = sqlite3.connect("runs.sqlite")
    connection.execute("UPDATE runs SET loss = 9")
    journal = sorted(glob.glob("runs.sqlite*"))
    connection.rollback()
    rows = connection.execute("SELECT * FROM runs").fetchall()
    connection.close()
    return journal, rows


def rotating_log(at: Place) -> Any:
    handler = logging.handlers.RotatingFileHandler("train.log", maxBytes=30, backupCount=3)
    for step in range(6):
        handler.emit(logging.LogRecord("x", logging.INFO, "x", 1, f"a line of step {step}", None, None))
    handler.close()
    return {name: text(name) for name in sorted(glob.glob("train.log*"))}


def logging_file(at: Place) -> Any:
    logger = logging.getLogger("kinds")
    for name in ("train.log", "new.log"):
        handler = logging.FileHandler(name)
        logger.addHandler(handler)
        logger.warning("to %s", name)
        logger.removeHandler(handler)
        handler.close()
    return text("train.log"), text("new.log")


def fileinput_in_place(at: Place) -> Any:
    with fileinput.input("notes.txt", inplace=True, backup=".orig") as lines:
        for line in lines:
            sys.stdout.write(line.replace("notes", "NOTES"))
    return digest("notes.txt"), digest("notes.txt.orig")


def compiled_modules(at: Place) -> Any:
    code = subprocess.run(
        [sys.executable, "-c", "import package.part"], check=False, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="")
    )
    return code.returncode, len(os.listdir("package/__pycache__"))


def profile_file(at: Place) -> Any:
    code = subprocess.run(
        [sys.executable, "-m", "cProfile", "-o", "data.bin", "package/part.py"], check=False, stdout=-3
    ).returncode
    return code, os.path.getsize("data.bin") > 100


# Temporary files.


def temporary_file_beside(at: Place) -> Any:
    with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as file:
        file.write("new\n")
    os.replace(file.name, "precious.txt")
    with tempfile.TemporaryFile(dir="ck") as unnamed:
        unnamed.write(b"x")
        unnamed.seek(0)
        return text("precious.txt"), unnamed.read().decode(), tree()


def temporary_folder(at: Place) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        write(os.path.join(folder, "part"), "part")
        shutil.copy(os.path.join(folder, "part"), "best/model.pt")
        inside = os.listdir(folder)
    return inside, text("best/model.pt"), os.path.exists(folder)


def temporary_file_is_kept(at: Place) -> Any:
    descriptor, path = tempfile.mkstemp(prefix=at.token)
    os.write(descriptor, b"kept")
    os.close(descriptor)
    shutil.move(path, "precious.txt")
    descriptor, path = tempfile.mkstemp(prefix=at.token)
    os.write(descriptor, b"left behind")
    os.close(descriptor)
    return text("precious.txt"), text(path)


# Other programs.


# Commands, after which the whole project is looked at. A name begins with the program that must be installed.
COMMANDS = {
    "sh-redirection": "echo over > precious.txt; echo more >> notes.txt; : > new.txt; echo x >| data.bin",
    "cp": "cp notes.txt precious.txt; cp -p secret new.txt; cp -r ck ck.copy; cp -a best copy; cp -l notes.txt hard",
    "mv": "mv precious.txt moved.txt; mv notes.txt best; mv ck ck.old; mv -f secret data.bin",
    "rm": "rm precious.txt; rm -r ck best; rm -f kept.txt absent; rmdir empty",
    "sed-in-place": "sed -i s/precious/PRECIOUS/ precious.txt; sed -i.orig s/notes/x/ notes.txt",
    "install": "install -m 750 notes.txt precious.txt; install -d new/a; install -D notes.txt best/deeper/x",
    "ln": "ln -sfn ck-2 latest; ln -sf notes.txt precious.txt; ln data.bin hard; ln -f notes.txt secret",
    "find-delete": "find . -name '*.pt' -delete; find ck -type d -empty -delete",
    "truncate-program": "truncate -s 10 precious.txt; truncate -s 0 notes.txt; truncate -s 1M new.bin",
    "tee": "echo over | tee precious.txt >/dev/null; echo more | tee -a notes.txt new.txt >/dev/null",
    "chmod-program": "chmod 600 precious.txt; chmod -R go-rwx ck; mkdir -p new/a best/b; chmod +x notes.txt",
    "rsync": "rsync -a --delete ck/ ck-1/; rsync -a notes.txt precious.txt",
}


def python_isolated(at: Place) -> Any:
    return python("open('precious.txt', 'w').write('over'); import os; os.unlink('notes.txt')", "-I"), tree()


def python_without_site(at: Place) -> Any:
    return python("open('precious.txt', 'w').write('over')", "-S", "-E"), tree()


def empty_environment(at: Place) -> Any:
    code = sh("echo over > precious.txt", env={})
    return code, subprocess.run(["env", "-i", "sh", "-c", "rm notes.txt; mkdir new"], check=False).returncode, tree()


def detached_child(at: Place) -> Any:
    child = subprocess.Popen(["/bin/sh", "-c", "sleep 0.1; echo late > precious.txt"], env={}, start_new_session=True)
    return child.wait(), text("precious.txt")


@kind(programs="tar")
def tar(at: Place) -> Any:
    return sh(
        "tar xf old.tar; tar rf old.tar notes.txt; tar cf new.tar ck; tar tf old.tar | grep -q notes.txt"
    ), sorted(os.listdir("new"))


@kind(programs="touch")
def touch_program(at: Place) -> Any:
    code = sh("touch precious.txt new.txt; touch -d @1000 notes.txt")
    return code, os.stat("precious.txt").st_mtime > LONG_AGO, os.stat("notes.txt").st_mtime, entry("new.txt")


@kind(programs="dd")
def dd(at: Place) -> Any:
    code = sh(
        "dd if=data.bin of=precious.txt bs=10 count=2 conv=notrunc; dd if=data.bin of=notes.txt bs=10 count=2",
        stderr=subprocess.DEVNULL,
    )
    return code, tree()


def program_of_the_project(at: Place) -> Any:
    return subprocess.run(["./tool.sh"], check=False).returncode, text("tool.out")


@kind(programs="git")
def git_new(at: Place) -> Any:
    git = "git -c user.name=x -c user.email=x@example.com"
    code = sh(
        f"git init -q . && git add ck notes.txt && {git} commit -q -m one && rm notes.txt && git checkout -q -- "
        "notes.txt"
    )
    return code, text("notes.txt"), sorted(os.listdir(".git"))[:3]


def posix_spawn(at: Place) -> Any:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [(os.POSIX_SPAWN_OPEN, 1, "precious.txt", flags, 0o644)]
    child = os.posix_spawn("/bin/sh", ["sh", "-c", "echo spawned"], dict(os.environ), file_actions=actions)
    return os.waitpid(child, 0)[1], text("precious.txt")


def output_of_a_program(at: Place) -> Any:
    with open("train.log", "a") as log, open("new.log", "w") as new:
        subprocess.run(["sh", "-c", "echo out; echo err >&2"], check=False, stdout=log, stderr=new)
    return text("train.log"), text("new.log")


# Below Python's files.


def c_stdio(at: Place) -> Any:
    c = libc()
    c.fopen.restype = ctypes.c_void_p
    c.fputs.argtypes, c.fclose.argtypes = (ctypes.c_char_p, ctypes.c_void_p), (ctypes.c_void_p,)
    for name, mode in ((b"precious.txt", b"w"), (b"notes.txt", b"a"), (b"new.txt", b"w")):
        file = c.fopen(name, mode)
        c.fputs(b"from C\n", file)
        c.fclose(file)
    return c.remove(b"data.bin"), c.rename(b"secret", b"open"), tree()


def raw_system_calls(at: Place) -> Any:
    c = libc()
    c.syscall.restype = ctypes.c_long
    numbers = {"x86_64": (257, 1, 263), "aarch64": (56, 64, 35)}[os.uname().machine]
    descriptor = c.syscall(numbers[0], -100, b"precious.txt", os.O_WRONLY | os.O_TRUNC, 0)
    c.syscall(numbers[1], descriptor, b"raw\n", 4)
    os.close(descriptor)
    return c.syscall(numbers[2], -100, b"notes.txt", 0), text("precious.txt"), os.path.exists("notes.txt")


def folder_descriptor(at: Place) -> Any:
    folder = os.open("ck", os.O_RDONLY | os.O_DIRECTORY)
    descriptor = os.open("ck-9.pt", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=folder)
    os.write(descriptor, b"9")
    os.close(descriptor)
    os.unlink("ck-1.pt", dir_fd=folder)
    os.rename("ck-2.pt", "ck-8.pt", src_dir_fd=folder, dst_dir_fd=folder)
    os.mkdir("new", dir_fd=folder)
    os.symlink("ck-3.pt", "latest", dir_fd=folder)
    os.chmod("ck-3.pt", 0o600, dir_fd=folder)
    names = sorted(os.listdir(folder))
    os.close(folder)
    return names, tree("ck")


def folder_descriptor_of_the_parent(at: Place) -> Any:
    os.chdir("deep/a")
    parent = os.open("../..", os.O_PATH | os.O_DIRECTORY)
    descriptor = os.open("precious.txt", os.O_WRONLY | os.O_TRUNC, dir_fd=parent)
    os.write(descriptor, b"over\n")
    os.close(descriptor)
    os.fchdir(parent)
    os.close(parent)
    return text("precious.txt"), sorted(os.listdir("."))


def by_proc_self_fd(at: Place) -> Any:
    with open("precious.txt") as file:
        outcome = tried(write, f"/proc/self/fd/{file.fileno()}", "over\n")
        again = tried(write, f"/dev/fd/{file.fileno()}", "more\n", "a")
    return outcome, again, text("precious.txt")


def by_proc_self_cwd(at: Place) -> Any:
    write("/proc/self/cwd/precious.txt", "over\n")
    write("/proc/self/cwd/new.txt", "new\n")
    os.unlink("/proc/self/cwd/notes.txt")
    return tree()


def absolute_paths(at: Place) -> Any:
    write(f"{at.project}/precious.txt", "over\n")
    write(f"{at.project}/new.txt", "new\n")
    os.rename(f"{at.project}/notes.txt", f"{at.project}/best/notes.txt")
    os.unlink(f"{at.project}/data.bin")
    return text("precious.txt"), sorted(os.listdir(at.project)), tree()


def absolute_paths_in_a_child(at: Place) -> Any:
    code = sh(f"echo over > '{at.project}/precious.txt'; rm '{at.project}/notes.txt'", env={})
    return code, text(f"{at.project}/precious.txt"), tree()


def dotted_paths(at: Place) -> Any:
    name = os.path.basename(at.project)
    write(f"../{name}/precious.txt", "over\n")
    write("./ck/../notes.txt", "over\n")
    write("way/../../precious.txt", "through a link\n") if os.path.exists("way/../../precious.txt") else None
    os.mkdir("best//new/")
    return tree()


def change_folder(at: Place) -> Any:
    os.chdir("ck")
    write("ck-1.pt", "over")
    write("../precious.txt", "over\n")
    os.chdir("..")
    with contextlib.ExitStack() as stack:
        os.chdir("best")
        stack.callback(os.chdir, "..")
        os.unlink("model.pt")
    return os.getcwd() == at.project, tree()


def in_threads(at: Place) -> Any:
    names = [f"part-{number}" for number in range(8)] + ["precious.txt", "notes.txt"]
    threads = [threading.Thread(target=write, args=(name, name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tree()


# Processes.


def write_part(number: int) -> int:
    write(f"part-{number}", str(number))
    write("precious.txt", "over\n")
    return number


def fork(at: Place) -> Any:
    child = os.fork()
    if child == 0:
        write("precious.txt", "by the child\n")
        os.unlink("notes.txt")
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), tree()


def spawned_process(at: Place) -> Any:
    process = multiprocessing.get_context("spawn").Process(target=write_part, args=(1,))
    process.start()
    process.join()
    return process.exitcode, tree()


def forkserver_process(at: Place) -> Any:
    process = multiprocessing.get_context("forkserver").Process(target=write_part, args=(2,))
    process.start()
    process.join()
    return process.exitcode, tree()


def pool_of_processes(at: Place) -> Any:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(write_part, range(4)), tree()


def shared_memory(at: Place) -> Any:
    from multiprocessing import shared_memory as shared

    memory = shared.SharedMemory(f"{at.token}-block", create=True, size=100)
    memory.buf[:4] = b"here"
    other = shared.SharedMemory(f"{at.token}-block")
    seen = bytes(other.buf[:4]).decode()
    other.close()
    memory.close()
    memory.unlink()
    return seen, tried(shared.SharedMemory, f"{at.token}-block")


def named_semaphore(at: Place) -> Any:
    c = libc()
    c.sem_open.restype = ctypes.c_void_p
    c.sem_wait.argtypes = (ctypes.c_void_p,)
    semaphore = c.sem_open(f"/{at.token}-semaphore".encode(), os.O_CREAT, 0o600, 1)
    c.sem_post.argtypes = (ctypes.c_void_p,)
    counts = c.sem_wait(semaphore), c.sem_post(semaphore)
    return bool(semaphore), counts, os.path.exists(f"/dev/shm/sem.{at.token}-semaphore")


def multiprocessing_lock(at: Place) -> Any:
    lock = multiprocessing.get_context("spawn").Lock()
    with lock:
        return lock.acquire(block=False)


def dev_shm_by_path(at: Place) -> Any:
    write(f"{at.shared}/precious.txt", "over\n")
    write(f"{at.shared}/new.txt", "new\n")
    os.unlink(f"{at.shared}/notes.txt")
    write(f"/dev/shm/{at.token}-new", "new\n")
    return text(f"{at.shared}/precious.txt"), sorted(os.listdir(at.shared)), text(f"/dev/shm/{at.token}-new")


# Outside the project.


def home_folder(at: Place) -> Any:
    write(os.path.expanduser("~/precious.txt"), "over\n")
    write(os.path.expanduser("~/.new"), "new\n")
    os.rename(os.path.expanduser("~/notes.txt"), os.path.expanduser("~/moved.txt"))
    return text(os.path.expanduser("~/precious.txt")), sorted(os.listdir(os.path.expanduser("~")))


def cache_folder(at: Place) -> Any:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kinds"
    cache.mkdir(parents=True)
    (cache / "entry").write_text("cached")
    return (cache / "entry").read_text()


def tmp_by_absolute_path(at: Place) -> Any:
    write(f"{at.temporary}/precious.txt", "over\n")
    write(f"{at.temporary}/new.txt", "new\n")
    os.unlink(f"{at.temporary}/notes.txt")
    write(f"/tmp/{at.token}-new", "new\n")
    return text(f"{at.temporary}/precious.txt"), sorted(os.listdir(at.temporary)), text(f"/tmp/{at.token}-new")


def between_folders(at: Place) -> Any:
    shutil.move(f"{at.temporary}/precious.txt", "best/model.pt")
    shutil.move("notes.txt", os.path.expanduser("~/notes.txt"))
    shutil.copy("data.bin", f"{at.temporary}/notes.txt")
    return text("best/model.pt"), digest(os.path.expanduser("~/notes.txt")), digest(f"{at.temporary}/notes.txt"), tree()


def folder_that_is_not_ours(at: Place) -> Any:
    outcome = tried(write, "/proc/sys/kernel/hostname-of-nothing", "x"), tried(os.mkdir, "/proc/new")
    return outcome, tried(os.unlink, "/proc/self/status")


for each in list(vars().values()):
    if getattr(each, "__annotations__", {}).get("at") is Place and all(one.run is not each for one in KINDS.values()):
        kind()(each)
for name in COMMANDS:
    command = functools.partial(lambda command, _: (sh(command), tree()), COMMANDS[name])
    KINDS[name] = Kind(name, command, (), (name.partition("-")[0],), big=False)


# Running them.


def place(name: str) -> Place:
    """The folders of a kind, whose outer folders the environment names."""
    folders = [os.path.join(os.environ[f"KINDS_{folder}"], name) for folder in ("HOME", "TEMPORARY", "SHARED")]
    return Place(os.getcwd(), *folders, f"{os.environ['KINDS_TOKEN']}-{name}")


def run(name: str) -> Any:
    """What a kind saw, as JSON knows it, or its error."""
    at = place(name)
    os.environ["HOME"] = at.home
    os.environ.pop("XDG_CACHE_HOME", None)
    try:
        result = KINDS[name].run(at)
    except Exception as error:
        result = {"error": error_of(error)}
    return json.loads(json.dumps(result, sort_keys=True))


def run_apart(name: str, seconds: int) -> Any:
    """What a kind saw, run in the folder of its name by a process of its own, which time ends."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(seconds)
        code = 1
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.chdir(name)
            multiprocessing.process.ORIGINAL_DIR = os.getcwd()  # where the processes that it spawns start
            result = json.dumps(run(name)).encode()
            while result:
                result = result[os.write(writing, result) :]
            code = 0
        except BaseException as error:
            os.write(writing, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
        finally:
            os._exit(code)
    os.close(writing)
    parts = []
    # A process that the kind left behind may hold the pipe open.
    while select.select([reading], [], [], seconds)[0] and (part := os.read(reading, 1 << 16)):
        parts.append(part)
    os.close(reading)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return json.loads(b"".join(parts)) if parts else {"error": f"ended with status {status}"}


def main(words: list[str]) -> None:
    import library_kinds  # noqa: F401  (registers its kinds)

    if words[:1] == ["--each"]:
        seen = {name: run_apart(name, 120 if KINDS[name].modules else 30) for name in words[1:]}
        print(json.dumps(seen))
    else:
        print(json.dumps(run(words[0])))


if __name__ == "__main__":
    sys.modules["kinds"] = sys.modules["__main__"]  # library_kinds adds to this table
    main(sys.argv[1:])
