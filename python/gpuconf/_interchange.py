"""How other libraries see a buffer's memory without a copy: DLPack and the CUDA array interface, as bytes in one dimension."""

from __future__ import annotations

from . import _runtime, errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._buffer import Buffer

_CPU, _CUDA = 1, 2  # DLPack's kinds of devices
_NO_SYNCHRONISATION = -1


class Loan:
    """What a DLPack capsule or a copy keeps alive: the buffer, whose memory stays until the last loan has ended."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        buffer._lend(id(self))

    def __del__(self) -> None:
        self.buffer._end_loan(id(self))


def cuda_array_interface(buffer: Buffer) -> dict[str, Any]:
    """Version 3 of the interface. Simulated memory is host memory, so there it is not offered at all."""
    if _runtime.host_visible():
        raise AttributeError("a buffer on a simulated GPU has no __cuda_array_interface__: its memory is host memory. Use view()")
    buffer._check_live()
    return {
        "shape": (buffer.nbytes,),
        "typestr": "|u1",
        "data": (buffer.ptr if buffer.nbytes else 0, False),
        "strides": None,
        "stream": None,  # what gpuconf itself writes is there when the call returns
        "version": 3,
    }


def device(buffer: Buffer) -> tuple[int, int]:
    """DLPack's kind of device and its number: a simulated GPU's memory is the CPU's."""
    if _runtime.host_visible():
        return _CPU, 0
    return _CUDA, _runtime.ordinals()[int(buffer.device.name.rpartition(":")[2])]


def capsule(buffer: Buffer, stream: Any, max_version: Any, dl_device: Any, copy: Any) -> Any:
    """A DLPack capsule of the bytes, versioned where the consumer knows versions."""
    from . import _abi

    buffer._check_live()
    where = device(buffer)
    if dl_device is not None and tuple(dl_device) != where:
        raise BufferError(f"this buffer is on DLPack device {where} and can't be moved to {tuple(dl_device)}: copy it")
    if copy:
        raise BufferError("a buffer is lent without a copy only")
    if where[0] == _CPU:
        if stream is not None:
            raise errors.InvalidArgumentError("stream must be None for a buffer on a simulated GPU, whose memory is host memory")
    elif stream is not None and stream != _NO_SYNCHRONISATION and buffer.nbytes:
        if not isinstance(stream, int) or stream == 0 or stream < _NO_SYNCHRONISATION:
            raise errors.InvalidArgumentError(
                f"stream must be None, -1, or a CUDA stream's number other than 0, but got {stream!r}"
            )
        _abi.record_stream(buffer.ptr, stream)
    versioned = max_version is not None and tuple(max_version) >= (1, 0)
    return _abi.dlpack()(Loan(buffer), buffer.ptr, buffer.nbytes, *where, versioned)
