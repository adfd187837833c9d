# SPDX-License-Identifier: Apache-2.0
"""The errors that gpuconf raises.

Every class derives from :class:`GpuconfError` and from the built-in exception that code written for TensorFlow catches,
so ``except ValueError`` and ``except RuntimeError`` keep working. The names are those of ``tf.errors``. Classes that
TensorFlow also has derive from :class:`OpError`.

======================== ======================== =======================================================
class                    is also a                raised when
======================== ======================== =======================================================
InvalidArgumentError     ValueError               an argument is invalid: an unknown device, an invalid size
InvalidTypeError         TypeError                an argument has the wrong type
FailedPreconditionError  RuntimeError             the call comes too late or too early
ResourceExhaustedError   MemoryError              out of memory (``OutOfMemoryError``); with torch, also its class
NotFoundError            LookupError              a named object does not exist
AlreadyExistsError       RuntimeError             an object already exists
UnavailableError         RuntimeError             a driver or library is missing, or too old
UnimplementedError       NotImplementedError      the call has no meaning without TensorFlow
MissingPackageError      ImportError              an UnimplementedError: an optional package is not installed
UnknownError             RuntimeError             an unclassified failure, TensorFlow's UNKNOWN
InternalError            RuntimeError             an internal error: please report it
ForkedProcessError       RuntimeError             gpuconf was loaded before ``fork()``, and this process is the child
MissingKeyError          KeyError                 a NotFoundError: a graph has no element with that name
NestingError             AssertionError           a FailedPreconditionError: ``with`` blocks are exited out of order
CancelledError           RuntimeError             the session was closed
======================== ======================== =======================================================

OperatorNotAllowedInGraphError is an InvalidTypeError: a graph tensor was used as a bool, or iterated over.

A request for memory of a shared GPU that is not granted in time raises DeadlineExceededError.

The other classes of ``tf.errors`` are RuntimeErrors that gpuconf never raises. They exist for ``except`` clauses in
programs written for TensorFlow: AbortedError, DataLossError, OutOfRangeError, PermissionDeniedError and
UnauthenticatedError. ``OK``, ``CANCELLED``, ... ``UNAUTHENTICATED`` are TensorFlow's numeric codes.

Errors can be pickled and copied with their attributes and notes, so workers of ``concurrent.futures``, Dask and Ray can
return them. An out-of-memory error that also has PyTorch's or CuPy's class becomes a plain ResourceExhaustedError in a
process that has not imported that library.
"""

from __future__ import annotations

import sys

from ._missing import watch
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
    "MissingPackageError",
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
    """The base of all errors of gpuconf. ``code`` is TensorFlow's canonical code name.

    >>> issubclass(InvalidArgumentError, ValueError)
    True
    >>> InvalidArgumentError.code
    'INVALID_ARGUMENT'
    """

    code: str = "UNKNOWN"

    in_python = False  # whether TensorFlow makes this check in Python, where it raises a built-in class

    _library = ""  # such as "torch": the class also derives from that library's out-of-memory class

    @property
    def message(self) -> str:
        """The message text, as ``tf.errors.OpError.message``."""
        return str(self.args[0]) if len(self.args) == 1 else str(self)  # a KeyError's str is the repr of its text

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickle and copy: class, arguments, attributes and notes are preserved.

        tblib, which Dask uses, rebuilds an exception that does not define ``__reduce__`` with ``cls.__new__(cls)``.
        CPython rejects that for a class whose ``__new__`` comes from another base (here MemoryError). The default
        ``__reduce__`` calls ``cls(*args)``, which fails for a subclass with a different ``__init__``. As with any
        exception, cause and context are not preserved.
        """
        cls = type(self)
        parts: tuple[object, ...] = _built_in(cls).__reduce__(self)  # type: ignore[assignment]
        library = vars(cls).get("_library")
        home = (library, cls.__module__, cls.__qualname__) if library else None
        return _rebuild, (ResourceExhaustedError if library else cls, parts[1], home), *parts[2:]


class OpError(GpuconfError):
    """The base of the errors that TensorFlow also has. ``error_code`` is TensorFlow's numeric code.

    The constructor takes a message, or TensorFlow's arguments: ``InvalidArgumentError(node_def, op, message)`` and
    ``OpError(node_def, op, message, error_code)``, each optionally followed by a dict ``experimental_payloads``.

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
        """Store TensorFlow's arguments and return the message."""
        self._node_def, self._op, self._error_code = node_def, op, error_code
        self._payloads = args[0] if args else None
        return message

    @property
    def error_code(self) -> int:
        """TensorFlow's numeric code, such as ``INVALID_ARGUMENT``."""
        return self._error_code

    def __reduce__(self) -> tuple[object, ...]:
        """Omit the operation, which belongs to a graph of this process."""
        rebuild, arguments, *state = super().__reduce__()
        return (
            rebuild,
            arguments,
            *({name: value for name, value in vars(self).items() if name != "_op"} for _ in state),
        )

    @property
    def op(self) -> Any:
        """The graph operation that failed, or None. Not preserved when the error is pickled or copied."""
        return self._op

    @property
    def node_def(self) -> Any:
        """The NodeDef of the operation that failed, or None."""
        return self._node_def

    @property
    def experimental_payloads(self) -> dict[Any, Any]:
        """The payloads that were passed to the constructor."""
        return self._payloads or {}


class _Coded(OpError):  # noqa: N818
    """The base of the classes with a numeric code, which their constructors do not take.

    ``code`` is the class's own name: ``OUT_OF_RANGE`` of OutOfRangeError.
    """

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if _Coded in cls.__bases__:
            words = (f"_{letter}" if letter.isupper() else letter.upper() for letter in cls.__name__)
            cls.code = "".join(words)[1:].removesuffix("_ERROR")
        cls._error_code = globals().get(cls.code, cls._error_code)

    def _take(self, node_def: Any, op: Any, message: str, *args: Any) -> str:
        return super()._take(node_def, op, message, self._error_code, *args)


class InvalidArgumentError(_Coded, ValueError):
    """An argument is invalid: an unknown device, an invalid size, a malformed device string."""


class InvalidTypeError(GpuconfError, TypeError):
    """An argument has the wrong type."""

    code = "INVALID_TYPE"


class FailedPreconditionError(_Coded, RuntimeError):
    """The call comes too late (the runtime is initialized) or too early, or something is still in use."""


class ResourceExhaustedError(_Coded, MemoryError):
    """Out of memory: the limit is reached, the device is full, or the free memory is fragmented.

    The message says which.
    """


OutOfMemoryError = ResourceExhaustedError


class NotFoundError(_Coded, LookupError):
    """A named object does not exist."""


class AlreadyExistsError(_Coded, RuntimeError):
    """An object already exists."""


class UnavailableError(_Coded, RuntimeError):
    """A driver or a library is missing, or too old."""


class UnimplementedError(_Coded, NotImplementedError):
    """The call has no meaning without TensorFlow. The message says why."""


class UnknownError(_Coded, RuntimeError):
    """A failure that TensorFlow reports as UNKNOWN."""


class InternalError(_Coded, RuntimeError):
    """An internal error.

    After a violated invariant, all later calls that need the devices fail too. Please report it.
    """


class ForkedProcessError(FailedPreconditionError):
    """gpuconf was loaded before ``fork()``, and this process is the child. The Go runtime does not survive a fork."""


class CancelledError(_Coded, RuntimeError):
    """The call is cancelled because the session is closed."""


class DeadlineExceededError(_Coded, RuntimeError):
    """A deadline has passed: memory of a shared GPU was not granted in time. The message lists who holds it."""


class PermissionDeniedError(_Coded, RuntimeError):
    """The caller lacks permission. TensorFlow class that gpuconf never raises."""


class UnauthenticatedError(_Coded, RuntimeError):
    """The caller is not authenticated. TensorFlow class that gpuconf never raises."""


class AbortedError(_Coded, RuntimeError):
    """An operation was aborted, usually by a concurrent one. TensorFlow class that gpuconf never raises."""


class OutOfRangeError(_Coded, RuntimeError):
    """A read went past the end. TensorFlow class that gpuconf never raises."""


class DataLossError(_Coded, RuntimeError):
    """Data is lost or corrupt. TensorFlow class that gpuconf never raises."""


class MissingKeyError(NotFoundError, KeyError):
    """A graph has no element with that name."""


class MissingPackageError(UnimplementedError, ImportError):
    """An optional package is not installed, or cannot be imported. The message has the command that installs it."""


class NestingError(FailedPreconditionError, AssertionError):
    """``with`` blocks are exited out of order: the innermost must be exited first."""


class OperatorNotAllowedInGraphError(InvalidTypeError):
    """A graph tensor is used as a bool or iterated over, but has a value only inside a session's run."""


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: created by a class statement


def _built_in(cls: type[BaseException]) -> type[BaseException]:
    """Return the built-in exception whose memory layout a class has. Only its ``__new__`` is safe to call."""
    while cls.__flags__ & _HEAP_TYPE:
        cls = cls.__base__  # type: ignore[assignment]
    return cls


def _rebuild(
    cls: type[BaseException], args: tuple[object, ...], home: tuple[str, str, str] | None = None
) -> BaseException:
    """Unpickle an error. Omit a library's out-of-memory class if that library is not loaded.

    ``home`` is the library, and the module and name of the class. Only that module imports the library.
    """
    if home is not None and home[0] == "torch":
        cls = _joined_with_torch()
    elif home is not None and home[0] in sys.modules:
        import importlib

        cls = getattr(importlib.import_module(home[1]), home[2])
    built_in = _built_in(cls)
    error = built_in.__new__(cls, *args)
    built_in.__init__(error, *args)  # OSError sets its fields here; the attributes keep what a subclass's __init__ set
    return error


_BY_CODE: dict[str, type[GpuconfError]] = {cls.code: cls for cls in _Coded.__subclasses__()}

# Kinds of the core for checks that TensorFlow makes in Python.
_IN_PYTHON = {"VALUE": InvalidArgumentError, "STATE": FailedPreconditionError}
_BY_CODE.update(_IN_PYTHON, INVALID_TYPE=InvalidTypeError)

_BY_NUMBER: dict[int, type[OpError]] = {cls._error_code: cls for cls in _Coded.__subclasses__()}


def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """Return the class for a TensorFlow error code. Raises KeyError for an unknown code and for ``OK``.

    >>> exception_type_from_error_code(RESOURCE_EXHAUSTED).__name__
    'ResourceExhaustedError'
    """
    try:
        return _BY_NUMBER[error_code]
    except (KeyError, TypeError):
        raise KeyError(error_code) from None


def error_code_from_exception_type(cls: type[BaseException]) -> Any:
    """Return the numeric code of a class.

    For any other class, warns and returns an UnknownError, as TensorFlow does.
    """
    if isinstance(cls, type) and issubclass(cls, _Coded):
        return cls._error_code
    import warnings

    warnings.warn("Unknown class exception", stacklevel=2)
    return UnknownError(None, None, "Unknown class exception", None)


def from_code(code: str, message: str) -> GpuconfError:
    """Return the error for a code of the Go core. If torch is loaded, out of memory is also torch's error."""
    cls = _BY_CODE.get(code, UnknownError)
    if cls is ResourceExhaustedError:
        cls = _joined_with_torch()
    return checked_in_python(cls(message)) if code in _IN_PYTHON else cls(message)


def checked_in_python(error: GpuconfError) -> GpuconfError:
    """Mark an error of a check that TensorFlow makes in Python, and return it: see ``_core.built_in_errors``."""
    error.in_python = True
    return error


def _joined_with_torch() -> type[ResourceExhaustedError]:
    """Return ResourceExhaustedError or, if torch is loaded, a class that derives from torch's class too."""
    theirs = _torch_out_of_memory()
    return ResourceExhaustedError if theirs is None else _also(theirs)


def _torch_out_of_memory() -> type[Exception] | None:
    """Return torch's class, if torch is loaded and has one.

    Reads only its namespace: imports and runs no torch code.
    """
    for module in ("torch", "torch.cuda"):  # in torch.cuda before torch 2.5
        found = getattr(sys.modules.get(module), "__dict__", {}).get("OutOfMemoryError")
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    return None


_with_torch: dict[type[Exception], type[ResourceExhaustedError]] = {}


def _also(theirs: type[Exception]) -> type[ResourceExhaustedError]:
    """Return a class that derives from ResourceExhaustedError and from another library's class."""
    if theirs not in _with_torch:
        members = {"__doc__": ResourceExhaustedError.__doc__, "__module__": __name__, "_library": "torch"}
        try:
            _with_torch[theirs] = type("ResourceExhaustedError", (ResourceExhaustedError, theirs), members)
        except TypeError:  # the two bases are incompatible
            _with_torch[theirs] = ResourceExhaustedError
    return _with_torch[theirs]


watch(globals())
