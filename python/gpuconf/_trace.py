"""What was done to device memory, as a value: of a recording, or of a file that RMM or PyTorch wrote."""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Iterator

from . import errors
from ._native import core, refuse_in_child
from ._table import Table
from ._typing import Any

Pools = dict[int, list[Any]]


class TraceEvent(Table, namedtuple("TraceEvent", ["time", "thread", "action", "gpu", "address", "nbytes", "stream"])):
    """One thing that was done to one logical GPU's memory."""

    __slots__ = ()

    time: float  # seconds since 1970, to the microsecond; since midnight, if a file tells no date
    thread: int  # threading.get_ident() of the thread on x86-64; 0 where it is not known
    action: str  # "allocate", "allocate failure", "free"; "segment_alloc", "segment_free", "segment_map", "segment_unmap"
    gpu: int  # the number of the logical GPU
    address: int  # 0 for a failure
    nbytes: int  # that were asked for; of a segment, which the pool took from the GPU or gave back, its size
    stream: int  # CUDA's handle; 0 is the default stream


class Trace:
    """What was done to device memory, oldest first. It never changes.

    ``lost`` counts the older events that a recording had no room for. What a recording gives makes sense by itself all the
    same: it begins with an allocation of each block that was live by then.
    """

    def __init__(self, text: str, lost: int = 0, pools: Pools | None = None) -> None:
        # The CSV that Go writes; and each pool's picture after the last event, where that is known.
        self._text = text
        self._pools = pools
        self._events: tuple[TraceEvent, ...] | None = None
        self.lost = lost

    @property
    def events(self) -> tuple[TraceEvent, ...]:
        """The events, as tuples with names."""
        if self._events is None:
            self._events = tuple(map(_event, self._text.splitlines()[1:]))
        return self._events

    def __len__(self) -> int:
        return self._text.count("\n") - 1

    def __iter__(self) -> Iterator[TraceEvent]:
        return iter(self.events)

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002 - json and pandas call it so
        """Write a file: ``"rmm"``, the CSV of RMM, or ``"torch"``, a snapshot for https://pytorch.org/memory_viz.

        Without ``format`` the name decides: ``.csv``, or ``.pickle`` and ``.pkl``. RMM's CSV has a column ``GPU`` in addition where
        more than GPU:0 is in the trace, and leaves the segments out.

        Raises ValueError for a name that tells no format, and OSError as ``open`` does.
        """
        name = os.fspath(path)
        if format is None:
            format = {".csv": "rmm", ".pickle": "torch", ".pkl": "torch"}.get(os.path.splitext(name)[1].lower())  # noqa: A001
            if format is None:
                raise errors.InvalidArgumentError(
                    f"{name!r} tells no format: end it in .csv or .pickle, or say format='rmm' or 'torch'"
                )
        if format == "rmm":
            with open(name, "w", encoding="ascii", newline="") as file:
                file.writelines(_rmm_lines(self._text))
        elif format == "torch":
            from . import _snapshot

            with open(name, "wb") as file:
                _snapshot.write(file, self.events, self._pools)
        else:
            raise errors.InvalidArgumentError(f"format must be 'rmm' or 'torch', but got {format!r}")

    def __repr__(self) -> str:
        lost = f", {self.lost} older ones lost" if self.lost else ""
        return f"<gpuconf.Trace of {len(self)} events{lost}>"


def _event(line: str) -> TraceEvent:
    thread, time, action, pointer, nbytes, stream, gpu = line.split(",")
    return TraceEvent(float(time), int(thread), action, int(gpu), int(pointer, 16), int(nbytes), int(stream, 16))


def _rmm_lines(text: str) -> Iterator[str]:
    """The lines of RMM's file: without segments, with the time of day, and with the GPU only where there are several."""
    from time import gmtime, localtime

    lines = text.splitlines()
    several = any(not line.endswith(",0") for line in lines[1:])
    yield "Thread,Time,Action,Pointer,Size,Stream" + (",GPU\n" if several else "\n")
    second, clock = "", ""
    for line in lines[1:]:
        thread, time, action, rest = line.split(",", 3)
        if action.startswith("segment"):
            continue
        if not time.startswith(second + "."):
            second = time.partition(".")[0]
            at = int(second)
            t = localtime(at) if at > 366 * 86400 else gmtime(at)  # a time of day that had no date has no time zone either
            clock = f"{t.tm_hour:02}:{t.tm_min:02}:{t.tm_sec:02}"
        if not several:
            rest = rest.rpartition(",")[0]
        yield f"{thread},{clock}{time[len(second) :]},{action},{rest}\n"


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a file of events: RMM's CSV, or a snapshot of ``torch.cuda.memory._dump_snapshot()``. What it is, its contents tell.

    A snapshot is a pickle: it is read without importing or calling anything that it names. Raises ValueError for a file that is
    neither, with the line or the entry, and OSError as ``open`` does.
    """
    name = os.fspath(path)
    refuse_in_child()  # before the imports
    with open(name, "rb") as file:
        data = file.read()
    try:
        if data[:1] == b"\x80":
            from . import _snapshot

            return Trace(core.pybind_ReadTrace(_snapshot.read(data)))
        if b"\0" in data:
            raise errors.InvalidArgumentError("it is neither CSV nor a pickle")
        return Trace(core.pybind_ReadTrace(data.decode("utf-8", "replace")))
    except errors.InvalidArgumentError as error:
        raise errors.InvalidArgumentError(f"{name!r} can't be read as a trace: {error}") from None
