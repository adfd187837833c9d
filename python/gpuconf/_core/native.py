# SPDX-License-Identifier: Apache-2.0
"""The only module that accesses the compiled extension module.

``core`` acts as the extension module: ``core.pybind_MemoryInfo("GPU:0")``. The first attribute access loads it, so
``import gpuconf`` starts neither Go nor CUDA. Each function is wrapped once, on first use: an error that Go marks with
a known code is raised as the class of that code.

Go does not support fork. In a child forked after the load (or during it, by another thread), every function raises
ForkedProcessError; a child forked earlier can load the core itself. The extension module also checks for a fork, for
processes in which Python's fork hooks did not run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import starmap

from .. import errors
from .._typing import Any
from . import when_loaded
from .fork import module_lock

TYPE_CHECKING = False

__all__ = ["Busy", "by_hand", "core", "keep", "library_path", "loaded", "refuse_in_child"]

# pybind/process/gate.go encodes an error as "\x1e" + code + "\x1e" + message.
_MARK = "\x1e"

_LEAST_ADDRESS_SPACE = 1 << 30  # bytes; Go alone does not start with 800 MB

# A buffer's __del__ or a signal handler may call the core while this thread loads it.
_lock = module_lock(globals(), "_lock")
_loader_pid: int | None = None  # set before the load begins, so that a fork during the load counts as a fork after it
_forked_from: int | None = None
_module: Any = None  # the extension module, once it is loaded


def _translate(error: RuntimeError) -> Exception:
    text = error.args[0] if error.args else ""
    return _error_of(text) if isinstance(text, str) and text.startswith(_MARK) else error


class Busy(Exception):  # noqa: N818 - it is no failure
    """Another process holds a ledger's lock. ``nap``, a message, is the nap to take before the next try."""

    def __init__(self, nap: str) -> None:
        super().__init__(nap)
        self.nap = nap


def _error_of(text: str) -> Exception:
    """Return the exception for a marked text. The extension module's C code calls it, too."""
    code, _, message = text[1:].partition(_MARK)
    if code == "BUSY":
        return Busy(message)
    # Forked by C code, which bypasses Python's hooks, or in a process where C code opened the library.
    if code == "FORKED":
        _mark_forked()
        return _forked_error()
    return errors.from_code(code, message)


def _forked_error() -> errors.ForkedProcessError:
    return errors.ForkedProcessError(
        f"gpuconf was loaded in process {_forked_from} and cannot be used in its forked child {os.getpid()}: its core "
        "is written in Go, which does not support fork(). Start workers with the 'spawn' or 'forkserver' method, or "
        "make the first gpuconf call in the child."
    )


def refuse_in_child() -> None:
    """Raise in a forked child. For functions that would use copies of the core's state without calling the core."""
    if _forked_from is not None:
        raise _forked_error()


def _wrapped(raw: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        try:
            return raw(*args)
        except RuntimeError as error:
            raise _translate(error) from None

    call.__name__ = raw.__name__
    call.raw = raw  # type: ignore[attr-defined]
    return call


def keep(receipt: list[Any], function: Callable[..., Any], *args: Any) -> None:
    """Append the result of a ``core`` function to ``receipt``, in one step of the interpreter.

    A signal handler that raises (as on Ctrl-C) can run between any two steps. The receipt then already holds what the
    core returned, so the caller can release it.
    """
    raw = function.raw  # type: ignore[attr-defined]
    try:
        receipt.extend(starmap(raw, (args,)))
    except RuntimeError as error:
        raise _translate(error) from None


class _Core:
    """The extension module, loaded on first use. Each function becomes a plain attribute on first use."""

    def __getattr__(self, name: str) -> Any:
        refuse_in_child()
        if name.startswith("__"):
            raise AttributeError(name)
        function = _wrapped(getattr(_load(), name))
        setattr(self, name, function)
        return function


def _load() -> Any:
    """Load the core, and the modules that gpuconf imports lazily.

    If another thread is importing a module at a fork, the module's import lock stays locked in the child, and importing
    it there hangs. So gpuconf imports nothing before the core is loaded, and a forked child raises before it imports
    anything.
    """
    global _loader_pid, _module
    if _module is not None:
        return _module  # a __del__ may free a buffer at process exit, when importing is no longer possible
    with _lock:
        if _loader_pid is None:
            _loader_pid = os.getpid()
        _check_address_space()
        try:
            from . import _gpuconf
        except ImportError as error:
            if not os.path.exists(library_path()):
                _loader_pid = None
                raise errors.UnavailableError(
                    f"gpuconf's compiled core is missing ({library_path()}): build it by installing gpuconf with pip"
                ) from error
            if "t" in getattr(sys, "abiflags", ""):
                _loader_pid = None
                raise errors.UnavailableError(
                    "gpuconf does not support free-threaded builds of Python: its core uses the stable ABI, which they "
                    "lack. Use a regular build of CPython 3.10 or newer"
                ) from error
            raise
        module: Any = _gpuconf
        module.connect_errors(_error_of)
        _module = module
        while when_loaded:
            when_loaded.pop()()
        return _gpuconf


def _check_address_space() -> None:
    """Raise UnavailableError if the core would not start:
    Go reserves address space, and ends the process if it gets none.
    """
    global _loader_pid
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _LEAST_ADDRESS_SPACE:
        _loader_pid = None
        raise errors.UnavailableError(
            f"the address space of this process is limited to {limit >> 20} MiB (ulimit -v; some batch systems set it "
            "from a limit of memory, such as Grid Engine's h_vmem), and gpuconf's core needs "
            f"{_LEAST_ADDRESS_SPACE >> 20} MiB: raise the limit. Address space is not memory"
        )


def by_hand() -> Any:
    """Return the extension module for its functions that are written in C (``pybind/_gpuconf``), after it is loaded.

    They raise the errors of ``gpuconf.errors`` themselves, and those that enter the core check for a fork.
    """
    refuse_in_child()
    return _load()


def extension() -> Any:
    """Return the extension module, None if it is not loaded, for a function in C that does not enter the core."""
    return _module


def loaded() -> bool:
    """Report whether this process has loaded the core and may call it."""
    return _module is not None and _forked_from is None


def library_path() -> str:
    """Return the path of the shared object that contains the core and the C symbols of ``gpuconf.h``."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "_gpuconf.abi3.so")


def _mark_forked() -> None:
    """Note that this process is a forked child that must not use the core."""
    global _forked_from
    _forked_from = os.getppid() if _loader_pid in (None, os.getpid()) else _loader_pid
    if not TYPE_CHECKING:
        vars(core).clear()  # remove the wrapped functions, so that every access goes through __getattr__


def _after_fork_in_child() -> None:
    if _forked_from is None and _loader_pid is not None:
        _mark_forked()


os.register_at_fork(after_in_child=_after_fork_in_child)

if TYPE_CHECKING:
    from . import _gpuconf as core
else:
    core = _Core()
