# SPDX-License-Identifier: Apache-2.0
"""Memory of other libraries, and ours for them: checks of host addresses that a program supplies, DLPack, and the CUDA
array interface.
"""

from __future__ import annotations

import sys
from _weakref import ReferenceType

from .. import errors
from .._typing import Any
from . import runtime, texts
from .native import core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..memory._buffer import Buffer
    from ..tensors.tensor import Tensor


# Checks of host addresses that a program supplies: through ``from_address`` of ``ctypes``, or ``__array_interface__``.
#
# All other memory that reaches gpuconf belongs to an object that allocated it. A supplied address may be wrong, and
# reading a wrong one crashes the process. So the address is first looked up in the process's memory map.

_MAPS = "/proc/self/maps"

# The live arrays behind ``Buffer.view``, by id, because ctypes arrays are not hashable.
views: dict[int, ReferenceType[Any]] = {}


def check(exporter: Any, address: int, nbytes: int, write: bool = False) -> None:
    """Raise InvalidArgumentError if an object's bytes are at an address that is not readable, or not writable."""
    owner = owner_of(exporter)
    if nbytes and made_up(owner) and not _ours(owner):
        _look_up(type(owner).__name__, address, nbytes, write)


def owner_of(exporter: Any) -> Any:
    """Return the object behind a view, or a view of a view; None for memory that NumPy allocated."""
    numpy = sys.modules.get("numpy")
    while exporter is not None:
        if isinstance(exporter, memoryview):
            exporter = exporter.obj
        elif numpy is not None and isinstance(exporter, numpy.ndarray):
            exporter = exporter.base
            if isinstance(exporter, tuple):  # of an object with __array_struct__: that, and the capsule
                exporter = exporter[0]
        else:
            break
    return exporter


def made_up(owner: Any) -> bool:
    """Report whether the program supplied the object's address."""
    if owner is None:
        return False
    # A ctypes type is recognized by its metaclass, without importing ctypes.
    return (
        type(type(owner)).__module__ == "_ctypes"
        or hasattr(owner, "__array_interface__")
        or hasattr(owner, "__array_struct__")
    )


def _ours(owner: Any) -> bool:
    """Report whether it is the array behind a ``Buffer.view``.

    Such memory stays mapped, in too many mappings for a quick lookup.
    """
    return id(owner) in views


def _look_up(kind: str, address: int, nbytes: int, write: bool) -> None:
    try:
        with open(_MAPS, encoding="ascii", errors="replace") as maps:
            lines = maps.readlines()
    except OSError:  # without /proc the address cannot be checked
        return
    at, end = address, address + nbytes
    for line in lines:  # in order of address
        span, _, rest = line.partition(" ")
        first, last = (int(number, 16) for number in span.split("-"))
        if last <= at:
            continue
        if first > at or rest[0] != "r" or (write and rest[1] != "w"):
            break
        at = last
        if at >= end:
            return
    verb = "written" if write else "read"
    raise errors.InvalidArgumentError(
        f"{nbytes} bytes at host address 0x{address:x} cannot be {verb}: the address range is not mapped in this "
        f"process, or its permissions do not allow it. The address was supplied by an object of type {kind}"
    )


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
    flags = _WRITABLE if _knows_versions(max_version) else _OLDER
    return _made(buffer._lend(), buffer.ptr, (buffer.nbytes,), _BYTES, where, flags)


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
