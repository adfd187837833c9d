"""Traces of device memory events, from a recording or from a file that RMM or PyTorch wrote."""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Callable, Iterator

from .. import errors
from .._core.job import Job
from .._core.made import Made, make
from .._core.native import core, refuse_in_child
from .._core.table import Table
from .._typing import Any

Pools = dict[int, list[Any]]


# The header of the CSV that Go reads and writes.
HEADER = "Thread,Time,Action,Pointer,Size,Stream,GPU\n"


class TraceEvent(Table, namedtuple("TraceEvent", ["time", "thread", "action", "gpu", "address", "nbytes", "stream"])):
    """One event on one logical GPU's memory."""

    __slots__ = ()

    time: float  # seconds since 1970, to the microsecond; since midnight if the file has no date
    thread: int  # threading.get_ident() of the thread on x86-64; 0 if unknown
    action: str  # "allocate", "allocate failure", "free"; "segment_alloc", "segment_free", "segment_map", "segment_unmap"
    gpu: int  # the number of the logical GPU
    address: int  # 0 for a failure
    nbytes: int  # the requested size; for segments, which the pool reserves and releases, the segment's size
    stream: int  # the CUDA stream handle; 0 is the default stream


class Trace(metaclass=Made):
    """A sequence of device memory events, oldest first. Immutable.

    ``lost`` counts the older events that a recording had no room for. The trace of a recording is self-contained even then:
    it begins with an allocation of each block that was live at that point.
    """

    _made_by = "use gpuconf.memory.record() or load_trace()"

    def __init__(self, pages: list[str], count: int, lost: int = 0, pools: Pools | None = None, settings: Any = None) -> None:
        # The CSV that Go writes, without its header, in pages, so that no single step on millions of events takes long; and each
        # pool's layout after the last event, if known.
        self._pages = pages
        self._count = count
        self._pools = pools
        self._settings = settings or {}  # of PyTorch's allocator, from a snapshot: gocore/trace/history.go
        self._events: tuple[TraceEvent, ...] | None = None
        self.lost = lost

    @property
    def events(self) -> tuple[TraceEvent, ...]:
        """The events, as named tuples."""
        if self._events is None:
            self._events = tuple(map(_event, self._lines()))
        return self._events

    def _lines(self) -> Iterator[str]:
        for page in self._pages:
            yield from page.splitlines()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[TraceEvent]:
        return iter(self.events)

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002 - json and pandas call it so
        """Write a file: ``"rmm"``, the CSV format of RMM, or ``"torch"``, a snapshot for https://pytorch.org/memory_viz.

        Without ``format``, the file name decides: ``.csv``, or ``.pickle`` and ``.pkl``. The CSV omits segment events, and has an
        additional ``GPU`` column if the trace contains GPUs other than GPU:0.

        Raises ValueError if the format is unknown, and OSError as ``open`` does.
        """
        name = os.fspath(path)
        if format is None:
            format = {".csv": "rmm", ".pickle": "torch", ".pkl": "torch"}.get(os.path.splitext(name)[1].lower())  # noqa: A001
            if format is None:
                raise errors.InvalidArgumentError(
                    f"cannot infer the format from {name!r}: use a .csv or .pickle file name, or pass format='rmm' or 'torch'"
                )
        if format == "rmm":
            with open(name, "w", encoding="ascii", newline="") as file:
                file.writelines(_rmm_lines(self._lines))
        elif format == "torch":
            from . import _snapshot

            with open(name, "wb") as file:
                _snapshot.write(file, self.events, self._pools)
        else:
            raise errors.InvalidArgumentError(f"format must be 'rmm' or 'torch', but got {format!r}")

    def __repr__(self) -> str:
        lost = f", {self.lost} older events lost" if self.lost else ""
        return f"<gpuconf.Trace of {len(self)} events{lost}>"


def _event(line: str) -> TraceEvent:
    thread, time, action, pointer, nbytes, stream, gpu = line.split(",")
    return TraceEvent(float(time), int(thread), action, int(gpu), int(pointer, 16), int(nbytes), int(stream, 16))


def _rmm_lines(lines: Callable[[], Iterator[str]]) -> Iterator[str]:
    """Yield the lines of RMM's file: without segments, with the time of day, and with the GPU only if there are several."""
    from time import gmtime, localtime

    several = any(not line.endswith(",0") for line in lines())
    yield "Thread,Time,Action,Pointer,Size,Stream" + (",GPU\n" if several else "\n")
    second, clock = "", ""
    for line in lines():
        thread, time, action, rest = line.split(",", 3)
        if action.startswith("segment"):
            continue
        if not time.startswith(second + "."):
            second = time.partition(".")[0]
            at = int(second)
            t = localtime(at) if at > 366 * 86400 else gmtime(at)  # a time of day without a date has no time zone either
            clock = f"{t.tm_hour:02}:{t.tm_min:02}:{t.tm_sec:02}"
        if not several:
            rest = rest.rpartition(",")[0]
        yield f"{thread},{clock}{time[len(second) :]},{action},{rest}\n"


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace file: RMM's CSV, or a snapshot of ``torch.cuda.memory._dump_snapshot()``. The contents determine the format.

    A snapshot is a pickle. It is read without importing or calling anything that it names, and reading it takes at most a small
    multiple of its size in memory. Ctrl-C works at any time.

    Raises ValueError for a file in neither format, with the line or the entry at fault, and OSError as ``open`` does.
    """
    name = os.fspath(path)
    refuse_in_child()
    with open(name, "rb", buffering=0) as file:
        try:
            with Job(core.pybind_OpenLoad, file.fileno()) as job:
                summary = job.finish()
                return make(Trace, job.pages(), summary["events"], 0, None, summary["settings"])
        except errors.InvalidArgumentError as error:
            raise errors.InvalidArgumentError(f"cannot read {name!r} as a trace: {error}") from None
