# SPDX-License-Identifier: Apache-2.0
"""A buffer received from another process."""

from __future__ import annotations

import contextlib
from ctypes import c_char, memmove
from types import TracebackType

from .. import errors
from .._core import hostmemory
from .._core.devices import LogicalDevice
from .._core.fork import module_lock
from .._core.native import loaded, refuse_in_child
from .._typing import Any
from ._buffer import Buffer, allocate

_lock = module_lock(globals(), "_lock")  # two threads may make the first use of a buffer at the same time


class ArrivedBuffer(Buffer):
    """A Buffer whose bytes stay in host memory until a device needs them.

    The first use of its address or device allocates memory on the GPU of the thread's device scope, or on GPU:0 outside
    a scope. It raises what ``allocate`` raises; a later use tries again. ``nbytes`` and ``copy_to_host`` need no
    device, so a process without a GPU can read what it received, and receiving a buffer cannot run out of device
    memory. The program did not allocate the buffer, so dropping it frees the memory without a ResourceWarning.
    """

    __slots__ = ("_held", "_size")

    # The bytes, later the buffer on the device; None if freed before it reached a device.
    _held: bytearray | Buffer | None

    def __init__(self, nbytes: int, data: bytearray | None) -> None:
        self._size = nbytes
        self._held = data

    def _placed(self) -> Buffer:
        """Return the buffer on the device. The first call allocates it."""
        refuse_in_child()
        with _lock:
            if isinstance(self._held, Buffer):
                return self._held
            data = self._bytes()
            buffer = allocate(self.nbytes)
            try:
                buffer.copy_from_host(data)
            except BaseException:
                buffer.free()
                raise
            self._held = buffer
            return buffer

    def _bytes(self) -> bytearray:
        if not isinstance(self._held, bytearray):
            raise errors.InvalidArgumentError(f"this buffer of {self.nbytes} bytes was freed")
        return self._held

    @property
    def nbytes(self) -> int:
        """The size that it had where it was allocated."""
        return self._size

    @property
    def ptr(self) -> int:
        """The device address."""
        return self._placed().ptr

    @property
    def device(self) -> LogicalDevice:
        """The logical device that holds the memory."""
        return self._placed().device

    @property
    def freed(self) -> bool:
        """Whether the memory was freed."""
        return self._held.freed if isinstance(self._held, Buffer) else self._held is None

    def free(self) -> None:
        """Free the memory. A second call does nothing."""
        if self._ending():
            return
        with _lock:
            if isinstance(self._held, Buffer):
                self._held.free()
            else:
                self._held = None

    def copy_from_host(self, data: Any, offset: int = 0) -> None:
        """Copy an object's bytes into the memory at ``offset``, as :meth:`Buffer.copy_from_host` does."""
        self._placed().copy_from_host(data, offset)

    def copy_to_host(self, out: Any = None, offset: int = 0) -> Any:
        """Copy the memory from ``offset`` on to the host, as :meth:`Buffer.copy_to_host` does. Needs no device."""
        held = self._held
        if isinstance(held, Buffer):
            return held.copy_to_host(out, offset)
        data = self._bytes()
        if out is None:
            return data[self._offset(offset, 0) :]
        with hostmemory.writable(out) as (address, nbytes):
            start = self._offset(offset, nbytes)
            if nbytes:
                memmove(address, (c_char * nbytes).from_buffer(data, start), nbytes)
        return out

    def view(self) -> memoryview:
        """The memory itself, as :meth:`Buffer.view` returns it."""
        return self._placed().view()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self._placed().__cuda_array_interface__

    def __dlpack__(self, **wishes: Any) -> Any:
        return self._placed().__dlpack__(**wishes)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._placed().__dlpack_device__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ending() and (loaded() or not isinstance(self._held, Buffer)):
            self.free()

    def __repr__(self) -> str:
        if isinstance(self._held, Buffer):
            return repr(self._held)
        return f"<gpuconf.Buffer of {self.nbytes} bytes, {'freed' if self._held is None else 'in host memory'}>"

    def __del__(self) -> None:
        if self._ending():
            return
        held = getattr(self, "_held", None)
        if isinstance(held, Buffer) and loaded():
            with contextlib.suppress(errors.InvalidArgumentError):  # already freed by address (gpuconf_free)
                held.free()
