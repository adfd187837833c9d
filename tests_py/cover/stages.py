# SPDX-License-Identifier: Apache-2.0
"""What the tests of covers do in a process of their own: prepare real files, run programs, and look at what changed."""

import contextlib
import fcntl
import json
import os
import random
import shutil
import stat
import struct
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import adapter
import compare
import kills
import kinds
import known
import library_kinds
import outside
import random_programs

SHARED_BY_ALL = ("/tmp", "/dev/shm")
GET_FLAGS, SET_FLAGS, TOP_OF_A_TREE = 0x80086601, 0x40086602, 0x20000  # `chattr +T`


def apart(folder: str) -> None:
    """Have ext4 keep the new files of each folder in a folder in a part of the disk of its own, where few were deleted.

    Without a journal, it looks at each one that was deleted in the last minutes before it makes a new one nearby, and
    these tests make and delete thousands.
    """
    opened = os.open(folder, os.O_RDONLY)
    with contextlib.suppress(OSError):  # of another file system
        flags = struct.unpack("l", fcntl.ioctl(opened, GET_FLAGS, bytes(8)))[0]
        fcntl.ioctl(opened, SET_FLAGS, struct.pack("l", flags | TOP_OF_A_TREE))
    os.close(opened)


class Ground:
    """Real files of a user: a project, home, temporary folders and shared memory, all with a token in their names."""

    def __init__(self, situation: adapter.Situation) -> None:
        self.situation = situation
        self.token = f"kinds-{uuid.uuid4().hex[:12]}"
        self.outer = f"/var/tmp/{self.token}"  # not below /tmp
        os.mkdir(self.outer)
        apart(self.outer)
        self.root = os.path.join(self.outer, self.token[-6:])  # short: there are sockets below
        os.mkdir(self.root)
        self.project, self.home, self.own = (os.path.join(self.root, name) for name in ("project", "home", "tmp"))
        self.temporary, self.shared = (os.path.join(folder, f"{self.token}-folder") for folder in SHARED_BY_ALL)
        self.mounted: list[str] = []
        for folder in (self.project, self.home, self.own, self.temporary, self.shared):
            os.mkdir(folder)

    def environment(self, **more: str) -> dict[str, str]:
        """For programs: whose home and temporary folder these are."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in {"PATH", "PYTHONPATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH"}
        }
        names = {"HOME": self.home, "TEMPORARY": self.temporary, "SHARED": self.shared, "TOKEN": self.token}
        own = {"HOME": self.home, "TMPDIR": self.own, "PYTHONDONTWRITEBYTECODE": "1"}
        return {**kept, **own, **{f"KINDS_{name}": value for name, value in names.items()}, **more}

    def give(self, *, to_others: bool = False) -> None:
        """Let everything be the user's, mount what the situation says, and give the group what it says of the project.

        That is everything, which belongs to root then, or every second path, which still belongs to the user.
        """
        user = self.situation.user
        if os.geteuid() == 0 and not self.situation.root:
            for root in (self.outer, self.temporary, self.shared):
                for at, inner, names in os.walk(root):
                    for path in [at, *(os.path.join(at, name) for name in inner + names)]:
                        group = self.situation.group and path.startswith(self.project)
                        self.give_one(
                            path, 0 if group and to_others else user, group and (to_others or len(path) % 2 == 0)
                        )
        if self.situation.mounts:
            for at, inner, _ in os.walk(self.project):
                if "mounted" in inner:
                    self.mount(os.path.join(at, "mounted"), user)

    def mount(self, folder: str, user: int) -> None:
        """Mount a folder that looks as before."""
        names = {name: kinds.text(os.path.join(folder, name)) for name in os.listdir(folder)}
        adapter.mount("mounted", folder, "tmpfs", 0, f"uid={user},gid={user},mode=755,size=1m")
        self.mounted.append(folder)
        for name, data in names.items():
            kinds.write(os.path.join(folder, name), data)
            os.chown(os.path.join(folder, name), user, user)

    def give_one(self, path: str, user: int, group: bool) -> None:
        """Change the owner of a path, and let a group write."""
        status = os.lstat(path)
        os.lchown(path, user, adapter.GROUP if group else adapter.USER)
        mode = stat.S_IMODE(status.st_mode)
        if not stat.S_ISLNK(status.st_mode):  # chown drops some bits
            shared = 0o2070 if stat.S_ISDIR(status.st_mode) else (mode & 0o700) >> 3
            os.chmod(path, mode | shared if group else mode)

    def picture(self) -> compare.Picture:
        found = compare.picture(self.outer, shared=dict.fromkeys(SHARED_BY_ALL, self.token))
        if self.situation.mode not in {"root", "user"}:
            # A mirror is a folder in the temporary folder, which has gone at the end; only the time of its parent shows
            # it.
            del found[self.own]["written"], found[self.own]["changed"]
        return found

    def remove(self) -> None:
        for folder in self.mounted:
            adapter.libc().umount2(folder.encode(), 2)
        shutil.rmtree(self.outer, ignore_errors=True)
        for folder in SHARED_BY_ALL:
            for name in os.listdir(folder):
                if self.token in name:
                    path = os.path.join(folder, name)
                    with contextlib.suppress(OSError):
                        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


@contextlib.contextmanager
def ground(situation: adapter.Situation) -> Iterator[Ground]:
    """Real files, removed at the end."""
    made = Ground(situation)
    try:
        yield made
    finally:
        made.remove()


def script(name: str, *words: str) -> list[str]:
    return [sys.executable, str(adapter.HERE / name), *words]


def printed(done: Any) -> Any:
    """The JSON that a program printed last."""
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr[-3000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def run_kinds(
    situation: adapter.Situation, names: list[str], *, covered: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """What kinds see, and what changed of the real files."""
    with ground(situation) as real:
        for name in names:
            kinds.prepare(os.path.join(real.project, name), big=kinds.KINDS[name].big)
            for folder in (real.home, real.temporary, real.shared):
                os.mkdir(os.path.join(folder, name))
                for file in ("precious.txt", "notes.txt"):
                    kinds.write(os.path.join(folder, name, file), f"precious {file}\n")
        real.give(to_others=True)
        before = real.picture()
        words = script("kinds.py", "--each", *names)
        seen = printed(adapter.run(words, real.project, real.environment(), situation, covered=covered))
        changed = compare.differences(before, real.picture())
        return seen, {
            path.replace(real.root, "GROUND").replace(real.token, "TOKEN"): how for path, how in changed.items()
        }


def kinds_in(
    situation: adapter.Situation, libraries: bool = False, covered: bool = True, only: str = ""
) -> dict[str, Any]:
    """Run all kinds that this machine can run in a copy and in the cover: which differ, what changed, what is
    missing.
    """
    chosen = [each for each in kinds.KINDS.values() if bool(each.modules) == libraries and each.name.startswith(only)]
    missing = {each.name: each.missing() for each in chosen if each.missing()}
    names = [each.name for each in chosen if each.name not in missing]
    expected, done = run_kinds(situation, names, covered=False)
    assert done, "the programs changed nothing where they may"
    seen, changed = run_kinds(situation, names, covered=covered)
    failed = {name: {"expected": expected[name], "seen": seen[name]} for name in names if seen[name] != expected[name]}
    return {"names": names, "missing": missing, "failed": failed, "changed": changed}


def run_programs(
    situation: adapter.Situation, programs: list[Any], *, covered: bool
) -> tuple[list[Any], dict[str, str]]:
    """What random programs see, each in a tree of its own, and what changed of the real files."""
    with ground(situation) as real:
        for number in range(len(programs)):
            random_programs.prepare(os.path.join(real.project, str(number)))
        path = os.path.join(real.home, "programs.json")
        kinds.write(path, json.dumps(programs))
        real.give()
        before = real.picture()
        done = adapter.run(
            script("random_programs.py", path), real.project, real.environment(), situation, covered=covered
        )
        seen = printed(done)
        return seen, compare.differences(before, real.picture())


def programs_in(situation: adapter.Situation, seeds: list[int], covered: bool = True) -> dict[str, Any]:
    """Random programs that differ in a cover, shrunk, and what changed of the real files."""
    allowed, new_times = known.ERRORS.get(situation.name, {}), situation.name in known.NEW_TIMES
    programs = [random_programs.program(seed) for seed in seeds]
    expected, done = run_programs(situation, programs, covered=False)
    assert done, "the programs changed nothing where they may"
    seen, changed = run_programs(situation, programs, covered=covered)

    def difference(should: Any, does: Any) -> str:
        return random_programs.unexplained(should, does, allowed, new_times)

    differing = [index for index in range(len(seeds)) if difference(expected[index], seen[index])]

    def differs(operations: list[Any]) -> bool:
        results = [run_programs(situation, [operations], covered=where)[0][0] for where in (False, covered)]
        return bool(difference(*results))

    shrunk = {}
    for index in differing[:3]:
        operations = random_programs.shrink(programs[index], differs)
        results = [run_programs(situation, [operations], covered=where)[0][0] for where in (False, covered)]
        shrunk[seeds[index]] = {"operations": operations, "difference": difference(*results)}
    explained = sum(expected[index] != seen[index] for index in range(len(seeds))) - len(differing)
    return {
        "differing": [seeds[index] for index in differing],
        "shrunk": shrunk,
        "changed": changed,
        "explained": explained,
    }


# Others write at the same time.


def outside_in(situation: adapter.Situation, seconds: float, covered: bool = True) -> dict[str, Any]:
    """A process outside appends, replaces, renames and deletes files that a program in the cover changes, too."""
    with ground(situation) as real:
        for name in outside.NAMES:
            kinds.write(os.path.join(real.project, name), "precious\n")
        os.mkdir(os.path.join(real.project, "mounted"))
        real.give()
        words = script("outside.py", "inside", str(seconds))
        before = real.picture()
        process = adapter.start(words, real.project, real.environment(), situation, covered=covered)
        with adapter.as_user(situation):
            expected, steps = outside.write(real.project, process)
        output, errors = process.communicate(timeout=seconds + 60)
        assert process.returncode == 0, errors[-3000:]
        there = sorted(name for name in os.listdir(real.project) if name != "mounted")
        found = {name: kinds.text(os.path.join(real.project, name)) for name in there}
        mine = (real.project, *(os.path.join(real.project, name) for name in {*outside.NAMES, *found}))
        changed = compare.differences(before, real.picture())
        wrong = {
            name: [expected.get(name, "")[-200:], found.get(name, "")[-200:]]
            for name in expected.keys() | found.keys()
            if expected.get(name) != found.get(name)
        }
        elsewhere = {path: how for path, how in changed.items() if path not in mine}
        return {"wrong": wrong, "elsewhere": elsewhere, "steps": steps, "inside": json.loads(output.splitlines()[-1])}


def kills_in(situation: adapter.Situation, seeds: list[int], covered: bool = True) -> dict[str, Any]:
    """What is left of rehearsals that a signal ended at random moments, by seed; and in how many the program ran by
    then.
    """
    left = {}
    ended = 0
    for seed in seeds:
        with ground(situation) as real:
            kinds.prepare(os.path.join(real.project, "part"))
            real.give()
            before = real.picture()
            mounts = kills.mounts()
            words = script("kills.py", real.token)
            process = adapter.start(words, real.project, real.environment(), situation, covered=covered)
            ran, said = kills.end(process, real.token, random.Random(seed))
            ended += ran
            remains = {**kills.remains(real.token, mounts), **compare.differences(before, real.picture())}
            kills.clear(real.token)
            if remains:
                left[f"{seed}: {said}"] = remains
    return {"left": left, "ended": ended}


def main(function: str, name: str, arguments: str) -> None:
    assert library_kinds
    situation = adapter.SITUATIONS[name]
    adapter.enter(situation)
    print(json.dumps(globals()[function](situation, **json.loads(arguments))))


if __name__ == "__main__":
    main(*sys.argv[1:])
