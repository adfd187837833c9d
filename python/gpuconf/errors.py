"""What gpuconf raises.

Every class derives from :class:`GpuconfError` and from the built-in that code written for TensorFlow
catches, so ``except ValueError`` and ``except RuntimeError`` keep working. The names are those of ``tf.errors``, and
the classes that TensorFlow has too derive from :class:`OpError`.

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
MissingKeyError          KeyError                 a NotFoundError: a graph has no element of that name
NestingError             AssertionError           a FailedPreconditionError: ``with`` blocks are left out of order
CancelledError           RuntimeError             the session was closed
======================== ======================== =======================================================

OperatorNotAllowedInGraphError is an InvalidTypeError: a tensor of a graph was used as a bool, or iterated over.

The other classes of ``tf.errors`` are RuntimeErrors that gpuconf never raises. They are here for the ``except`` clauses of programs
written for TensorFlow: AbortedError, DataLossError, DeadlineExceededError, OutOfRangeError, PermissionDeniedError and
UnauthenticatedError. ``OK``, ``CANCELLED``, ... ``UNAUTHENTICATED`` are TensorFlow's numeric codes.

Errors can be pickled and copied, with their attributes and notes, so they arrive whole from the workers of ``concurrent.futures``,
Dask and Ray. An out-of-memory error that is also PyTorch's or CuPy's is a plain one in a process that has not imported the library.
"""

from __future__ import annotations

import sys

from ._typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import overload

__all__ = [
    "ABORTED",
    "ALREADY_EXISTS",
    "CANCELLED",
    "DATA_LOSS",
    "DEADLINE_EXCEEDED",
    "FAILED_PRECONDITION",
    "INTERNAL",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "OK",
    "OUT_OF_RANGE",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED",
    "UNAVAILABLE",
    "UNIMPLEMENTED",
    "UNKNOWN",
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "ForkedProcessError",
    "GpuconfError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidTypeError",
    "MissingKeyError",
    "NestingError",
    "NotFoundError",
    "OpError",
    "OperatorNotAllowedInGraphError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
    "error_code_from_exception_type",
    "exception_type_from_error_code",
]

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16


class GpuconfError(Exception):
    """The base of all errors of gpuconf. ``code`` is TensorFlow's canonical name of the kind.

    >>> issubclass(InvalidArgumentError, ValueError)
    True
    >>> InvalidArgumentError.code
    'INVALID_ARGUMENT'
    """

    code: str = "UNKNOWN"

    _library = ""  # such as "torch": the class is that library's out-of-memory class too

    @property
    def message(self) -> str:
        """The text alone, as ``tf.errors.OpError.message``."""
        return str(self.args[0]) if len(self.args) == 1 else str(self)  # a KeyError's str is the repr of its text

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickle and copy, and what builds on them: class, arguments, attributes and notes survive.

        tblib, which Dask uses, rebuilds an exception without a ``__reduce__`` of its own by ``cls.__new__(cls)``. CPython refuses
        that for a class whose ``__new__`` is another base's (MemoryError's here). The default ``__reduce__`` calls ``cls(*args)``,
        which fails for a subclass with another ``__init__``. As with any exception, cause and context stay behind.
        """
        cls = type(self)
        parts: tuple[object, ...] = _built_in(cls).__reduce__(self)  # type: ignore[assignment]
        library = vars(cls).get("_library")
        home = (library, cls.__module__, cls.__qualname__) if library else None
        return _rebuild, (ResourceExhaustedError if library else cls, parts[1], home), *parts[2:]


class OpError(GpuconfError):
    """The base of the errors that TensorFlow has too. ``error_code`` is TensorFlow's number of the kind.

    An error is made of its text, or as in TensorFlow: ``InvalidArgumentError(node_def, op, message)`` and
    ``OpError(node_def, op, message, error_code)``, each with an optional dict ``experimental_payloads`` behind.

    >>> InvalidArgumentError("too large").error_code == INVALID_ARGUMENT
    True
    >>> OutOfRangeError(None, None, "end of sequence").message
    'end of sequence'
    """

    _error_code = UNKNOWN
    _node_def: Any = None
    _op: Any = None
    _payloads: dict[Any, Any] | None = None

    if TYPE_CHECKING:

        @overload
        def __init__(self, message: object = ..., /) -> None: ...
        @overload
        def __init__(self, node_def: object, op: object, message: str, *args: Any) -> None: ...

    def __init__(self, *args: Any, **named: Any) -> None:
        if len(args) > 1 or named:
            args = (self._take(*args, **named),)
        super().__init__(*args)

    def _take(self, node_def: Any, op: Any, message: str, error_code: int, *args: Any) -> str:
        """Keep TensorFlow's arguments, and return the message."""
        self._node_def, self._op, self._error_code = node_def, op, error_code
        self._payloads = args[0] if args else None
        return message

    @property
    def error_code(self) -> int:
        """TensorFlow's number of the kind, such as ``INVALID_ARGUMENT``."""
        return self._error_code

    def __reduce__(self) -> tuple[object, ...]:
        """Leave the operation behind: it belongs to a graph of this process."""
        rebuild, arguments, *state = super().__reduce__()
        return rebuild, arguments, *({name: value for name, value in vars(self).items() if name != "_op"} for _ in state)

    @property
    def op(self) -> Any:
        """The operation of a graph that failed, or None. It stays behind when the error is pickled or copied."""
        return self._op

    @property
    def node_def(self) -> Any:
        """The operation that failed as a message, or None."""
        return self._node_def

    @property
    def experimental_payloads(self) -> dict[Any, Any]:
        """What the program that made the error has put in."""
        return self._payloads or {}


class _Coded(OpError):  # noqa: N818
    """The base of the classes that have a number each, and so are not given one."""

    def _take(self, node_def: Any, op: Any, message: str, *args: Any) -> str:
        return super()._take(node_def, op, message, self._error_code, *args)


class InvalidArgumentError(_Coded, ValueError):
    """An argument can't be right: an unknown device, a bad size, a device string that doesn't parse."""

    code = "INVALID_ARGUMENT"
    _error_code = INVALID_ARGUMENT


class InvalidTypeError(GpuconfError, TypeError):
    """An argument is of the wrong type."""

    code = "INVALID_TYPE"


class FailedPreconditionError(_Coded, RuntimeError):
    """The call comes too late (the runtime is initialised) or too early, or something is still in use."""

    code = "FAILED_PRECONDITION"
    _error_code = FAILED_PRECONDITION


class ResourceExhaustedError(_Coded, MemoryError):
    """Out of memory: the limit is reached, the device is full, or the free memory is in too small pieces. The text says which."""

    code = "RESOURCE_EXHAUSTED"
    _error_code = RESOURCE_EXHAUSTED


OutOfMemoryError = ResourceExhaustedError


class NotFoundError(_Coded, LookupError):
    """Something that was named is not there."""

    code = "NOT_FOUND"
    _error_code = NOT_FOUND


class AlreadyExistsError(_Coded, RuntimeError):
    """Something is there already."""

    code = "ALREADY_EXISTS"
    _error_code = ALREADY_EXISTS


class UnavailableError(_Coded, RuntimeError):
    """A driver or a library is missing, or too old."""

    code = "UNAVAILABLE"
    _error_code = UNAVAILABLE


class UnimplementedError(_Coded, NotImplementedError):
    """The call has no meaning without TensorFlow; the text says why."""

    code = "UNIMPLEMENTED"
    _error_code = UNIMPLEMENTED


class UnknownError(_Coded, RuntimeError):
    """A failure that TensorFlow reports as UNKNOWN."""

    code = "UNKNOWN"
    _error_code = UNKNOWN


class InternalError(_Coded, RuntimeError):
    """gpuconf broke a promise of its own. Nothing it says afterwards can be trusted, so it says nothing more: please report it."""

    code = "INTERNAL"
    _error_code = INTERNAL


class ForkedProcessError(FailedPreconditionError):
    """gpuconf was loaded before ``fork()``, and this is the child: the Go runtime doesn't survive a fork."""


class CancelledError(_Coded, RuntimeError):
    """What was under way, or was to begin, is cancelled: the session was closed."""

    code = "CANCELLED"
    _error_code = CANCELLED


class DeadlineExceededError(_Coded, RuntimeError):
    """A deadline has passed. TensorFlow's; gpuconf never raises it."""

    code = "DEADLINE_EXCEEDED"
    _error_code = DEADLINE_EXCEEDED


class PermissionDeniedError(_Coded, RuntimeError):
    """The caller lacks a permission. TensorFlow's; gpuconf never raises it."""

    code = "PERMISSION_DENIED"
    _error_code = PERMISSION_DENIED


class UnauthenticatedError(_Coded, RuntimeError):
    """The caller has not said who it is. TensorFlow's; gpuconf never raises it."""

    code = "UNAUTHENTICATED"
    _error_code = UNAUTHENTICATED


class AbortedError(_Coded, RuntimeError):
    """An operation was aborted, mostly by a concurrent one. TensorFlow's; gpuconf never raises it."""

    code = "ABORTED"
    _error_code = ABORTED


class OutOfRangeError(_Coded, RuntimeError):
    """Something was read past its end. TensorFlow's; gpuconf never raises it."""

    code = "OUT_OF_RANGE"
    _error_code = OUT_OF_RANGE


class DataLossError(_Coded, RuntimeError):
    """Data is lost or corrupt. TensorFlow's; gpuconf never raises it."""

    code = "DATA_LOSS"
    _error_code = DATA_LOSS


class MissingKeyError(NotFoundError, KeyError):
    """A graph has no element of that name."""


class NestingError(FailedPreconditionError, AssertionError):
    """``with`` blocks are left in another order than they were entered in reverse."""


class OperatorNotAllowedInGraphError(InvalidTypeError):
    """A tensor of a graph is used as a bool or iterated over, but has no value outside a session's run."""


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement


def _built_in(cls: type[BaseException]) -> type[BaseException]:
    """The built-in exception whose memory layout a class has. Its ``__new__`` is the one that is safe."""
    while cls.__flags__ & _HEAP_TYPE:
        cls = cls.__base__  # type: ignore[assignment]
    return cls


def _rebuild(cls: type[BaseException], args: tuple[object, ...], home: tuple[str, str, str] | None = None) -> BaseException:
    """Unpickle an error. One that is a library's out-of-memory class too is a plain one where the library is not loaded.

    ``home`` is the library, and the module and name of the class. Only that module imports the library.
    """
    if home is not None and home[0] == "torch":
        cls = _joined_with_torch()
    elif home is not None and home[0] in sys.modules:
        import importlib

        cls = getattr(importlib.import_module(home[1]), home[2])
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


_BY_NUMBER: dict[int, type[OpError]] = {
    cls._error_code: cls
    for cls in (
        CancelledError,
        UnknownError,
        InvalidArgumentError,
        DeadlineExceededError,
        NotFoundError,
        AlreadyExistsError,
        PermissionDeniedError,
        UnauthenticatedError,
        ResourceExhaustedError,
        FailedPreconditionError,
        AbortedError,
        OutOfRangeError,
        UnimplementedError,
        InternalError,
        UnavailableError,
        DataLossError,
    )
}


def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """The class of one of TensorFlow's numeric codes. Raises KeyError for a number that is no code, and for ``OK``.

    >>> exception_type_from_error_code(RESOURCE_EXHAUSTED).__name__
    'ResourceExhaustedError'
    """
    try:
        return _BY_NUMBER[error_code]
    except (KeyError, TypeError):
        raise MissingKeyError(error_code) from None


def error_code_from_exception_type(cls: type[BaseException]) -> Any:
    """The numeric code of a class. For another class it warns and returns an UnknownError, as TensorFlow does."""
    if isinstance(cls, type) and issubclass(cls, _Coded):
        return cls._error_code
    import warnings

    warnings.warn("Unknown class exception", stacklevel=2)
    return UnknownError(None, None, "Unknown class exception", None)


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


def __dir__() -> list[str]:
    return __all__
