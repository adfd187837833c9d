# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow-shaped modules raise Python's own classes where TensorFlow does.

TensorFlow checks most arguments in Python, and raises plain ValueError, TypeError, RuntimeError and so on. Only its
native code raises the classes of ``tf.errors``. So ``except tf.errors.OpError`` must not catch the former. gpuconf's
own functions raise the classes of ``gpuconf.errors`` for both.
"""

from __future__ import annotations

import sys
from functools import wraps

from .. import errors
from .._typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

_ALWAYS: dict[type, type[Exception]] = {
    errors.InvalidTypeError: TypeError,
    errors.MissingKeyError: KeyError,
    errors.NestingError: AssertionError,
}
_IN_PYTHON: dict[type, type[Exception]] = {
    errors.InvalidArgumentError: ValueError,
    errors.FailedPreconditionError: RuntimeError,
}

# What gpuconf reports when a graph is built, and TensorFlow's native code when it runs.
_WHEN_RUN = "Malformed device specification "


def built_in(error: BaseException, everything: bool = False) -> Exception | None:
    """Return the error that TensorFlow raises instead, or None if that is ``error``.

    With ``everything``, also for errors of the core that TensorFlow's native code reports: it builds graphs in a way
    that turns them into Python's.
    """
    kind = type(error)
    replacement = _ALWAYS.get(kind)
    if (
        replacement is None
        and kind in _IN_PYTHON
        and (error.in_python or (everything and not str(error).startswith(_WHEN_RUN)))  # type: ignore[attr-defined]
    ):
        replacement = _IN_PYTHON[kind]
    return None if replacement is None else replacement(*error.args)


_made: dict[Any, Any] = {}  # a function is the same object in all modules that have it


def raising_built_in(function: F, everything: bool = False, wrapped: bool = False) -> F:
    """Return a function that calls another one, and raises its errors as TensorFlow does.

    One that wraps another is such a function already, unless it is said to be ``wrapped`` only.
    """
    if hasattr(function, "__wrapped__") and not wrapped:
        return function
    if function in _made:
        return _made[function]  # type: ignore[no-any-return]

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except errors.GpuconfError as error:
            other = built_in(error, everything)
            if other is None:
                raise
            trace = error.__traceback__
        raise other.with_traceback(trace) from None

    _made[function] = call
    return call  # type: ignore[return-value]


def raise_built_in(module: str, names: Iterable[str], everything: bool = False) -> None:
    """Replace the public functions of a module, and the methods of its classes, by such functions."""
    namespace = vars(sys.modules[module])
    for name in names:
        member = namespace.get(name)
        if not getattr(member, "__module__", "").startswith("gpuconf"):
            continue
        if isinstance(member, type):
            if member.__module__.startswith("gpuconf.compat."):
                raise_built_in_class(member, everything)
        elif callable(member):
            namespace[name] = raising_built_in(member, everything)


def raise_built_in_class(cls: type, everything: bool = False) -> None:
    """Replace the methods and properties of a class."""
    for name, member in list(vars(cls).items()):
        if name in ("__new__", "__del__", "__reduce__", "__repr__", "__init_subclass__", "__class_getitem__"):
            continue
        if isinstance(member, property) and member.fget is not None:
            setter = member.fset and raising_built_in(member.fset, everything)
            setattr(cls, name, property(raising_built_in(member.fget, everything), setter, doc=member.__doc__))
        elif type(member).__name__ == "function":
            setattr(cls, name, raising_built_in(member, everything))
