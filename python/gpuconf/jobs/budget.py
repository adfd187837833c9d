# SPDX-License-Identifier: Apache-2.0
"""The guard's side of ``gpuconf run``: a private folder with a job's budget and the libraries that make its programs
keep to it.

The folder holds

    budget               what the job may use and uses (budget_file.py)
    libcuda.so.1         an empty library that needs the guard and then the driver; libcuda.so is a link to it
    libnvidia-ml.so.1    the same for NVML
    libgpuconf-guard.so  the guard, with a gate if the job takes turns, without the functions that the driver lacks
    gate                 whether the job's programs may call the driver (gate.py), if it takes turns
    libgpuconf-driver.so, libgpuconf-nvml.so  links to the real libraries
    libgpuconf-preload.so  in mode "preload"
    log                  what the guard could not do
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence

from .. import errors
from .._core import elf
from . import budget_file
from .execute import PYTHONS, is_one_of, which
from .generated import budget_layout

_CACHE_LINE = r"^\s*(\S+) \(.*\) => (\S+)$"
_FOLDERS = (
    "/lib64",
    "/usr/lib64",
    "/lib/{}-linux-gnu",
    "/usr/lib/{}-linux-gnu",
    "/lib",
    "/usr/lib",
    "/usr/lib/wsl/lib",
)


def find(name: str, environment: Mapping[str, str]) -> str | None:
    """The path of a library, such as libcuda.so.1, that a program started with this environment would load."""
    return next((path for path in _candidates(name, environment) if elf.header_fits(path)), None)


def _candidates(name: str, environment: Mapping[str, str]) -> Iterator[str]:
    for folder in environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":"):
        yield os.path.abspath(os.path.join(folder, name)) if folder else os.path.abspath(name)
    from .._core.command import run

    for program in ("/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"):
        try:
            listed = run([program, "-p"], errors="surrogateescape", env={**os.environ, "LC_ALL": "C"})
        except OSError:
            continue
        found = (re.match(_CACHE_LINE, line) for line in listed.stdout.splitlines())
        yield from (line[2] for line in found if line and line[1] == name)
        break
    machine = os.uname().machine
    yield from (os.path.join(folder.format(machine), name) for folder in _FOLDERS)


CardUse = budget_file.CardUse
ProcessUse = budget_file.ProcessUse
MODES = ("auto", "proxy", "preload")
VARIABLE = "GPUCONF_GUARD"
_LIBRARIES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_guard")
_FILE = "budget"
_SHELLS = ("sh", "bash", "dash", "ksh", "mksh", "pdksh", "zsh", "csh", "tcsh", "fish", "ash", "busybox", "env")
_INTERPRETERS = (*PYTHONS, "perl", "ruby", "lua", "julia", "node", "tclsh", "Rscript", "R")
_DRIVER_FILES = r"(libcuda|libnvidia-ml)\.so(\..*)?"


class Reader(budget_file.BudgetFile):
    """A live budget: its use and its log."""

    def log(self) -> list[str]:
        """What the guard could not do, a line each."""
        try:
            with open(os.path.join(os.path.dirname(self.path), "log"), encoding="utf-8", errors="replace") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []


class Budget(budget_file.Owned, Reader):
    """The budget of a job that is being started."""

    def __init__(self, path: str, held: int, mode: str, environment: dict[str, str], notes: Sequence[str]) -> None:
        self._held = held
        super().__init__(path)
        self.mode = mode
        self.environment = environment
        self._notes = list(notes)

    def describe(self) -> list[str]:
        """How the limit is kept, and what to know about it, a line each."""
        how = "a driver proxy on LD_LIBRARY_PATH"
        if self.mode == "preload":
            how += ", and a preloaded dlopen()"
        return [f"limit enforced by gpuconf's guard: {how}", *self._notes]


def prepare(
    limits: Mapping[str, int],
    mode: str = "auto",
    *,
    command: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    job: str = "",
    turns: bool = False,
    most: int = 0,
) -> Budget:
    """Make the budget of a job, with a limit in bytes for each card by UUID, and with ``turns`` its gate. ``most`` is
    what the limits may become while memory is lent to the job.

    The program must be started with ``environment`` of the result. Inside another job, the smaller limit counts, and
    both are charged. Raises InvalidArgumentError for a bad limit or mode, NotFoundError without a driver,
    FailedPreconditionError if jobs are nested too deep, and UnavailableError if there is no room for the budget or the
    outer job's is damaged.
    """
    given = dict(os.environ if environment is None else environment)
    if mode not in MODES:
        raise errors.InvalidArgumentError(f"unknown mode {mode!r}; the modes are {', '.join(MODES)}")
    budget_file.check_limits(limits)
    budget_file.sweep(budget_file.BUDGETS, _FILE)
    parent = _outer(given)
    outer_folder = os.path.dirname(parent)
    libraries = {"libcuda.so.1": "libgpuconf-driver.so", "libnvidia-ml.so.1": "libgpuconf-nvml.so"}
    real = {name: _real(name, outer_folder, link, given) for name, link in libraries.items()}
    if real["libcuda.so.1"] is None:
        raise errors.NotFoundError(
            "no CUDA driver: libcuda.so.1 is neither on LD_LIBRARY_PATH nor in the loader's cache"
        )
    program = _program(command, given)
    notes = list(_warnings(program))
    chosen = _chosen(mode, program)
    folder = budget_file.new(budget_file.BUDGETS, executable=True)
    try:
        path = os.path.join(folder, _FILE)
        descriptor = budget_file.create(path, limits, parent, job, most)
        if turns:
            from . import gate

            gate.create(folder, lends=any(limit < most for limit in limits.values()))
        found = {name: target for name, target in real.items() if target is not None}
        _fill(folder, found, libraries, "libgpuconf-gate.so" if turns else "libgpuconf-guard.so")
    except BaseException:
        budget_file.remove(folder)
        raise
    return Budget(path, descriptor, chosen, _variables(folder, outer_folder, chosen, given), notes)


def current() -> Reader | None:
    """The budget of this process, if ``gpuconf run`` gave it one."""
    path = os.environ.get(VARIABLE)
    try:
        return Reader(path) if path else None
    except errors.UnavailableError:
        return None


def budgets() -> list[Reader]:
    """Every budget of this user whose job lives."""
    return budget_file.living(budget_file.BUDGETS, _FILE, Reader)


def _outer(environment: Mapping[str, str]) -> str:
    """The budget file that this process is under, or an empty text.

    Raises UnavailableError if it or one above it is damaged.
    """
    path = environment.get(VARIABLE, "")
    try:
        outer = budget_file.chain(path)
        for one in outer:
            one.usage()
    except errors.UnavailableError as error:
        raise errors.UnavailableError(
            f"{error}. {VARIABLE} names it: unset the variable if its job has ended"
        ) from None
    if len(outer) == budget_layout.MAX_NESTED:
        raise errors.FailedPreconditionError(
            f"jobs can be nested at most {budget_layout.MAX_NESTED} deep: start the program outside one of them"
        )
    return path


def _real(name: str, outer_folder: str, link: str, environment: Mapping[str, str]) -> str | None:
    """The real library: an outer job's, since its folder is what the search would find."""
    linked = os.path.join(outer_folder, link) if outer_folder else ""
    if linked:
        return os.readlink(linked) if os.path.islink(linked) else None
    return find(name, environment)


def _program(command: Sequence[str], environment: Mapping[str, str]) -> str | None:
    return which(command[0], environment) if command else None


def _warnings(program: str | None) -> Iterator[str]:
    if program is None:
        return
    static, rpath = elf.program_facts(program)
    if static:
        yield (
            f"{program} is linked statically: the guard cannot limit it, only dynamically linked programs that it "
            "starts"
        )
    if any(os.path.exists(os.path.join(folder, "libcuda.so.1")) for folder in rpath):
        yield f"{program} looks for libcuda.so.1 in its DT_RPATH first: the guard cannot limit it"
    if _changes_identity(os.stat(program)):
        yield f"{program} is set-uid: the loader ignores the guard"


def _changes_identity(facts: os.stat_result) -> bool:
    """Whether a program gets another user or group than the caller's: only then the loader ignores the environment."""
    user = bool(facts.st_mode & stat.S_ISUID) and facts.st_uid != os.getuid()
    group = facts.st_mode & (stat.S_ISGID | stat.S_IXGRP) == stat.S_ISGID | stat.S_IXGRP and facts.st_gid != os.getgid()
    return user or group


def _chosen(mode: str, program: str | None) -> str:
    """Preloading for scripts, shells and interpreters, and if the program's own file names the driver by a path.

    What a script runs is not known beforehand: it may put another folder before the guard's on LD_LIBRARY_PATH, as
    ``module load`` and an activated environment do.
    """
    if mode != "auto":
        return mode
    if program is None:
        return "proxy"
    file = os.path.realpath(program)
    if os.path.basename(file) in _SHELLS or is_one_of(_INTERPRETERS, file) or not elf.header_fits(program):
        return "preload"
    with open(program, "rb") as opened:
        return "preload" if b"/libcuda.so" in opened.read() else "proxy"


def _fill(folder: str, real: Mapping[str, str], links: Mapping[str, str], library: str) -> None:
    for name, target in real.items():
        os.symlink(target, os.path.join(folder, links[name]))
        needed = (os.path.join(folder, "libgpuconf-guard.so"), target)
        _write(os.path.join(folder, name), elf.library(name, needed))
        os.symlink(name, os.path.join(folder, name.removesuffix(".1")))
    guard = _own(library)
    _write(os.path.join(folder, "libgpuconf-guard.so"), elf.without(guard, _lacking(guard, real)))
    _write(os.path.join(folder, "libgpuconf-preload.so"), _own("libgpuconf-preload.so"))


def _own(library: str) -> bytes:
    with open(os.path.join(_LIBRARIES, library), "rb") as file:
        return file.read()


def _lacking(guard: bytes, real: Mapping[str, str]) -> set[str]:
    """The functions of the guard that the real libraries do not have: a program may ask whether they are there."""
    offered = elf.defined(guard)
    lacking = set()
    for prefix, name in (("cu", "libcuda.so.1"), ("nvml", "libnvidia-ml.so.1")):
        has = elf.exports(real[name]) if name in real else set()
        if has is not None:
            lacking |= {function for function in offered if function.startswith(prefix) and function not in has}
    return lacking


def _write(path: str, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
    with open(file, "wb") as opened:
        opened.write(data)


def _guarded(library: str, folder: str) -> str:
    """The guard's library in place of the driver's: a preloaded driver would come before the guard."""
    name = re.fullmatch(_DRIVER_FILES, os.path.basename(library))
    ours = os.path.join(folder, f"{name[1]}.so.1") if name else ""
    return ours if os.path.exists(ours) else library


def _variables(folder: str, outer_folder: str, mode: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a program of the job needs, merged with those that it has."""
    before = environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
    kept = [part for part in before if part and part != outer_folder]
    variables = {VARIABLE: os.path.join(folder, _FILE), "LD_LIBRARY_PATH": ":".join([folder, *kept])}
    outer_preload = os.path.join(outer_folder, "libgpuconf-preload.so")
    given = [part for part in environment.get("LD_PRELOAD", "").replace(":", " ").split() if part != outer_preload]
    preloaded = [_guarded(part, folder) for part in given]
    if mode == "preload":
        preloaded.insert(0, os.path.join(folder, "libgpuconf-preload.so"))
        # AddressSanitizer ends a program in which a library comes before its own. What it fears, that its functions are
        # replaced, does not happen: our dlopen() calls the next one. The last word counts, so a choice of the user's
        # stays.
        variables["ASAN_OPTIONS"] = ":".join(
            filter(None, ("verify_asan_link_order=0", environment.get("ASAN_OPTIONS")))
        )
    if "LD_PRELOAD" in environment or preloaded:
        variables["LD_PRELOAD"] = " ".join(preloaded)
    return variables
