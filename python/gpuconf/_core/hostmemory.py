# SPDX-License-Identifier: Apache-2.0
"""Access to host memory by address, for copies and views."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from .. import errors
from .._typing import Any
from . import interchange


class _PyBuffer(ctypes.Structure):
    """CPython's Py_buffer, part of the stable ABI since 3.11 and unchanged since 3.3."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_SIMPLE = 0  # PyBUF_SIMPLE: contiguous bytes
_WRITABLE = 1  # PyBUF_WRITABLE

# Looked up with [], which creates a separate function object: the attribute is shared with all users of ctypes in the
# process.
_get_buffer = ctypes.pythonapi["PyObject_GetBuffer"]
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
_get_buffer.restype = ctypes.c_int
_release_buffer = ctypes.pythonapi["PyBuffer_Release"]
_release_buffer.argtypes = (ctypes.POINTER(_PyBuffer),)
_release_buffer.restype = None


@contextmanager
def _exported(data: Any, flags: int) -> Iterator[tuple[int, int]]:
    buffer = _PyBuffer()
    try:
        _get_buffer(data, ctypes.byref(buffer), flags)
    except TypeError as error:
        raise errors.InvalidTypeError(f"{type(data).__name__} has no bytes to copy: {error}") from None
    except (BufferError, ValueError) as error:
        raise errors.InvalidArgumentError(f"cannot access the bytes of {type(data).__name__}: {error}") from None
    try:
        interchange.check(data, buffer.buf or 0, buffer.len, write=flags == _WRITABLE)
        yield buffer.buf or 0, buffer.len
    finally:
        _release_buffer(ctypes.byref(buffer))


def readable(data: Any) -> Any:
    """Export an object's bytes for reading: a context manager that returns (address, size)."""
    return _exported(data, _SIMPLE)


def writable(data: Any) -> Any:
    """Export an object's bytes for writing: a context manager that returns (address, size)."""
    return _exported(data, _WRITABLE)


def array_at(address: int, nbytes: int) -> Any:
    """Return the bytes at an address as a ctypes array. The caller ensures that the address is valid."""
    return (ctypes.c_ubyte * nbytes).from_address(address) if nbytes else (ctypes.c_ubyte * 0)()
