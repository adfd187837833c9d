# SPDX-License-Identifier: Apache-2.0
"""Zero-copy access by other libraries, through DLPack and the CUDA array interface.

A buffer is a one-dimensional byte array.
"""

from __future__ import annotations

from .. import errors
from .._typing import Any
from . import runtime, texts
from .native import core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..memory._buffer import Buffer
    from ..tensors.tensor import Tensor

_CPU, _CUDA, _CUDA_MANAGED = 1, 2, 13  # DLPack device types
_NO_SYNCHRONISATION = -1
_OLDER, _WRITABLE, _READ_ONLY = -1, 0, 1  # the flags of a capsule
_BYTES = (1, 8)  # unsigned integers of 8 bits
_TYPES = {"float32": (2, 32), "float64": (2, 64), "int32": (0, 32), "bool": (6, 8)}


def cuda_array_interface(buffer: Buffer) -> dict[str, Any]:
    """Return version 3 of the interface. Not available on simulated GPUs, whose memory is host memory."""
    if runtime.host_visible():
        raise AttributeError(
            "a buffer on a simulated GPU has no __cuda_array_interface__: its memory is host memory. Use view()"
        )
    buffer._check_live()
    return {
        "shape": (buffer.nbytes,),
        "typestr": "|u1",
        "data": (buffer.ptr if buffer.nbytes else 0, False),
        "strides": None,
        "stream": None,  # gpuconf's own writes are complete when its calls return
        "version": 3,
    }


def device(buffer: Buffer) -> tuple[int, int]:
    """Return the DLPack device type and number. The memory of a simulated GPU is CPU memory."""
    if runtime.host_visible():
        return _CPU, 0
    return gpu_of(buffer.device.name)


def gpu_of(name: str) -> tuple[int, int]:
    """Return the DLPack device type, CUDA or CUDA managed memory, and the CUDA ordinal of a logical GPU."""
    number = int(name.rpartition(":")[2])
    return _CUDA_MANAGED if core.pybind_IsUnified(number) else _CUDA, runtime.ordinals()[number]


def capsule(buffer: Buffer, stream: Any, max_version: Any, dl_device: Any, copy: Any) -> Any:
    """Return a DLPack capsule of the bytes, versioned if the consumer supports versions."""
    buffer._check_live()
    where = _place("buffer", device(buffer), dl_device, copy)
    if where[0] == _CPU:
        if stream is not None:
            raise errors.InvalidArgumentError(
                "stream must be None for a buffer on a simulated GPU, whose memory is host memory"
            )
    else:
        _keep_until_used(buffer.ptr, buffer.nbytes, stream)
    return _made(
        buffer._lend(),
        buffer.ptr,
        (buffer.nbytes,),
        _BYTES,
        where,
        _WRITABLE if _knows_versions(max_version) else _OLDER,
    )


def tensor_capsule(tensor: Tensor, stream: Any, max_version: Any, dl_device: Any, copy: Any) -> Any:
    """Return a DLPack capsule of a tensor in a real GPU's memory, marked read-only if the consumer supports
    versions.
    """
    info = tensor._about()
    where = _place("tensor", gpu_of(info["backing_device"]), dl_device, copy)
    _keep_until_used(info["address"], info["address"], stream)
    flags = _READ_ONLY if _knows_versions(max_version) else _OLDER
    return _made(tensor, info["address"], tensor.shape, _TYPES[info["dtype"]], where, flags)


def _place(what: str, where: tuple[int, int], dl_device: Any, copy: Any) -> tuple[int, int]:
    """Return the device of the capsule. A consumer may request managed memory as CUDA memory of its GPU."""
    wanted = where if dl_device is None else tuple(dl_device)
    if wanted != where and (where[0] != _CUDA_MANAGED or wanted != (_CUDA, where[1])):
        raise BufferError(f"this {what} is on DLPack device {where} and cannot be moved to {wanted}: copy it")
    if copy:
        raise BufferError(f"a {what} can only be exported without a copy: pass copy=False or None")
    return wanted


def _keep_until_used(ptr: int, nbytes: int, stream: Any) -> None:
    """Keep the memory from being reused before the consumer's stream is done. gpuconf's own writes are already
    complete.
    """
    from . import abi

    if stream is None or stream == _NO_SYNCHRONISATION or not nbytes:
        return
    if not isinstance(stream, int) or stream == 0 or stream < _NO_SYNCHRONISATION:
        text = f"stream must be None, -1, or a CUDA stream's number other than 0, but got {texts.shown(stream)}"
        raise errors.InvalidArgumentError(text)
    abi.record_stream(ptr, stream)


def _knows_versions(max_version: Any) -> bool:
    return max_version is not None and tuple(max_version) >= (1, 0)


def _made(
    owner: Any, ptr: int, shape: tuple[int, ...], dtype: tuple[int, int], where: tuple[int, int], flags: int
) -> Any:
    from ctypes import c_int64

    from . import abi

    return abi.dlpack()(owner, ptr, (c_int64 * len(shape))(*shape), len(shape), *dtype, *where, flags)
