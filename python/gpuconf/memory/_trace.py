# SPDX-License-Identifier: Apache-2.0
"""Traces of device memory events, from a recording or from a file that RMM or PyTorch wrote."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from .. import errors
from .._core import texts
from .._core.handle import Job
from .._core.native import core, refuse_in_child
from .._core.stacks import Frame, call_site
from .._core.table import Made, Table, make
from .._typing import Any

Pools = dict[int, list[Any]]


# The header of the CSV that Go reads and writes.
HEADER = "Thread,Time,Action,Pointer,Size,Stream,GPU,HolderID,StackID,Block,Before,Pool\n"

_NO_SNAPSHOT: dict[str, Any] = {"recorded": [], "incomplete": "", "hidden": 0}
_NO_NAMES: dict[str, Any] = {"holders": [["", ""]], "frames": [], "stacks": [[]]}


class TraceEvent(Table):
    """One event on one logical GPU's memory."""

    time: float  # seconds since 1970, to the microsecond; since midnight if the file has no date
    thread: int  # threading.get_ident() of the thread on x86-64; 0 if unknown
    # "allocate", "allocate failure", "free"; "segment_alloc", "segment_free", "segment_map", "segment_unmap"; of a
    # rehearsal "pool_left": the last graph of a private pool is gone.
    action: str
    gpu: int  # the number of the logical GPU
    address: int  # 0 for a failure
    nbytes: int  # the requested size; for segments, which the pool reserves and releases, the segment's size
    stream: int  # the CUDA stream handle; 0 is the default stream
    # Older pickles lack the rest.
    library: str = ""  # as in UsageRow; "" if unknown
    tag: str = ""  # "" for untagged memory
    # the calls that led to an allocation, (filename, line, function), innermost first; () if unknown
    stack: tuple[tuple[str, int, str], ...] = ()

    @property
    def call_site(self) -> Frame | None:
        """The innermost call of ``stack`` that is not in an installed library, else the innermost.

        None without a stack.
        """
        return call_site(self.stack)


class Trace(metaclass=Made):
    """A sequence of device memory events, oldest first. Immutable.

    ``lost`` counts the older events that a recording had no room for. The trace of a recording is self-contained even
    then: it begins with an allocation of each block that was live at that point.
    """

    _made_by = "use gpuconf.memory.record() or load_trace()"

    def __init__(
        self,
        pages: list[str],
        count: int,
        lost: int = 0,
        pools: Pools | None = None,
        names: dict[str, Any] = _NO_NAMES,
        settings: Any = None,
        failed: Any = None,
        snapshot: dict[str, Any] = _NO_SNAPSHOT,
    ) -> None:
        # The CSV that Go writes, without its header, in pages, so that no single step on millions of events takes long;
        # each pool's layout after the last event, if known; and what the numbers of holders and stacks in the CSV stand
        # for.
        self._pages = pages
        self._count: int = count - snapshot["hidden"]
        self._pools = pools
        self._names = names
        self._settings = settings or {}  # of PyTorch's allocator, from a snapshot: gocore/base/trace/history.go
        # The state at each failed allocation that ends a snapshot: gocore/plan/rewind/outofmemory.go.
        self._failed = failed or []
        # By GPU, of PyTorch's snapshots: gocore/plan/rewind/recorded.go.
        self._recorded: list[Any] = snapshot["recorded"] or []
        self._incomplete: str = snapshot["incomplete"]  # why a snapshot is not a whole one; ""
        self._hidden: int = snapshot["hidden"]  # lines at the beginning that stand for segments that there were before
        self._events: tuple[TraceEvent, ...] | None = None
        self._of_pytorch = False  # only PyTorch writes such a file
        self._open_ended = False  # whether the file's last line has no newline: it may be cut
        self.lost = lost

    @property
    def events(self) -> tuple[TraceEvent, ...]:
        """The events, as named tuples."""
        if self._events is None:
            holders, stacks = self._holders(), self._stacks()
            self._events = tuple(_event(line, holders, stacks) for line in self._lines())
        return self._events

    def _holders(self) -> list[tuple[str, str]]:
        """The library and tag of each number in the CSV."""
        return [(library, tag) for library, tag in self._names["holders"]]

    def _stacks(self) -> list[tuple[Frame, ...]]:
        """The stack of each number in the CSV."""
        frames: list[Frame] = [(file, line, function) for file, line, function in self._names["frames"]]
        return [tuple(frames[number] for number in stack) for stack in self._names["stacks"]]

    def _lines(self) -> Iterator[str]:
        hidden = self._hidden
        for page in self._pages:
            lines = page.splitlines()
            yield from lines[hidden:]
            hidden = max(hidden - len(lines), 0)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[TraceEvent]:
        return iter(self.events)

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002 - json and pandas call it so
        """Write a file: ``"rmm"``, the CSV format of RMM, or ``"torch"``, a snapshot for https://pytorch.org/memory_viz.

        Without ``format``, the file name decides: ``.csv``, or ``.pickle`` and ``.pkl``. The CSV omits segment events.
        It has additional columns where the trace has something for them: ``GPU``, if there are GPUs other than GPU:0,
        ``Library`` and ``Tag``, and ``Stack``. ``Stack`` is a number and, where that number comes first, the frames
        after an equals sign: ``7=train.py:12:step;train.py:30:main``, innermost first. In these columns ``%2C`` is a
        comma, as in URLs.

        Raises ValueError if the format is unknown, and OSError as ``open`` does.
        """
        from .._core.files import replacing

        name = os.fspath(path)
        if format is None:
            format = {".csv": "rmm", ".pickle": "torch", ".pkl": "torch"}.get(os.path.splitext(name)[1].lower())  # noqa: A001
            if format is None:
                raise errors.InvalidArgumentError(
                    f"cannot infer the format from {name!r}: use a .csv or .pickle file name, or pass format='rmm' or "
                    "'torch'"
                )
        if format == "rmm":
            with replacing(name, encoding="utf-8", newline="") as file:
                file.writelines(_rmm_lines(self._lines, self._holders(), self._stacks()))
        elif format == "torch":
            from . import _snapshot

            with replacing(name, "wb") as file:
                _snapshot.write(file, self.events, self._pools)
        else:
            raise errors.InvalidArgumentError(f"format must be 'rmm' or 'torch', but got {format!r}")

    def __repr__(self) -> str:
        lost = f", {self.lost} older events lost" if self.lost else ""
        return f"<gpuconf.Trace of {len(self)} events{lost}>"


def _event(line: str, holders: list[tuple[str, str]], stacks: list[tuple[Frame, ...]]) -> TraceEvent:
    thread, time, action, pointer, nbytes, stream, gpu, holder, stack, *_ = line.split(",")
    library, tag = holders[int(holder)]
    address, on_stream, calls = int(pointer, 16), int(stream, 16), stacks[int(stack)]
    return TraceEvent(float(time), int(thread), action, int(gpu), address, int(nbytes), on_stream, library, tag, calls)


# What separates fields, frames and the parts of a frame, and what would end a line.
_ESCAPED = {ord(character): f"%{ord(character):02X}" for character in '%,;="' + "".join(map(chr, range(32)))}


def escaped(text: str) -> str:
    """Return a text as it stands in a field of RMM's file."""
    return text.translate(_ESCAPED)


def _rmm_lines(
    lines: Callable[[], Iterator[str]], holders: list[tuple[str, str]], stacks: list[tuple[Frame, ...]]
) -> Iterator[str]:
    """Yield the lines of RMM's file: without segments, with the time of day, and with only those additional columns
    that differ.
    """
    from time import gmtime, localtime

    several = any(line.split(",", 7)[6] != "0" for line in lines())
    named, called = len(holders) > 1, len(stacks) > 1
    columns = ("GPU", several), ("Library,Tag", named), ("Stack", called)
    yield ",".join(["Thread,Time,Action,Pointer,Size,Stream", *(name for name, wanted in columns if wanted)]) + "\n"
    names = [f"{escaped(library)},{escaped(tag)}" for library, tag in holders]
    shown = [
        f"{i}=" + ";".join(f"{escaped(f)}:{n}:{escaped(g)}" for f, n, g in stack) if i else ""
        for i, stack in enumerate(stacks)
    ]
    second, clock = "", ""
    for line in lines():
        thread, time, action, rest = line.split(",", 3)
        if action.startswith("segment"):
            continue
        if not time.startswith(second + "."):
            second = time.partition(".")[0]
            at = int(second)
            # A time of day without a date has no time zone either.
            t = localtime(at) if at > 366 * 86400 else gmtime(at)
            clock = f"{t.tm_hour:02}:{t.tm_min:02}:{t.tm_sec:02}"
        pointer, nbytes, stream, gpu, holder, stack, *_ = rest.split(",")
        fields = [thread, clock + time[len(second) :], action, pointer, nbytes, stream]
        if several:
            fields.append(gpu)
        if named:
            fields.append(names[int(holder)])
        if called:
            number = int(stack)
            fields.append(shown[number])
            shown[number] = stack if number else ""
        yield ",".join(fields) + "\n"


def _is_open_ended(file: Any) -> bool:
    """Whether a text file's last line has no newline."""
    try:
        file.seek(0)
        is_text = file.read(1) != b"\x80"
        file.seek(-1, os.SEEK_END)
        return bool(is_text and file.read(1) != b"\n")
    except OSError:  # it is a pipe
        return False


def _as_profile(name: str, file: Any) -> tuple[int, bool] | None:
    """Return a descriptor of what a profiler's file contains as CSV, and whether the profiler is PyTorch's, not Nsight.

    None for other files and for pipes.
    """
    try:
        start = os.pread(file.fileno(), 16, 0).lstrip()
    except OSError:
        return None
    if start[:1] not in (b"S", b"{", b"[", b"\x1f"):
        return None
    from ._profiles import open_profile

    descriptor = open_profile(name, start)
    return None if descriptor is None else (descriptor, start[:1] != b"S")


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace file:
    RMM's CSV, or a snapshot of ``torch.cuda.memory._dump_snapshot()``. The contents determine the format.

    It also reads the memory events of PyTorch's profiler (``profile_memory=True``, ``export_chrome_trace``; also packed
    by gzip) and of Nsight Systems (``nsys profile --cuda-memory-usage=true``, ``nsys export --type sqlite``).

    A snapshot is a pickle. It is read without importing or calling anything that it names, and reading it takes at most
    a small multiple of its size in memory. Ctrl-C works at any time.

    Raises ValueError for a file in neither format, with the line or the entry at fault, and OSError as ``open`` does.
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise errors.InvalidTypeError(f"a trace must be a recording or the path of a file, but got {texts.shown(path)}")
    name = os.fspath(path)
    refuse_in_child()
    if os.path.isdir(name):
        raise IsADirectoryError(f"{texts.shown(name)} is a folder: gpuconf.plan_fleet plans the recordings in one")
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(name, "rb", buffering=0))
        profile = _as_profile(name, file)
        if profile is not None:
            file = stack.enter_context(open(profile[0], "rb", buffering=0))
        try:
            with Job(core.pybind_OpenLoad, file.fileno()) as job:
                summary = job.finish()
                parts = summary["names"], summary["settings"], summary["out_of_memory"], summary
                trace: Trace = make(Trace, job.pages(), summary["events"], 0, None, *parts)
                trace._open_ended = _is_open_ended(file)
                trace._of_pytorch = bool(trace._recorded) or (profile is not None and profile[1])
                return trace
        except errors.InvalidArgumentError as error:
            in_log = "; for the errors in a log: gpuconf plan --message FILE" if ": no column " in str(error) else ""
            raise errors.InvalidArgumentError(f"cannot read {name!r} as a trace: {error}{in_log}") from None
