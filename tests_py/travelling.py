"""Errors to send between processes, and their visible properties there. Worker processes import this module."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuconf import config, errors  # noqa: F401 - config has its own error classes

if TYPE_CHECKING:
    from collections.abc import Callable

STANDINS = str(Path(__file__).parent / "frameworks" / "standins")
OF_LIBRARIES = ("torch", "cupy")  # an out-of-memory error that also has the library's class
TEXT = "OOM when allocating 286.10MiB\n  limit 512.00MiB · in use 286.10MiB"


class UsersError(errors.InvalidArgumentError):
    """A user's class whose constructor takes something other than the text."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(f"{name} of {size} bytes")
        self.size = size


class UsersFileError(errors.GpuconfError, FileNotFoundError):
    """A user's class with the memory layout of OSError."""


def _below(cls: type) -> list[type]:
    return [cls, *(deeper for each in cls.__subclasses__() for deeper in _below(each))]


# By name: those of gpuconf.errors, private ones with another built-in base, and the user's.
CLASSES: dict[str, type] = {cls.__name__: cls for cls in _below(errors.GpuconfError) if "_library" not in vars(cls)}
CLASSES["GpuconfError"] = errors.GpuconfError
ALL = [*CLASSES, *OF_LIBRARIES]


def install_standins() -> None:
    """Put stand-ins for PyTorch and CuPy where ``import`` finds them."""
    sys.path.insert(0, STANDINS)
    for name in OF_LIBRARIES:
        __import__(f"{name}_standin").install()


def made(name: str) -> errors.GpuconfError:
    """An error with a text, an attribute and, if Python supports them, a note."""
    error: Any
    if name == "torch":
        error = errors.from_code("RESOURCE_EXHAUSTED", TEXT)
    elif name == "cupy":
        from gpuconf.allocators.cupy import OutOfMemoryError

        error = OutOfMemoryError(TEXT, 1, 2, 3)
    elif name == "UsersError":
        error = UsersError("weights", 7)
    elif name == "UsersFileError":
        error = UsersFileError(2, TEXT, "weights.bin")
    else:
        error = CLASSES[name](TEXT)
    error.device = "GPU:0"
    error.__notes__ = ["while loading weights"]
    return error  # type: ignore[no-any-return]


def fail(name: str) -> None:
    """Raise it with a cause, in a worker."""
    if name in OF_LIBRARIES:
        install_standins()
    try:
        raise KeyError("the cause")
    except KeyError as cause:
        raise made(name) from cause


def seen(error: BaseException) -> tuple[Any, ...]:
    """Everything that must survive: the classes that ``except`` can name, text, arguments, attributes and notes."""
    built_in = {name: getattr(error, name) for name in ("errno", "filename") if isinstance(error, OSError)}
    own = {k: v for k, v in vars(error).items() if not k.startswith("_") or k == "__notes__"}
    names = [f"{cls.__module__}.{cls.__qualname__}" for cls in type(error).__mro__]
    return names, str(error), error.args, error.message, error.code, own, built_in  # type: ignore[attr-defined]


def changed(calls: dict[str, Callable[[], Any]]) -> list[str]:
    """Say what is wrong with the errors that calls raise, by name, each of which calls fail(name) in a worker."""
    install_standins()
    wrong: list[str] = []
    for name, call in calls.items():
        try:
            call()
        except Exception as error:
            received = getattr(error, "cause", error)  # Ray's, which is an instance of the error's class too
            wanted, text = made(name), getattr(error, "message", None)
            if not isinstance(error, type(wanted)) or text not in (wanted.message, str(wanted)):
                wrong.append(f"{name} is caught as {type(error).__mro__} {text}")
            if seen(received) != seen(wanted):
                wrong.append(f"{name} arrived as {seen(received)}")
        else:
            wrong.append(f"{name} did not fail")
    return wrong
