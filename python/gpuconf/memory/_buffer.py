# SPDX-License-Identifier: Apache-2.0
"""Blocks of device memory and their allocation.

The extension module (``pybind/_gpuconf/block.c``) allocates and frees in one step of the interpreter, so an exception
from a signal handler, which can arrive between any two steps, loses no block.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from _weakref import ReferenceType
from collections.abc import Callable
from types import TracebackType

from .. import errors
from .._core import html, runtime, sizes, texts
from .._core.devices import LogicalDevice
from .._core.interchange import views
from .._core.message import publish
from .._core.native import by_hand, core, loaded, refuse_in_child
from .._core.scope import Device, check_scope, gpu_number
from .._core.table import Made
from .._typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar, overload

    from _typeshed import WriteableBuffer

    T = TypeVar("T", bound=WriteableBuffer)

# The length of one wait in Go. Python handles signals between two waits, so Ctrl-C works.
_WAIT_MS = 50


class Buffer(metaclass=Made):
    """A block of device memory, from :func:`allocate` until :meth:`free`.

    A buffer is a context manager that frees the memory on exit. Dropping a buffer without freeing it frees the memory
    and issues a ResourceWarning, as for an open file.

    Other libraries can access the memory as bytes without a copy: through DLPack (``torch.from_dlpack(buffer)``), and
    on real GPUs also through ``__cuda_array_interface__``. A DLPack consumer keeps the memory alive: if the buffer is
    freed meanwhile, the memory returns to the pool when the last consumer releases it. A consumer of the CUDA array
    interface keeps the buffer object alive, but does not protect it from ``free``.
    """

    __slots__ = ("__weakref__", "_block")

    if TYPE_CHECKING:
        _block: Any  # what pybind/_gpuconf/block.c allocates and frees. When the buffer is dropped, so is the block

    # Bound here for `__exit__`: when the last objects are destroyed at exit, the globals of this module may be None.
    # Then it does nothing, because the memory is released with the process.
    _ending = staticmethod(sys.is_finalizing)

    _made_by = "use gpuconf.memory.allocate()"

    @property
    def ptr(self) -> int:
        """The device address."""
        return int(self._block.ptr)

    @property
    def nbytes(self) -> int:
        """The requested size."""
        return int(self._block.nbytes)

    @property
    def device(self) -> LogicalDevice:
        """The logical GPU."""
        device: LogicalDevice = self._block.device
        return device

    @property
    def freed(self) -> bool:
        """Whether the memory was freed."""
        return bool(self._block.freed)

    def free(self) -> None:
        """Free the memory. A second call does nothing.

        Memory that another library holds through DLPack is freed when that library releases it, and memory that another
        thread is copying when the copy is done. Raises ValueError, and changes no accounting, if the memory was already
        freed by its address (``gpuconf_free``).
        """
        self._block.free()

    def _lend(self) -> object:
        """Return a loan for a DLPack capsule or a copy: the memory is not freed before its last loan is dropped."""
        refuse_in_child()
        loan: object = self._block.lend(self)
        if loan is None:
            raise self._freed_error()
        return loan

    def copy_from_host(self, data: Any, offset: int = 0) -> None:
        """Copy the bytes of a contiguous object that supports the buffer protocol into the memory at ``offset``.

        Raises ValueError if the bytes do not fit or the buffer was freed, and TypeError if the object does not support
        the buffer protocol.
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
        """Copy memory to the host, starting at ``offset``.

        Without ``out``, returns the rest of the buffer as a ``bytearray``. With ``out``, fills that writable object and
        returns it. Raises the same errors as :meth:`copy_from_host`.
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
        """Copy while holding a loan, so that a free by another thread takes effect after the copy. gpuconf_free does
        not wait.
        """
        loan = self._lend()
        try:
            copy(self.ptr, self._block.id, start, address, nbytes)
        finally:
            del loan

    def view(self) -> memoryview:
        """Return a writable memoryview of the memory, as bytes. Simulated GPUs only, whose memory is host memory.

        A view may be used safely after the buffer is freed, but it no longer shows this buffer's contents.
        """
        refuse_in_child()
        from .._core import hostmemory

        with runtime.unchanged():  # a reset runs either before, and there is no view, or after, and sees the view
            self._check_live()
            if not runtime.host_visible():
                raise errors.UnimplementedError(
                    "view() needs a simulated GPU: the host cannot address a real GPU's memory. Use copy_to_host()"
                )
            array = hostmemory.array_at(self.ptr, self.nbytes)
            key = id(array)
            views[key] = ReferenceType(array, functools.partial(views.pop, key))
        return memoryview(array).cast("B")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory for CuPy, Numba and other libraries. Missing on simulated GPUs, whose memory is host memory."""
        refuse_in_child()
        from .._core import interchange

        return interchange.cuda_array_interface(self)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """Return a DLPack capsule that keeps the memory alive, for ``from_dlpack`` of NumPy, PyTorch, CuPy and other
        libraries.

        Raises BufferError if ``dl_device`` is another device or ``copy`` is true, and ValueError for an invalid stream
        or a freed buffer.
        """
        refuse_in_child()
        from .._core import interchange

        return interchange.capsule(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device: ``(2, ordinal)`` for CUDA memory, ``(13, ordinal)`` for CUDA unified memory.

        The memory of a simulated GPU is CPU memory: ``(1, 0)``.
        """
        refuse_in_child()
        from .._core import interchange

        return interchange.device(self)

    def _check_live(self) -> None:
        refuse_in_child()
        if self.freed:
            raise self._freed_error()

    def _freed_error(self) -> errors.GpuconfError:
        return errors.InvalidArgumentError(f"this buffer of {self.nbytes} bytes on {self.device.name} was freed")

    def _offset(self, offset: int, nbytes: int) -> int:
        start = sizes.whole("offset", offset)
        if start < 0 or start + nbytes > self.nbytes:
            raise errors.InvalidArgumentError(
                f"{nbytes} bytes at offset {sizes.shown(start)} do not fit in a buffer of {self.nbytes} bytes"
            )
        return start

    def __enter__(self) -> Buffer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ending() and loaded():  # not loaded: a forked child, whose parent owns the memory
            self.free()

    def _where(self) -> str:
        return f"at 0x{self.ptr:x}" if not self.freed else "freed, still in use" if self._block.lent else "freed"

    def __repr__(self) -> str:
        return f"<gpuconf.Buffer of {self.nbytes} bytes on {self.device.name}, {self._where()}>"

    def _repr_html_(self) -> str:
        return html.shown(
            html.line(
                html.bold("Buffer"), "of", html.size(self.nbytes), "on", html.code(self.device.name), self._where()
            )
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        text = (
            "a Buffer owns device memory and cannot be copied or pickled: send its bytes (buffer.copy_to_host()) "
            "instead"
        )
        raise errors.InvalidTypeError(text)


def _held() -> list[Buffer]:
    return by_hand().held_buffers() if loaded() else []


def live_buffers() -> list[Buffer]:
    """List the buffers that were not freed, oldest first, including those held by a notebook's ``Out`` or a stored
    traceback.

    >>> kept = allocate(1000)
    >>> for buffer in live_buffers():
    ...     buffer.free()
    >>> live_buffers()
    []
    """
    refuse_in_child()
    return [buffer for buffer in _held() if not buffer.freed]


def live() -> tuple[list[str], str]:
    """Describe the buffers and views in use, one line each, and how to free them; for the error that ``reset``
    raises.
    """
    held = _held()
    lines = [repr(b) for b in held]
    if views:
        lines.append(f"{len(views)} view{'s' if len(views) > 1 else ''} of device memory")
    free = any(not b.freed for b in held)
    return lines, "free them: for b in gpuconf.memory.live_buffers(): b.free()" if free else ""


def _size(nbytes: int | str) -> int:
    size = sizes.size("nbytes", nbytes)
    if not 0 <= size < 2**63:
        raise errors.InvalidArgumentError(f"nbytes must be at least 0 and less than 2**63, but got {sizes.shown(size)}")
    return size


def _deadline(wait: float) -> float | None:
    try:
        seconds = float(wait) if not isinstance(wait, (str, bytes, bytearray, bool)) else None
    except OverflowError:  # an int too large for a float
        seconds = math.inf if wait > 0 else -math.inf
    except (TypeError, ValueError):
        seconds = None
    if seconds is None:
        raise errors.InvalidTypeError(f"wait must be a number of seconds, but got {texts.given(wait)}")
    if not seconds >= 0:
        raise errors.InvalidArgumentError(f"wait must be at least 0 seconds, but got {seconds}")
    return time.monotonic() + seconds if seconds else None


def allocate(nbytes: int | str, device: Device | None = None, wait: float = 0.0) -> Buffer:
    """Allocate memory on a logical GPU, aligned to 256 bytes. Initializes the runtime.

    ``nbytes`` is a number of bytes, or text such as ``"1GiB"`` or ``"500MB"``; fractions are rounded down to whole
    bytes. ``device`` is a string as for ``get_memory_info``, a LogicalDevice, or a PhysicalDevice or VisibleDevice that
    is exactly one logical GPU. By default it is the GPU of the thread's device scope (``with
    gpuconf.device("GPU:1"):``), or GPU:0 outside a scope. If the allocation does not fit, ``wait`` is the number of
    seconds to wait for another thread to free memory; Ctrl-C interrupts the wait.

    Raises MemoryError (``gpuconf.errors.ResourceExhaustedError``) with the sizes and the cause if there is not enough
    memory, ValueError for an unknown device or an invalid size, and TypeError for a size that is neither an int nor
    text.

    >>> buffer = allocate("1.5KiB")
    >>> buffer.device.name, buffer.nbytes
    ('/device:GPU:0', 1536)
    >>> buffer.free()
    """
    buffer = _allocate_quickly(nbytes, device, wait)
    return buffer if buffer is not None else _allocate(nbytes, device, wait)


def _not_loaded(*_: Any) -> Buffer | None:
    return None


# A function of the extension module, from the first allocation on. It returns None where _allocate must check the
# arguments.
_allocate_quickly: Callable[[Any, Any, Any], Buffer | None] = _not_loaded


def _allocate(nbytes: int | str, device: Device | None, wait: float) -> Buffer:
    size = _size(nbytes)
    deadline = _deadline(wait)
    module = _connected()
    # Or a reset could clear the core, but not yet the names here, and what is remembered would be gone.
    with runtime.unchanged():
        number = gpu_number(device, "memory.allocate")
        module.remember(device, number)
    try:
        return _take(module.allocate, number, size, deadline)
    except errors.InvalidArgumentError:
        if number < 0:
            check_scope()
        raise


def _connected() -> Any:
    """Return the extension module, connected with this one. A second time changes nothing."""
    global _allocate_quickly
    module = by_hand()
    module.connect_block(Buffer, _gpus, publish)
    _allocate_quickly = module.allocate_quickly
    return module


def _gpus() -> list[LogicalDevice]:
    """Return the logical GPUs, by number."""
    runtime.logical_devices("memory.allocate")
    return [runtime.logical_gpu(number) for number in range(len(runtime.ordinals()))]


def _take(allocate: Callable[[int, int], Buffer], number: int, size: int, deadline: float | None) -> Buffer:
    """Allocate, waiting for other threads to free memory until the deadline."""
    seen = core.pybind_Frees(number) if deadline is not None else 0
    while True:
        try:
            return allocate(number, size)
        except errors.ResourceExhaustedError:
            if deadline is None or time.monotonic() >= deadline or size > core.pybind_LimitBytes(number):
                raise  # waiting does not help a request larger than the limit
        remaining_ms = (deadline - time.monotonic()) * 1000
        seen = core.pybind_WaitForFree(number, seen, int(min(_WAIT_MS, max(1.0, remaining_ms))))
