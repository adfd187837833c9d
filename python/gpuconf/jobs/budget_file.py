# SPDX-License-Identifier: Apache-2.0
"""The file that a job's processes account in. The layout, and why it is so, is in gocore/lease/budget/budget.h."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from .. import errors
from .._core.block import Entered
from .._typing import NamedTuple
from .generated.budget_layout import (
    BUDGET_INSTANCE,
    BUDGET_MAGIC,
    BUDGET_VERSION,
    BYTES_MASK,
    CARD,
    HEADER,
    HEADER_BYTES,
    LAUNCHER_LOCK,
    LOCKS,
    MAX_CARDS,
    MAX_NESTED,
    MAX_SLOTS,
    SHARE,
    SHARES,
    SLOT,
    BudgetCard,
    BudgetHeader,
    BudgetShare,
    BudgetSlot,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from io import FileIO
    from typing import TypeVar

    T = TypeVar("T", bound="BudgetFile")

_JOB = 48  # where it is in struct budget_header
_LIMIT, _MOST = 24, 32  # and these in struct budget_card
_LOCK = struct.Struct("hhqqi4x")  # struct flock
# The same on every architecture. The module fcntl lacks them in a Python that was built for glibc 2.17, as conda's may
# be.
_OFD_GETLK, _OFD_SETLK = 36, 37


class ProcessUse(NamedTuple):
    """What one process of a job has allocated on a card, in bytes."""

    pid: int
    name: str
    used: int
    pools: int
    """Of it, what gpuconf's own pools hold."""
    contexts: int
    """How many contexts of the CUDA driver it has made on the card and not ended."""


class CardUse(NamedTuple):
    """What a job has allocated on a card, in bytes."""

    limit: int
    used: int
    pools: int
    peak: int
    refused: int
    """How many requests were refused."""
    processes: tuple[ProcessUse, ...]
    shared: int
    """Of what is used, memory that was exported to other processes, and belongs to no single one."""
    contexts_peak: int
    """The most contexts of the CUDA driver that the job's processes had at a time."""
    most: int
    """What the limit becomes at most, while memory is lent to the job; 0: it does not change."""

    @property
    def contexts(self) -> int:
        """How many contexts of the CUDA driver the living processes have on the card."""
        return sum(process.contexts for process in self.processes)

    @property
    def outside(self) -> int:
        """What is allocated outside of gpuconf's pools."""
        return max(0, self.used - self.pools)

    @property
    def free(self) -> int:
        """What is left of the limit."""
        return max(0, self.limit - self.used)


def uuid_bytes(uuid: str) -> bytes:
    """The 16 bytes of "GPU-..." or "MIG-...". Raises InvalidArgumentError for another text."""
    digits = uuid[4:].replace("-", "")
    if uuid[:4] not in ("GPU-", "MIG-") or len(digits) != 32:
        raise errors.InvalidArgumentError(f"not the UUID of a GPU or of a MIG instance: {uuid!r}")
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise errors.InvalidArgumentError(f"not the UUID of a GPU or of a MIG instance: {uuid!r}") from None


def _uuid_text(number: bytes, flags: int) -> str:
    text = number.hex()
    return ("MIG-" if flags & BUDGET_INSTANCE else "GPU-") + "-".join(
        (text[:8], text[8:12], text[12:16], text[16:20], text[20:])
    )


def file_bytes(cards: int) -> int:
    """The size of the file for that many cards."""
    return HEADER_BYTES + MAX_SLOTS * SLOT.size + 24 * cards * MAX_SLOTS + SHARES * SHARE.size


def create(path: str, limits: Mapping[str, int], parent: str, job: str, most: int = 0) -> int:
    """Write a new file, and return a descriptor that holds the launcher's lock.

    Raises UnavailableError if there is no room.
    """
    header = BudgetHeader(
        magic=BUDGET_MAGIC, version=BUDGET_VERSION, cards=len(limits), slots=MAX_SLOTS, high=0,
        size=file_bytes(len(limits)), created=int(time.time()), launcher=os.getpid(), shares=0, job=job.encode()[:63],
        parent=os.fsencode(parent),
    )  # fmt: skip
    unused = dict.fromkeys(("peak", "refused", "shared", "contexts_peak"), 0)
    cards = (
        BudgetCard(uuid_bytes(uuid), BUDGET_INSTANCE * uuid.startswith("MIG-"), limit, most * (most > limit), **unused)
        for uuid, limit in limits.items()
    )
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        lock(file, LAUNCHER_LOCK)  # an empty file is never taken for an abandoned one
        # A hole that cannot be filled later ends the process with SIGBUS.
        os.posix_fallocate(file, 0, file_bytes(len(limits)))
        os.pwrite(file, HEADER.pack(*header) + b"".join(CARD.pack(*card) for card in cards), 0)
    except OSError as error:
        os.close(file)
        raise errors.UnavailableError(
            f"no room for the job's budget in {path}: {os.strerror(error.errno or errno.ENOSPC)}"
        ) from None
    return file


def opened(path: str) -> FileIO:
    """Open a file that processes share, to read and write it, unless it is a link."""
    return open(path, "r+b", 0, opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW))


def lock(file: int, byte: int) -> bool:
    """Lock a byte of an open file, for as long as the descriptor or a copy of it is open."""
    try:
        fcntl.fcntl(file, _OFD_SETLK, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))
    except BlockingIOError:
        return False
    return True


def _is_locked(file: int, byte: int, count: int = 1) -> bool:
    answer = fcntl.fcntl(file, _OFD_GETLK, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, count, 0))
    return bool(_LOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def in_use(file: int) -> bool:
    """Whether a process holds a slot of an open file, or its launcher lives."""
    return _is_locked(file, LAUNCHER_LOCK, MAX_SLOTS + 2)


class BudgetFile:
    """An existing file, for reading. It is read, not mapped: truncating the file then raises an error and no SIGBUS."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            data = self._read()
            header = BudgetHeader(*HEADER.unpack_from(data))
        except (OSError, struct.error) as error:
            raise errors.UnavailableError(f"the budget {path} cannot be read: {error}") from None
        if header.magic != BUDGET_MAGIC or header.version != BUDGET_VERSION:
            raise errors.UnavailableError(f"{path} is not a budget of this version of gpuconf")
        sizes = header.size, len(data), file_bytes(header.cards)
        if header.cards > MAX_CARDS or header.slots != MAX_SLOTS or len(set(sizes)) > 1:
            raise errors.UnavailableError(f"the budget {path} is damaged: its size is wrong")
        self.launcher = header.launcher
        self.job = header.job.partition(b"\0")[0].decode("utf-8", "replace")
        self.parent = os.fsdecode(header.parent.partition(b"\0")[0])

    def _read(self) -> bytes:
        # A FIFO would wait for a writer.
        file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            return os.pread(file, file_bytes(MAX_CARDS) + 1, 0)
        finally:
            os.close(file)

    def alive(self) -> bool:
        """Whether a process of the job lives. None does where the file is gone: it is removed after the last one."""
        try:
            with opened(self.path) as file:
                return in_use(file.fileno())
        except FileNotFoundError:
            return False

    def set_limits(self, limits: Mapping[str, int]) -> None:
        """Change the limits of cards. Requests that are decided from now on keep to them."""
        memory = self._mapped()
        for at, uuid in _places_of_cards(memory):
            if uuid in limits:
                _set(memory, at + _LIMIT, limits[uuid])

    def renew(self, job: str, limits: Mapping[str, int], most: int) -> None:
        """Make it the budget of another job of the same processes. Cards that are not in ``limits`` have none."""
        memory = self._mapped()
        struct.pack_into("64s", memory, _JOB, job.encode()[:63])
        for at, uuid in _places_of_cards(memory):
            limit = limits.get(uuid, BYTES_MASK)
            _set(memory, at + _LIMIT, limit)
            _set(memory, at + _MOST, most if most > limit else 0)
        self.job = job

    def _mapped(self) -> mmap.mmap:
        import mmap

        with opened(self.path) as file:
            return mmap.mmap(file.fileno(), HEADER_BYTES)

    def _living_slots(self, high: int) -> list[int]:
        with opened(self.path) as file:
            return [slot for slot in range(high) if _is_locked(file.fileno(), LOCKS + slot)]

    def usage(self) -> dict[str, CardUse]:
        """The use of each card, by UUID. Raises UnavailableError if the file is gone."""
        try:
            data = self._read()
            header = BudgetHeader(*HEADER.unpack_from(data))
            living = self._living_slots(min(header.high, MAX_SLOTS))
        except (OSError, struct.error) as error:
            raise errors.UnavailableError(f"the budget {self.path} cannot be read: {error}") from None
        columns = [
            HEADER_BYTES + MAX_SLOTS * (SLOT.size + 8 * header.cards * kind) for kind in range(4)
        ]  # used, pools, contexts, the shares
        shared = _shared(data[columns[3] :], min(header.shares, SHARES), living)
        uses = {}
        for card in range(header.cards):
            row = BudgetCard(*CARD.unpack_from(data, HEADER.size + card * CARD.size))
            values = [
                struct.unpack_from(f"<{MAX_SLOTS}Q", data, column + card * MAX_SLOTS * 8) for column in columns[:3]
            ]
            processes = [_process(data, slot, *(column[slot] for column in values)) for slot in living]
            beside = shared.get(card, 0)
            used = sum(process.used for process in processes) + beside
            pools = sum(process.pools for process in processes)
            uses[_uuid_text(row.uuid, row.flags)] = CardUse(
                row.limit, used, pools, row.peak, row.refused, tuple(processes), beside, row.contexts_peak, row.most
            )
        return uses


class Owned(Entered):
    """Such a file in the process that made it. Closing it removes its folder, once no process of the job lives."""

    path: str
    _held: int | None
    _closed = "the budget is closed"

    def _leave(self, *_: object) -> None:
        """Close it."""
        self.close()

    def keep_descriptor(self) -> int:
        """A descriptor that keeps the folder: pass it on to the program, which may outlive its launcher."""
        if self._held is None:
            raise errors.FailedPreconditionError(self._closed)
        os.set_inheritable(self._held, True)
        return self._held

    def forget(self) -> None:
        """Leave the folder to others that keep it."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def close(self) -> None:
        """Remove the folder if no process of the job lives; else the next job of this user does. Idempotent."""
        if self._held is None:
            return
        useless = self._is_useless(os.fstat(self._held))
        os.close(self._held)
        self._held = None
        folder, name = os.path.split(self.path)
        remove(folder) if useless else remove_if_unused(folder, name)

    def _is_useless(self, facts: os.stat_result) -> bool:
        """Whether the folder may go even if a process of the job lives."""
        return facts.st_nlink == 0 or facts.st_size == 0


def living(prefix: str, name: str, read: Callable[[str], T]) -> list[T]:
    """Return the files of this user's folders, as ``read`` reads them, of which a process lives."""
    files = []
    for folder in existing(prefix):
        try:
            file = read(os.path.join(folder, name))
            if file.alive():
                files.append(file)
        except (errors.UnavailableError, OSError):
            continue
    return files


def _process(data: bytes, slot: int, used: int, pools: int, contexts: int) -> ProcessUse:
    row = BudgetSlot(*SLOT.unpack_from(data, HEADER_BYTES + slot * SLOT.size))
    return ProcessUse(
        row.pid, row.name.partition(b"\0")[0].decode("utf-8", "replace"), used & BYTES_MASK, pools, contexts
    )


def _shared(shares: bytes, count: int, living: Collection[int]) -> dict[int, int]:
    """The bytes of shares that a living process holds, by card."""
    alive = sum(1 << slot for slot in living)
    found: dict[int, int] = {}
    for number in range(count):
        share = BudgetShare(*SHARE.unpack_from(shares, number * SHARE.size))
        if share.id and int.from_bytes(share.holders, "little") & alive:
            found[share.card] = found.get(share.card, 0) + share.size
    return found


def _set(memory: mmap.mmap, at: int, value: int) -> None:
    """Write a number in one step: the guard reads it at any time."""
    import ctypes

    ctypes.c_uint64.from_buffer(memory, at).value = value


def _places_of_cards(memory: mmap.mmap) -> Iterator[tuple[int, str]]:
    """Yield where each card of a mapped header is, and its UUID."""
    for card in range(BudgetHeader(*HEADER.unpack_from(memory)).cards):
        at = HEADER.size + card * CARD.size
        row = BudgetCard(*CARD.unpack_from(memory, at))
        yield at, _uuid_text(row.uuid, row.flags)


def check_limits(limits: Mapping[str, int]) -> None:
    """Raise InvalidArgumentError for an invalid limit or UUID."""
    if not 0 < len(limits) <= MAX_CARDS:
        raise errors.InvalidArgumentError(f"a job has 1 to {MAX_CARDS} cards, but got {len(limits)}")
    for uuid, limit in limits.items():
        if not 0 <= limit <= BYTES_MASK:
            raise errors.InvalidArgumentError(f"the limit of {uuid} must be 0 to {BYTES_MASK} bytes, but got {limit}")
    if len({uuid_bytes(uuid) for uuid in limits}) < len(limits):
        raise errors.InvalidArgumentError("a job names a card twice")


def chain(path: str) -> Sequence[BudgetFile]:
    """A budget and those of the jobs that it is nested in. Raises UnavailableError for a damaged one."""
    found: list[BudgetFile] = []
    while path and len(found) < MAX_NESTED:
        found.append(BudgetFile(path))
        path = found[-1].parent
    return found


# Folders that only this user can open, each with one file that the processes of a job share (budget_file.py).
#
# A folder is removed when no process of its job lives: by what made it, or by the next one that makes such a folder.
# Without tempfile and shutil: their imports would take longer than what `gpuconf ps` does here.

BUDGETS, CARDS = "gpuconf-job-", "gpuconf-cards-"  # what the names of folders begin with

_ABANDONED = 3600.0  # seconds after which a folder without its file is not being made any more


def new(prefix: str, *, executable: bool = False) -> str:
    """Make a folder, in memory if possible; if executable, where libraries can be loaded from.

    Raises UnavailableError.
    """
    places = [place for place in _places() if not executable or _may_have_libraries(place)]
    if not places:
        why = "forbid loading libraries (noexec), or have names that the loader splits"
        raise errors.UnavailableError(f"no folder for the guard: {', '.join(_places())} {why}")
    while True:
        folder = os.path.join(places[0], prefix + os.urandom(6).hex())
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            continue
        return folder


def remove(folder: str) -> None:
    """Remove a folder and the files in it, as far as that is possible."""
    try:
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
    except OSError:
        pass


def existing(prefix: str) -> Iterator[str]:
    """Yield the folders of this user."""
    for place in _places():
        try:
            names = os.listdir(place)
        except PermissionError:  # on some machines /tmp may be written and not listed
            continue
        for name in names:
            if not name.startswith(prefix):  # there may be thousands of others
                continue
            path = os.path.join(place, name)
            try:
                facts = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid():
                yield path


def sweep(prefix: str, file: str) -> None:
    """Remove the folders of jobs that have ended without it."""
    for folder in existing(prefix):
        remove_if_unused(folder, file)


def remove_if_unused(folder: str, name: str) -> None:
    """Remove a folder if no process of its job lives."""
    unused = _age(folder) > _ABANDONED
    try:
        file = opened(os.path.join(folder, name))
    except OSError:  # being made, being removed, or damaged
        pass
    else:
        with file:
            unused = not in_use(file.fileno()) and (os.fstat(file.fileno()).st_size > 0 or unused)
    if unused:
        remove(folder)


def _places() -> list[str]:
    """Where the folders may be: private to the user, in memory if possible.

    A program of the job may be in another folder.
    """
    runtime, temporary = (os.environ.get(name, "") for name in ("XDG_RUNTIME_DIR", "TMPDIR"))
    places = dict.fromkeys((runtime, "/dev/shm", temporary, "/tmp"))
    return [place for place in places if os.path.isabs(place) and os.access(place, os.W_OK | os.X_OK)]


def _may_have_libraries(place: str) -> bool:
    """Whether the loader takes it for one folder in ``LD_LIBRARY_PATH`` and ``LD_PRELOAD``, and maps programs from
    it.
    """
    return not set(place) & set(":;$") and len(place.split()) == 1 and not os.statvfs(place).f_flag & os.ST_NOEXEC


def _age(folder: str) -> float:
    try:
        return time.time() - os.stat(folder).st_mtime
    except OSError:
        return 0.0
