"""What gpuconf raises.

Every class derives from :class:`GpuconfError` and from the built-in that code written for TensorFlow
catches, so ``except ValueError`` and ``except RuntimeError`` keep working. The names are those of ``tf.errors``.

======================== ======================== =======================================================
class                    is also a                raised when
======================== ======================== =======================================================
InvalidArgumentError     ValueError               an argument can't be right: an unknown device, a bad size
InvalidTypeError         TypeError                an argument is of the wrong type
FailedPreconditionError  RuntimeError             the call comes too late or too early
ResourceExhaustedError   MemoryError              out of memory; also called ``OutOfMemoryError``, and torch's where torch is loaded
NotFoundError            LookupError              something that was named is not there
AlreadyExistsError       RuntimeError             something is there already
UnavailableError         RuntimeError             a driver or library is missing, or too old
UnimplementedError       NotImplementedError      the call has no meaning without TensorFlow
UnknownError             RuntimeError             a failure that nobody classified, as TensorFlow's UNKNOWN
InternalError            RuntimeError             gpuconf broke a promise of its own: please report it
ForkedProcessError       RuntimeError             gpuconf was loaded before ``fork()``, and this is the child
======================== ======================== =======================================================

Errors can be pickled and copied, with their attributes and notes, so they arrive whole from the workers of ``concurrent.futures``,
Dask and Ray. An out-of-memory error that is also PyTorch's or CuPy's is a plain one in a process that has not imported the library.
"""

from __future__ import annotations

import sys

__all__ = [
    "AlreadyExistsError",
    "FailedPreconditionError",
    "ForkedProcessError",
    "GpuconfError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidTypeError",
    "NotFoundError",
    "OutOfMemoryError",
    "ResourceExhaustedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
]


class GpuconfError(Exception):
    """The base of all errors of gpuconf. ``code`` is TensorFlow's canonical name of the kind.

    >>> issubclass(InvalidArgumentError, ValueError)
    True
    >>> InvalidArgumentError.code
    'INVALID_ARGUMENT'
    """

    code: str = "UNKNOWN"

    _library = ""  # "torch" or "cupy": the class is that library's out-of-memory class too

    @property
    def message(self) -> str:
        """The text alone, as ``tf.errors.OpError.message``."""
        return str(self.args[0]) if len(self.args) == 1 else str(self)

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickle and copy, and what builds on them: class, arguments, attributes and notes survive.

        tblib, which Dask uses, rebuilds an exception without a ``__reduce__`` of its own by ``cls.__new__(cls)``. CPython refuses
        that for a class whose ``__new__`` is another base's (MemoryError's here). The default ``__reduce__`` calls ``cls(*args)``,
        which fails for a subclass with another ``__init__``. As with any exception, cause and context stay behind.
        """
        cls = type(self)
        parts: tuple[object, ...] = _built_in(cls).__reduce__(self)  # type: ignore[assignment]
        library = vars(cls).get("_library")
        return _rebuild, (ResourceExhaustedError if library else cls, parts[1], library), *parts[2:]


class InvalidArgumentError(GpuconfError, ValueError):
    """An argument can't be right: an unknown device, a bad size, a device string that doesn't parse."""

    code = "INVALID_ARGUMENT"


class InvalidTypeError(GpuconfError, TypeError):
    """An argument is of the wrong type."""

    code = "INVALID_TYPE"


class FailedPreconditionError(GpuconfError, RuntimeError):
    """The call comes too late (the runtime is initialised) or too early, or something is still in use."""

    code = "FAILED_PRECONDITION"


class ResourceExhaustedError(GpuconfError, MemoryError):
    """Out of memory: the limit is reached, the device is full, or the free memory is in too small pieces. The text says which."""

    code = "RESOURCE_EXHAUSTED"


OutOfMemoryError = ResourceExhaustedError


class NotFoundError(GpuconfError, LookupError):
    """Something that was named is not there."""

    code = "NOT_FOUND"


class AlreadyExistsError(GpuconfError, RuntimeError):
    """Something is there already."""

    code = "ALREADY_EXISTS"


class UnavailableError(GpuconfError, RuntimeError):
    """A driver or a library is missing, or too old."""

    code = "UNAVAILABLE"


class UnimplementedError(GpuconfError, NotImplementedError):
    """The call has no meaning without TensorFlow; the text says why."""

    code = "UNIMPLEMENTED"


class UnknownError(GpuconfError, RuntimeError):
    """A failure that TensorFlow reports as UNKNOWN."""

    code = "UNKNOWN"


class InternalError(GpuconfError, RuntimeError):
    """gpuconf broke a promise of its own. Nothing it says afterwards can be trusted, so it says nothing more: please report it."""

    code = "INTERNAL"


class ForkedProcessError(FailedPreconditionError):
    """gpuconf was loaded before ``fork()``, and this is the child: the Go runtime doesn't survive a fork."""


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement


def _built_in(cls: type[BaseException]) -> type[BaseException]:
    """The built-in exception whose memory layout a class has. Its ``__new__`` is the one that is safe."""
    while cls.__flags__ & _HEAP_TYPE:
        cls = cls.__base__  # type: ignore[assignment]
    return cls


def _rebuild(cls: type[BaseException], args: tuple[object, ...], library: str | None = None) -> BaseException:
    """Unpickle an error. One that is a library's out-of-memory class too is a plain one where the library is not loaded."""
    if library == "torch":
        cls = _joined_with_torch()
    elif library == "cupy" and "cupy" in sys.modules:
        from .allocators import cupy

        cls = cupy.OutOfMemoryError
    built_in = _built_in(cls)
    error = built_in.__new__(cls, *args)
    built_in.__init__(error, *args)  # OSError takes its fields here; what a subclass's own does is in its attributes
    return error


_BY_CODE: dict[str, type[GpuconfError]] = {
    cls.code: cls
    for cls in (
        UnknownError,
        InvalidArgumentError,
        InvalidTypeError,
        FailedPreconditionError,
        ResourceExhaustedError,
        NotFoundError,
        AlreadyExistsError,
        UnavailableError,
        UnimplementedError,
        InternalError,
    )
}


def from_code(code: str, message: str) -> GpuconfError:
    """The error for a canonical code, as the Go core names it. Out of memory is an error of torch too, where torch is loaded."""
    cls = _BY_CODE.get(code, UnknownError)
    if cls is ResourceExhaustedError:
        cls = _joined_with_torch()
    return cls(message)


def _joined_with_torch() -> type[ResourceExhaustedError]:
    """ResourceExhaustedError, as a subclass of torch's class too where torch is loaded."""
    theirs = _torch_out_of_memory()
    return ResourceExhaustedError if theirs is None else _also(theirs)


def _torch_out_of_memory() -> type[Exception] | None:
    """The class of torch, if torch is loaded and has one. Looked up in its namespace: nothing of torch runs or is imported."""
    for module in ("torch", "torch.cuda"):  # in torch.cuda before torch 2.5
        found = getattr(sys.modules.get(module), "__dict__", {}).get("OutOfMemoryError")
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    return None


_with_torch: dict[type[Exception], type[ResourceExhaustedError]] = {}


def _also(theirs: type[Exception]) -> type[ResourceExhaustedError]:
    """ResourceExhaustedError as a subclass of another library's class as well."""
    if theirs not in _with_torch:
        members = {"__doc__": ResourceExhaustedError.__doc__, "__module__": __name__, "_library": "torch"}
        try:
            _with_torch[theirs] = type("ResourceExhaustedError", (ResourceExhaustedError, theirs), members)
        except TypeError:  # no class can be both
            _with_torch[theirs] = ResourceExhaustedError
    return _with_torch[theirs]
