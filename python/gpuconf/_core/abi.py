# SPDX-License-Identifier: Apache-2.0
"""The C symbols of ``gpuconf.h``, through ctypes, for passing function addresses to other libraries and for calls like
theirs.

Like the functions of the core, these functions check for a fork themselves.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

from .. import errors
from .._typing import Any
from . import runtime
from .native import library_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes  # at run time on first use: it takes as long as loading the core


@functools.cache
def library() -> ctypes.CDLL:
    """Return the shared object, after the core has loaded it."""
    import ctypes

    runtime.physical_devices()
    opened = ctypes.CDLL(library_path())
    opened.gpuconf_library_malloc.argtypes = (ctypes.c_int, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    opened.gpuconf_library_malloc.restype = ctypes.c_void_p
    opened.gpuconf_free.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    opened.gpuconf_free.restype = None
    opened.gpuconf_record_stream.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    opened.gpuconf_logical_stream.argtypes = (ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))
    opened.gpuconf_region.argtypes = (ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t))
    opened.gpuconf_region.restype = ctypes.c_void_p
    opened.gpuconf_torch_seen.restype = ctypes.c_uint64
    opened.gpuconf_last_error.restype = ctypes.c_char_p
    return opened


def address(name: str) -> int:
    """Return the address of a C function."""
    import ctypes

    found = ctypes.cast(getattr(library(), name), ctypes.c_void_p).value
    assert found
    return found


def region(pointer: int) -> int:
    """Return where the region of a pool with this address begins, or 0 if no pool has it."""
    import ctypes

    return int(library().gpuconf_region(pointer, ctypes.byref(ctypes.c_size_t())) or 0)


def last_error() -> str:
    """Return the error message of this thread's last call, or ""."""
    text = library().gpuconf_last_error()
    return text.decode("utf-8", "replace") if text else ""


def failure() -> errors.GpuconfError:
    """Return the error of this thread's last call. The C API reports only text, so the text determines the class."""
    text = last_error()
    code = "RESOURCE_EXHAUSTED" if " out of memory" in text else "FAILED_PRECONDITION"
    return errors.from_code(code, text)


def _succeed(done: int) -> None:
    if not done:
        raise failure()


_LIBRARIES = {"cupy": 3, "numba": 4}  # pybind/cabi/abi.h


def malloc(name: str, nbytes: int, ordinal: int, stream: int | None) -> int:
    """Allocate device memory that counts for a library, as ``gpuconf_malloc`` does.

    Return its address, 0 on failure.
    """
    return library().gpuconf_library_malloc(_LIBRARIES[name], nbytes, ordinal, stream) or 0


def trim() -> None:
    """Return memory that contains no block to the GPUs."""
    _succeed(library().gpuconf_trim())


def redirect_torch() -> None:
    """Make gpuconf the source of the segments of PyTorch's own caching allocator.

    Raises if this PyTorch cannot be routed.
    """
    _succeed(library().gpuconf_torch_redirect())


def count_torch(on: bool) -> None:
    """Count the allocations of PyTorch's own allocator, or no longer, for `injected`.

    Raises if this PyTorch does not let us.
    """
    _succeed(library().gpuconf_torch_count(int(on)))


def torch_allocations_seen() -> int:
    """Return how often PyTorch has called the function that counts."""
    return int(library().gpuconf_torch_seen())


def record_stream(ptr: int, stream: int) -> None:
    """Mark a live block as used on another stream."""
    _succeed(library().gpuconf_record_stream(ptr, stream))


def logical_stream(number: int) -> int:
    """Return the stream that represents a logical GPU; 0 is the default stream."""
    import ctypes

    stream = ctypes.c_void_p()
    _succeed(library().gpuconf_logical_stream(number, ctypes.byref(stream)))
    return stream.value or 0


@functools.cache
def _python_library() -> ctypes.PyDLL:
    """Return the shared object for functions that must be called with the GIL held: PyDLL keeps it."""
    import ctypes

    return ctypes.PyDLL(library_path())


def begin_stacks() -> None:
    """Prepare to note the Python calls that lead to allocations. Calls inside gpuconf itself are left out."""
    hide = os.path.join(os.path.dirname(os.path.dirname(library_path())), "")
    if not _python_library().gpuconf_python_stacks_begin(os.fsencode(hide)):
        raise errors.UnimplementedError(
            "record(stacks=True) needs functions that this Python lacks; record without stacks"
        )


def end_stacks() -> None:
    """Release what :func:`begin_stacks` and the recording after it hold."""
    _python_library().gpuconf_python_stacks_end()


@functools.cache
def dlpack() -> Callable[..., Any]:
    """Return ``gpuconf_python_dlpack``, which must be called with the GIL held."""
    import ctypes

    function = _python_library().gpuconf_python_dlpack
    int32 = ctypes.c_int32
    function.argtypes = (
        ctypes.py_object,
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_int64),
        int32,
        int32,
        int32,
        int32,
        int32,
        int32,
    )
    function.restype = ctypes.py_object
    return function
