# SPDX-License-Identifier: Apache-2.0
"""The public modules of ``gpuconf.compat``, made of the rows of ``names.txt``.

Code is in modules with an underscore. A row says which of its names a public module has, and by which name.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

from .._core.built_in_errors import raise_built_in_class, raising_built_in
from .._missing import error_for
from .._typing import Any

_PACKAGE = "gpuconf.compat"
_PYTHON = f"{_PACKAGE}.v2.python"  # tensorflow.python
_ABSEIL = f"{_PACKAGE}._absl"  # which needs another package

# By the full name of a public module.
docs: dict[str, str] = {}
rows: dict[str, dict[str, tuple[str, str]]] = {}  # its names, and the module and name of what they stand for
unlisted: dict[str, set[str]] = {}  # those of its names that dir() does not show
others: dict[str, list[str]] = {}  # the modules whose other names it has, too
on_use: dict[str, list[str]] = {}  # the modules whose other names raise when they are called: these, or all if empty
aliases: dict[str, str] = {}  # a second name of a module, and the first
_homes: dict[str, dict[str, str]] = {}  # by the module of the code: its names, and the first public module of each


def _full(name: str) -> str:
    """Return the full name of a module in the table: with a dot below gpuconf, without one below this package."""
    return f"gpuconf{name}" if name.startswith(".") else f"{_PACKAGE}.{name}"


def _read() -> None:
    comment: list[str] = []
    module = ""
    with open(os.path.join(os.path.dirname(__file__), "names.txt"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("#"):
                comment.append(line[2:].rstrip("\n"))
            elif line.startswith(" "):
                source, _, names = line.strip().partition(":")
                if source == "on use":
                    on_use[module] = names.split()
                    continue
                if source == "*":
                    others[module] = [_full(each) for each in names.split()]
                    continue
                for word in names.split():
                    name, _, original = word.partition("=")
                    home = _full(source.removesuffix("?"))
                    rows[module][name] = home, original or name
                    if source.endswith("?"):
                        unlisted[module].add(name)
                    else:
                        _homes.setdefault(home, {}).setdefault(original or name, module)
            elif " = " in line:
                first, _, second = line.strip().partition(" = ")
                aliases[_full(first)] = _full(second)
            elif line.strip():
                module = _full(line.strip())
                docs[module], rows[module], unlisted[module], others[module] = "\n".join(comment), {}, set(), []
                comment = []
            else:
                comment = []


class Listed(ModuleType):
    """A module whose names are those of the table, and of the modules below it."""

    @property
    def __all__(self) -> list[str]:
        inner = f"{self.__name__}."
        below = {name[len(inner) :] for name in [*rows, *aliases] if name.startswith(inner)}
        listed = [*(rows[self.__name__].keys() - unlisted[self.__name__]), *(name for name in below if "." not in name)]
        return sorted(listed)

    def __dir__(self) -> list[str]:
        return self.__all__

    def __getattr__(self, name: str) -> Any:
        """Return a name on first use. Raises AttributeError for others, which says where a name of TensorFlow's is."""
        module = self.__name__
        if name in rows[module]:
            source, original = rows[module][name]
            value = getattr(import_module(source), original)
            setattr(self, name, value)
            return value
        if not name.startswith("_"):
            for other in others[module]:
                if other not in rows:
                    return getattr(import_module(other), name)
                if name in rows[other] or name in vars(sys.modules[other]):
                    return getattr(sys.modules[other], name)
            if module.startswith(f"{_PYTHON}.") and others[module]:
                raise _needed(module, name)
        if module in on_use and name in (on_use[module] or [name]) and not name.startswith("_"):
            setattr(self, name, _raising(module, name))
            return vars(self)[name]
        raise error_for(module, name, sys._getframe(1))


def _needed(module: str, name: str) -> Exception:
    """Return the error for a name that needs TensorFlow."""
    if not module.startswith(f"{_PYTHON}."):
        return error_for(module, name)
    path = f"{module.removeprefix(_PYTHON)}.{name}"
    return AttributeError(f"gpuconf does not have tensorflow.python{path}: it needs TensorFlow")


class _Raising(type):
    """The type of what cannot be called: its attributes need TensorFlow, too."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise error_for(f"{cls.__module__}.{cls.__name__}", name)


def _raising(module: str, name: str) -> type:
    """Return a class, which other classes can extend, that cannot be called: it needs TensorFlow."""

    def refuse(*_: Any, **__: Any) -> None:
        raise _needed(module, name)

    return _Raising(name, (), {"__init__": refuse, "__module__": module, "__doc__": "Needs TensorFlow."})


def make_modules() -> None:
    """Make the public modules, and load the code of all that needs no other package."""
    _read()
    for name in sorted(rows):  # a package before the modules in it
        module = sys.modules.get(name)
        if module is None:
            module = sys.modules[name] = Listed(name, docs[name])
            module.__spec__ = ModuleSpec(name, None, is_package=True)
            module.__path__, module.__package__ = [], name
        else:  # a package that also has modules with code
            module.__class__ = Listed
        if name != _PACKAGE:  # that is gpuconf's once it is complete
            parent, _, own = name.rpartition(".")
            setattr(sys.modules[parent], own, module)
    for name, first in aliases.items():
        module = import_module(first)
        inner = f"{first}."
        for other, found in list(sys.modules.items()) if not name.startswith(inner) else ():
            if other == first or (other.startswith(inner) and "._" not in other[len(first) :]):
                sys.modules[name + other[len(first) :]] = found
        parent, _, own = name.rpartition(".")
        setattr(sys.modules[parent], own, module)
    for name, row in rows.items():
        for own, (source, _) in row.items():
            if source != _ABSEIL:
                getattr(sys.modules[name], own)


def publish(source: str) -> None:
    """Make what a module defines and the table lists public.

    Classes name the first public module that has them, in pickles, tracebacks and ``help``. Functions and methods raise
    Python's own errors where TensorFlow does.
    """
    namespace = vars(sys.modules[source])
    for name, module in _homes.get(source, {}).items():
        value = namespace.get(name)
        if getattr(value, "__module__", None) != source:
            continue
        if isinstance(value, type):
            raise_built_in_class(value)
            value.__module__ = module
        elif callable(value):
            namespace[name] = raising_built_in(value)
