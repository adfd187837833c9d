# SPDX-License-Identifier: Apache-2.0
"""Names that a module does not have, mostly TensorFlow's: the errors for them say so, and what to use instead.

A module calls ``watch(globals())``, or raises ``error_for`` in its own ``__getattr__``. The names are in
``_tensorflow_names.txt``, which is read when one of them is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ._typing import Any

# gpuconf's counterparts of ``tf``, and their marks in the table.
_ROOTS = {"gpuconf.compat.v2": "2", "gpuconf.compat.v1": "1", "gpuconf": "0"}

_ARRAYS = "use gpuconf.constant with a NumPy array, such as numpy.{name}(...)"
_HINTS = {
    "contrib": "TensorFlow 2 removed it",
    "estimator": "it needs TensorFlow, up to 2.15",
    "linspace": _ARRAYS,
    "profiler": "it needs TensorFlow. gpuconf.memory.record() records memory events",
}

_V1, _V2 = "gpuconf.compat.v1", "gpuconf.compat.v2"
_OF_1 = ", or run a program for TensorFlow 1 with `gpuconf run --as-tensorflow=1` or install_as_tensorflow(version=1)"

_names: dict[str, dict[str, str]] = {}  # by module: its names, with the marks of the roots that have them


def names() -> dict[str, dict[str, str]]:
    """Return the public names of TensorFlow's modules, without gpuconf's marks of where gpuconf has them."""
    if not _names:
        import os

        with open(os.path.join(os.path.dirname(__file__), "_tensorflow_names.txt"), encoding="utf-8") as file:
            for line in file:
                module, _, rest = line.rstrip("\n").partition(":")
                _names[module] = {name: marks for name, _, marks in (word.partition("=") for word in rest.split())}
    return _names


def tensorflow_path(module: str) -> str:
    """Return what a module of gpuconf is below ``tf``: ``"config"``, or ``""`` for ``tf`` itself."""
    for root in _ROOTS:
        if module == root:
            return ""
        if module.startswith(f"{root}."):
            return module[len(root) + 1 :]
    return module


def reason(module: str, name: str) -> str:
    """Return why a module does not have a name of TensorFlow, and what to use.

    Return "" if it is no name of TensorFlow.
    """
    if name.startswith("_"):
        return ""
    path = tensorflow_path(module)
    marks = names().get(path, {}).get(name)
    full = f"{path}.{name}" if path else name
    keras = path == "keras" or path.startswith("keras.")  # the table has none of its modules' names
    if marks is None and full not in _HINTS and not (keras and path != "keras"):
        return ""
    here = next((root for root in _ROOTS if module == root or module.startswith(f"{root}.")), "")
    if full in _HINTS:
        return f"gpuconf does not have tf.{full}: {_HINTS[full].format(name=name)}"
    found = next((root for root, mark in _ROOTS.items() if mark in (marks or "") and root != here), None)
    if found is not None:
        return f"use {found}.{full}{_OF_1 if found == _V1 and here == _V2 and stands_in() else ''}"
    if keras:
        remedy = "Keras 3 runs without it: set KERAS_BACKEND=torch or jax, and import keras"
        return f"gpuconf does not have tf.{full}: it needs TensorFlow. {remedy}"
    return f"gpuconf does not have tf.{full}: it needs TensorFlow"


# What other tools call it.
_LIMIT = 'gpuconf.configure(limit="6GiB")'
_MEANT = {
    "allocate": "gpuconf.memory.allocate",
    "device_count": "len(gpuconf.visible_devices())",
    "devices": "gpuconf.visible_devices()",
    "empty_cache": "gpuconf.memory.release()",
    "free": "free() of the buffer, or gpuconf.memory.release()",
    "get_device_name": "gpuconf.visible_devices()[0].name",
    "gpus": "gpuconf.visible_devices()",
    "in_use": "gpuconf.memory.stats().bytes_in_use",
    "is_available": "len(gpuconf.visible_devices()) > 0",
    "limit": _LIMIT,
    "list_devices": "gpuconf.visible_devices()",
    "list_gpus": "gpuconf.visible_devices()",
    "max_memory_allocated": "gpuconf.memory.stats().peak_bytes_in_use",
    "max_memory_reserved": "gpuconf.memory.stats().peak_bytes_reserved",
    "mem_get_info": "gpuconf.memory.stats()",
    "memory_allocated": "gpuconf.memory.stats().bytes_in_use",
    "memory_limit": _LIMIT,
    "memory_reserved": "gpuconf.memory.stats().bytes_reserved",
    "memory_snapshot": "gpuconf.memory.memory_map()",
    "memory_stats": "gpuconf.memory.stats()",
    "memory_summary": "gpuconf.memory.usage()",
    "peak": "gpuconf.memory.stats().peak_bytes_in_use",
    "rehearsal": 'gpuconf.rehearse("A10")',
    "set_limit": _LIMIT,
    "set_memory_limit": _LIMIT,
    "snapshot": "gpuconf.memory.record(); the recording's save() writes a snapshot",
    "statistics": "gpuconf.memory.stats()",
    "used": "gpuconf.memory.stats().bytes_in_use",
    **dict.fromkeys(("cupy", "numba", "torch"), "gpuconf.configure(), which routes PyTorch, CuPy and Numba"),
}

# What is looked for in gpuconf, and is in its module memory or a command.
OF_MEMORY = (
    "fit_batch",
    "live_buffers",
    "measure",
    "memory_map",
    "record",
    "release",
    "report",
    "stats",
    "tag",
    "usage",
)
COMMANDS = ("completion", "diff", "doctor", "env", "export", "ledger", "ps", "run", "top", "visible")


def elsewhere(module: str, name: str) -> str:
    """Return where gpuconf has what is missed in one of its own modules, or a name there that begins so.

    Return "" if nothing has that name.
    """
    if module in ("gpuconf", "gpuconf.config", "gpuconf.memory") and name in _MEANT:
        return f"use {_MEANT[name]}"
    if module == "gpuconf" and name in OF_MEMORY:
        return f"use gpuconf.memory.{name}"
    if module in ("gpuconf.config", "gpuconf.memory") and name in sys.modules["gpuconf"].__all__:
        return f"use gpuconf.{name}"
    if module == "gpuconf" and name in COMMANDS:
        return f"it is a command: gpuconf {name} --help"
    if name.startswith("_") or module.startswith("gpuconf.compat"):
        return ""
    if module in ("gpuconf", "gpuconf.config"):
        for path in ("config", "config.experimental"):
            if f"gpuconf.{path}" != module and name in names().get(path, {}):
                return f"use gpuconf.{path}.{name}"
    # Python guesses typos itself. Programs ask whether a name exists, and difflib is a long import for that.
    longer = [each for each in getattr(sys.modules[module], "__all__", ()) if len(name) > 3 and each.startswith(name)]
    return f"did you mean {longer[0]!r}?" if longer else ""


def closest(word: object, known: Iterable[str]) -> str:
    """Return the name that a mistyped one begins or comes closest to, or an empty text."""
    from difflib import get_close_matches

    written = str(word).lower()
    names = {each.lower(): each for each in known}
    longer = [each for each in names if len(written) > 3 and each.startswith(written)]
    return next((names[each] for each in longer or get_close_matches(written, names, 1, 0.65)), "")


def stands_in() -> bool:
    """Report whether ``import tensorflow`` finds gpuconf."""
    return any(type(finder).__module__ == "gpuconf.compat._as_tensorflow" for finder in sys.meta_path)


def error_for(module: str, name: str, frame: Any = None) -> Exception:
    """Return the error for an attribute that a module does not have.

    ``frame`` is the caller of the module's ``__getattr__``. ``from module import name`` replaces an AttributeError with
    its own error, and Python would suggest a name that is only spelled like it.
    """
    why = reason(module, name) or elsewhere(module, name)
    if not why:
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    if frame is not None and _is_import_from(frame):
        return ImportError(f"cannot import name {name!r} from {module!r}: {why}", name=module)
    error = AttributeError(f"module {module!r} has no attribute {name!r}: {why}")
    error.name, error.obj = name, None  # Python adds the module if they are missing, and a suggestion from it
    return error


def _is_import_from(frame: Any) -> bool:
    from opcode import opmap

    return bool(frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"])


def watch(namespace: dict[str, Any]) -> None:
    """Give a module a ``__getattr__`` that raises :func:`error_for`, and a ``__dir__`` of its public names."""
    module = namespace["__name__"]

    def missing(name: str) -> Any:
        raise error_for(module, name, sys._getframe(1))

    namespace["__getattr__"] = missing
    namespace["__dir__"] = lambda: namespace["__all__"]
