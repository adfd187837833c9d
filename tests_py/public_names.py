"""Walks the public names of gpuconf and reports what a type checker's or a reader's tools can't make sense of."""

from __future__ import annotations

import enum
import importlib
import importlib.util
import inspect
import pkgutil
import types
import typing
from typing import TYPE_CHECKING, Any

import gpuconf

if TYPE_CHECKING:
    from collections.abc import Iterator


# Rooms of the package that users do not import from: what is public of them has another home.
PRIVATE = ("cli", "machine", "planning", "tensors")


def modules() -> list[types.ModuleType]:
    """All public modules: those without an underscore on the way to them. The adaptors need their libraries."""
    found = (info.name for info in pkgutil.walk_packages(gpuconf.__path__, "gpuconf.", onerror=lambda _: None))
    names = [
        name
        for name in found
        if "._" not in name and name.split(".")[1] not in PRIVATE and not name.startswith("gpuconf.allocators.")
    ]
    return [gpuconf, *map(importlib.import_module, sorted(names))]


def functions(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """Public functions and classes of a module, with the methods and properties that the classes define or inherit from gpuconf."""
    for name in module.__all__:
        value = None if module.__name__ == "gpuconf.allocators" else getattr(module, name)  # its modules import their libraries
        if not callable(value):
            continue
        yield f"{module.__name__}.{name}", value
        for owner in value.__mro__ if isinstance(value, type) else ():
            if not owner.__module__.startswith("gpuconf") or "_fields" in vars(owner) or issubclass(owner, enum.Enum):
                continue  # what namedtuple() and enum have made
            for method, raw in vars(owner).items():
                function = raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)
                if isinstance(function, types.FunctionType) and (not method.startswith("_") or method.startswith("__")):
                    yield f"{module.__name__}.{name}.{method}", function


def unresolved(module: types.ModuleType) -> dict[str, str]:
    """What ``typing.get_type_hints`` fails on, and what has a parameter or a result without an annotation."""
    wrong = {}
    for name, value in functions(module):
        try:
            hints = typing.get_type_hints(value)
        except NameError as error:
            wrong[name] = str(error)
            continue
        if isinstance(value, types.FunctionType):
            code = value.__code__
            arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            missing = [a for a in (*arguments, "return") if a not in hints and a not in ("self", "cls", "_cls")]
            if missing:
                wrong[name] = f"no annotation of {missing}"
    return wrong


def unreadable(module: types.ModuleType) -> dict[str, str]:
    """What ``inspect.signature`` fails on, or shows as a private object or with an address."""
    wrong = {}
    for name, value in functions(module):
        if isinstance(value, type) and issubclass(value, BaseException):
            continue  # Python has no signature for its own exceptions either
        try:
            text = str(inspect.signature(value))
        except ValueError as error:
            wrong[name] = str(error)
            continue
        if " object at 0x" in text:
            wrong[name] = text
    return wrong


def extra(module: types.ModuleType) -> set[str]:
    """What ``dir`` shows beyond the public names, or fails to show."""
    missing = {
        name for name in module.__all__ if module.__name__ == "gpuconf.allocators" and importlib.util.find_spec(name) is None
    }
    return set(dir(module)) ^ {*module.__all__} - missing


def unreachable(module: types.ModuleType) -> list[str]:
    """Run what pydoc and editors run: nothing that is listed may fail to be there."""
    return [name for name, _ in inspect.getmembers(module) if name not in module.__all__]
