"""A block of device memory, and how to get one."""

from __future__ import annotations

import functools
import math
import operator
import sys
import time
import weakref
from collections.abc import Callable, Collection
from types import TracebackType

from .. import errors
from .._core import runtime, sizes, texts
from .._core.device_argument import Device
from .._core.devices import LogicalDevice
from .._core.foreign import views
from .._core.fork import module_lock
from .._core.made import Made
from .._core.native import core, keep, loaded, refuse_in_child
from .._core.scope import check_scope, gpu_number
from .._typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar, overload

    from _typeshed import WriteableBuffer

    T = TypeVar("T", bound=WriteableBuffer)

# One wait in Go; between two, Python looks for signals, so Ctrl-C works.
_WAIT_MS = 50

# Every block that was not given back: its buffer, what the core said of it ("address id ..."), and the generation. An entry is
# there before its memory and goes after it: the exception of a signal handler, which can come between any two steps, loses none.
_live: dict[weakref.ref[Buffer], tuple[list[str], int]] = {}
_lost: dict[weakref.ref[Buffer], Any] = {}  # whose buffer has gone before its entry; filled by the interpreter in one step
_lending = module_lock(globals(), "_lending")  # a collection may end a loan of one buffer while another's begins


class Buffer(metaclass=Made):
    """Device memory that was handed out: by :func:`allocate`, until :meth:`free`.

    Attributes: ``ptr``, the device address; ``nbytes``, the size that was asked for; ``device``, the LogicalDevice.
    A buffer is a context manager that frees itself at the end. One that is dropped without being freed frees its memory
    and gives a ResourceWarning, as an open file does.

    Other libraries read and write the memory as bytes without a copy: through DLPack (``torch.from_dlpack(buffer)``), and on
    real GPUs through ``__cuda_array_interface__`` too. Whoever has taken it by DLPack keeps it: the memory of a buffer that is
    freed meanwhile goes back when the last of them lets go. The CUDA array interface keeps the buffer alive, but not from ``free``.
    """

    __slots__ = ("__weakref__", "_entry", "_freed", "_generation", "_id", "_loans", "_receipt", "device", "nbytes", "ptr")

    ptr: int
    nbytes: int
    device: LogicalDevice
    if TYPE_CHECKING:
        _id: int  # 0: nothing to free
        _entry: weakref.ref[Buffer] | None  # in _live; it goes before the buffer does, or it would count as lost
        _receipt: list[str]
        _generation: int
        _freed: bool
        _loans: Collection[int]  # DLPack capsules and what was made of them, and copies under way; guarded by _lending

    # Bound here for `__del__` and `__exit__`: when the last objects go at exit, the globals of this module may be None. The memory
    # goes with the process, so they do nothing then.
    _ending = staticmethod(sys.is_finalizing)

    _made_by = "they come from gpuconf.memory.allocate()"

    @classmethod
    def _empty(cls, nbytes: int) -> Buffer:
        """A buffer that waits for its memory, which goes into its receipt."""
        buffer = cls.__new__(cls)
        buffer.nbytes = nbytes
        buffer._id = 0
        buffer._freed = False
        buffer._loans = ()
        receipt: list[str] = []
        buffer._receipt = receipt
        entry = weakref.ref(buffer, _lost.setdefault)
        _live[entry] = receipt, runtime.current.generation
        buffer._entry = entry
        return buffer

    def _fill(self) -> bool:
        """Read the receipt. Tells whether notices are waiting."""
        ptr, block_id, position, noticed = map(int, self._receipt[0].split())
        # Asked for again, since another thread may have reset: with memory in use it can't any more.
        self.device = runtime.logical_devices("memory.allocate")[position]
        self._generation = runtime.current.generation
        self.ptr, self._id = ptr, block_id
        if not block_id:
            self._forget()
        return noticed != 0

    def _cancel(self) -> None:
        """Give back what the receipt says: the buffer was never anybody's."""
        _give_back(self._receipt)
        self._forget()

    @property
    def freed(self) -> bool:
        """Whether the memory was given back."""
        return self._freed or (self.nbytes != 0 and (self._id == 0 or self._generation != runtime.current.generation))

    def free(self) -> None:
        """Give the memory back. A second call does nothing.

        What other libraries hold by DLPack stays until they let go, and what another thread is copying until that is done.
        Raises ValueError where somebody has freed it by its address (``gpuconf_free``); the books don't change then.
        """
        if self._ending():
            self._freed = True
            return
        try:
            with _lending:
                if self._freed:
                    return  # of two threads that free a buffer one gets here first
                refuse_in_child()
                self._freed = True
                if self._loans:
                    return
            self._give_back()
        except errors.InvalidArgumentError:
            raise
        except BaseException:
            self._freed = False  # cut short by a signal handler: another call finishes it, or __del__
            raise

    def _lend(self, loan: int) -> None:
        with _lending:
            self._check_live()
            self._loans = {*self._loans, loan}

    def _end_loan(self, loan: int) -> None:
        with _lending:
            if loan not in self._loans:
                return
            self._loans = {*self._loans} - {loan}
            if self._loans or not self._freed:
                return
        if loaded():
            self._give_back()

    def _give_back(self) -> None:
        # The books come last: if a signal handler cuts this short, __del__ or sweep() finds what is left to do.
        try:
            if self._id and self._generation == runtime.current.generation:
                core.pybind_FreeBlock(self.ptr, self._id)
        except errors.InvalidArgumentError:
            self._forget()
            raise
        self._forget()

    def _forget(self) -> None:
        self._id = 0
        if self._entry is not None:
            _live.pop(self._entry, None)
            _lost.pop(self._entry, None)  # of a cycle, whose weak references go before its __del__ runs
            self._entry = None

    def copy_from_host(self, data: Any, offset: int = 0) -> None:
        """Copy an object's bytes (anything with the buffer protocol, contiguous) into the memory at ``offset``.

        Raises ValueError where they don't fit or the buffer was freed, and TypeError for an object without bytes.
        """
        self._check_live()
        from .._core import hostmemory

        with hostmemory.readable(data) as (address, nbytes):
            start = self._offset(offset, nbytes)
            if nbytes:
                self._copy(core.pybind_CopyFromHost, start, address, nbytes)

    if TYPE_CHECKING:

        @overload
        def copy_to_host(self, out: None = None, offset: int = 0) -> bytearray: ...
        @overload
        def copy_to_host(self, out: T, offset: int = 0) -> T: ...

    def copy_to_host(self, out: Any = None, offset: int = 0) -> Any:
        """Copy the memory from ``offset`` on to the host.

        Without ``out`` returns the rest of the buffer as ``bytearray``; with it fills that writable object and returns it.
        Raises as :meth:`copy_from_host` does.
        """
        self._check_live()
        from .._core import hostmemory

        if out is None:
            start = self._offset(offset, 0)
            out = bytearray(self.nbytes - start)
        with hostmemory.writable(out) as (address, nbytes):
            start = self._offset(offset, nbytes)
            if nbytes:
                self._copy(core.pybind_CopyToHost, start, address, nbytes)
        return out

    def _copy(self, copy: Callable[[int, int, int, int, int], bool], start: int, address: int, nbytes: int) -> None:
        """Copy while the memory is lent: a free by another thread waits for the end. Only one by address (gpuconf_free) doesn't."""
        from .._core.interchange import Loan

        loan = Loan(self)
        try:
            copy(self.ptr, self._id, start, address, nbytes)
        finally:
            del loan

    def view(self) -> memoryview:
        """The memory itself as a writable memoryview of bytes. On simulated GPUs only, whose memory is host memory.

        A view that outlives its buffer reads something harmless, but no longer this memory.
        """
        refuse_in_child()
        from .._core import hostmemory

        with runtime.unchanged():  # a reset comes before, and there is no view, or after, and sees it
            self._check_live()
            if not runtime.host_visible():
                raise errors.UnimplementedError(
                    "view() needs a simulated GPU: a real one's memory can't be read at its address. Use copy_to_host()"
                )
            array = hostmemory.array_at(self.ptr, self.nbytes)
            key = id(array)
            views[key] = weakref.ref(array, functools.partial(views.pop, key))
        return memoryview(array).cast("B")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory for CuPy, Numba and others. Missing on simulated GPUs, whose memory is host memory."""
        refuse_in_child()
        from .._core import interchange

        return interchange.cuda_array_interface(self)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any:
        """The memory for ``from_dlpack`` of NumPy, PyTorch, CuPy and others: a capsule that keeps it.

        Raises BufferError for another device or a copy, ValueError for a stream that can't be or a buffer that was freed.
        """
        refuse_in_child()
        from .._core import interchange

        return interchange.capsule(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Where the memory is, in DLPack's numbers: ``(2, ordinal)`` for CUDA, ``(13, ordinal)`` for CUDA's unified memory.

        A simulated GPU's memory is the CPU's: ``(1, 0)``.
        """
        refuse_in_child()
        from .._core import interchange

        return interchange.device(self)

    def _check_live(self) -> None:
        refuse_in_child()
        if self.freed:
            raise errors.InvalidArgumentError(f"this buffer of {self.nbytes} bytes on {self.device.name} was freed")

    def _offset(self, offset: int, nbytes: int) -> int:
        try:
            start = operator.index(offset)
        except TypeError:
            text = f"offset must be an int, but got {type(offset).__name__}: {texts.shown(offset)}"
            raise errors.InvalidTypeError(text) from None
        if start < 0 or start + nbytes > self.nbytes:
            raise errors.InvalidArgumentError(
                f"{nbytes} bytes at offset {sizes.shown(start)} do not fit in a buffer of {self.nbytes} bytes"
            )
        return start

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._ending() and loaded():  # else this is a forked child, and the memory is its parent's
            self.free()

    def __repr__(self) -> str:
        where = f"at 0x{self.ptr:x}" if not self.freed else "freed, but lent" if self._loans else "freed"
        return f"<gpuconf.Buffer of {self.nbytes} bytes on {self.device.name}, {where}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        text = "a Buffer owns device memory and can't be copied or pickled: return or send its bytes, buffer.copy_to_host()"
        raise errors.InvalidTypeError(text)

    def __del__(self) -> None:
        # In a forked child there is nothing left to give back to.
        if self._ending() or getattr(self, "_id", 0) == 0 or not loaded() or self._generation != runtime.current.generation:
            return
        import warnings

        text = None if self._freed else f"{self!r} was dropped without free()"
        try:
            self._give_back()  # first: a warning may be an error
        except errors.InvalidArgumentError:
            return  # somebody has freed it by its address, or a signal handler has cut a free short
        if text:
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)


def _give_back(receipt: list[str]) -> bool:
    if not receipt:
        return False
    ptr, block_id = map(int, receipt[0].split()[:2])
    try:
        core.pybind_FreeBlock(ptr, block_id)
    except errors.InvalidArgumentError:  # it was given back: only the books were not
        return False
    return True


def sweep() -> bool:
    """Give back what no buffer holds any more, because a signal handler's exception has cut its buffer's end short.

    Tells whether there was any.
    """
    found = False
    with runtime.unchanged():
        for entry in list(_lost):
            receipt, generation = _live.get(entry, ([], 0))
            if generation == runtime.current.generation and _give_back(receipt):
                found = True
            _live.pop(entry, None)
            _lost.pop(entry, None)
    return found


def _held() -> list[Buffer]:
    buffers = (entry() for entry in list(_live))
    return [b for b in buffers if b is not None and b._id and b._generation == runtime.current.generation]


def live_buffers() -> list[Buffer]:
    """List the buffers that were not freed, the oldest first: those too that a notebook's ``Out`` or a kept traceback holds.

    >>> kept = allocate(1000)
    >>> for buffer in live_buffers():
    ...     buffer.free()
    >>> live_buffers()
    []
    """
    refuse_in_child()
    if not loaded():
        return []
    sweep()
    return [buffer for buffer in _held() if not buffer._freed]


def live() -> tuple[list[str], str]:
    """What of this module is still in use, each as a line, and how to free it; for the refusal of ``reset``."""
    if loaded():
        sweep()
    held = _held()
    lines = [repr(b) for b in held]
    if views:
        lines.append(f"{len(views)} view{'s' if len(views) > 1 else ''} of device memory")
    free = any(not b._freed for b in held)
    return lines, "free them: for b in gpuconf.memory.live_buffers(): b.free()" if free else ""


def _size(nbytes: int | str) -> int:
    size = sizes.size("nbytes", nbytes)
    if not 0 <= size < 2**63:
        raise errors.InvalidArgumentError(f"nbytes must be at least 0 and less than 2**63, but got {sizes.shown(size)}")
    return size


def _deadline(wait: float) -> float | None:
    try:
        seconds = float(wait) if not isinstance(wait, (str, bytes, bytearray)) else None
    except OverflowError:  # an int beyond all floats
        seconds = math.inf if wait > 0 else -math.inf
    except (TypeError, ValueError):
        seconds = None
    if seconds is None:
        raise errors.InvalidTypeError(f"wait must be a number of seconds, but got {type(wait).__name__}: {texts.shown(wait)}")
    if not seconds >= 0:
        raise errors.InvalidArgumentError(f"wait must be at least 0 seconds, but got {seconds}")
    return time.monotonic() + seconds if seconds else None


def allocate(nbytes: int | str, device: Device | None = None, wait: float = 0.0) -> Buffer:
    """Allocate memory on a logical GPU, aligned to 256 bytes. Initializes the runtime.

    ``nbytes`` is a number of bytes, or text such as ``"1GiB"`` or ``"500MB"``, a fraction rounded down to whole bytes.
    ``device`` is a string as for ``get_memory_info``, a LogicalDevice, or a PhysicalDevice or VisibleDevice that is exactly one
    logical GPU. Without it memory comes from the GPU that the thread's scope names (``with gpuconf.device("GPU:1"):``), else
    from GPU:0. With ``wait``, an allocation that doesn't fit waits up to that many
    seconds for another thread to free memory; Ctrl-C ends the wait.

    Raises MemoryError (``gpuconf.errors.ResourceExhaustedError``) with the numbers and the cause if there is not enough memory,
    ValueError for an unknown device or an invalid size, and TypeError for a size that is neither an int nor text.

    >>> buffer = allocate("1.5KiB")
    >>> buffer.device.name, buffer.nbytes
    ('/device:GPU:0', 1536)
    >>> buffer.free()
    """
    size = _size(nbytes)
    deadline = _deadline(wait)
    number = gpu_number(device, "memory.allocate")
    buffer = Buffer._empty(size)
    try:
        _take(buffer._receipt, number, size, deadline)
        noticed = buffer._fill()
    except BaseException as error:
        buffer._cancel()
        if number < 0 and isinstance(error, errors.InvalidArgumentError):
            check_scope()
        raise
    if noticed:
        from .._core.notices import publish

        publish()
    return buffer


def _take(receipt: list[str], number: int, size: int, deadline: float | None) -> None:
    """Allocate, and wait for a free as long as there is time."""
    seen = core.pybind_Frees(number) if deadline is not None else 0
    while True:
        try:
            return keep(receipt, core.pybind_Allocate, number, size)
        except errors.ResourceExhaustedError:
            if sweep():
                continue
            if deadline is None or time.monotonic() >= deadline or size > core.pybind_LimitBytes(number):
                raise  # what is larger than the whole limit never comes
        remaining_ms = (deadline - time.monotonic()) * 1000
        seen = core.pybind_WaitForFree(number, seen, int(min(_WAIT_MS, max(1.0, remaining_ms))))
