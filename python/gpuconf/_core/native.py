"""The one module that touches the binary.

``core`` is the extension module as far as a caller can see: ``core.pybind_MemoryInfo("GPU:0")``. It is loaded by the first
attribute that is asked of it, so that ``import gpuconf`` starts neither Go nor CUDA. Each function is wrapped once, on
first use: what Go marks as an error of a known kind is raised as the class of that kind.

Fork: Go doesn't survive it. In a child that was forked after the load (or during it, by another thread) every
function raises ForkedProcessError; a child forked before may load the core for itself. The binary refuses by itself
too, which counts where Python's hooks did not run.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from .. import errors
from .._typing import Any
from .fork import module_lock

TYPE_CHECKING = False

__all__ = ["core", "keep", "library_path", "loaded", "refuse_in_child"]

# "\x1e" + kind + "\x1e" + message: what pybind/process/gate.go makes of an error.
_MARK = "\x1e"

_lock = module_lock(globals(), "_lock")  # a buffer's __del__ or a signal handler may call the core while this thread loads it
_loader_pid: int | None = None  # set before the load begins, so that a fork during it counts as one after it
_forked_from: int | None = None
_module: Any = None  # the extension module, once it is loaded


def _translate(error: RuntimeError) -> Exception:
    text = error.args[0] if error.args else ""
    if not (isinstance(text, str) and text.startswith(_MARK)):
        return error
    code, _, message = text[1:].partition(_MARK)
    if code == "FORKED":  # by C code, of which Python's hooks know nothing, or by a process in which C code opened the library
        _mark_forked()
        return _forked_error()
    return errors.from_code(code, message)


def _forked_error() -> errors.ForkedProcessError:
    return errors.ForkedProcessError(
        f"gpuconf was loaded in process {_forked_from} and can't be used in its fork()ed child {os.getpid()}: Go, in which its "
        "core is written, does not survive fork. Start workers with the 'spawn' or 'forkserver' method, "
        "or make the first gpuconf call in the child only."
    )


def refuse_in_child() -> None:
    """Raise in a forked child. For what would answer from copies of the core's state, without a call of it."""
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
    """Append what a function of ``core`` gives to ``receipt``, in one step of the interpreter.

    A signal handler that raises (Ctrl-C does) can come between any two steps. What the core has handed out is in the receipt
    by then, and whoever holds that can give it back.
    """
    raw = function.raw  # type: ignore[attr-defined]
    try:
        receipt.extend(map(raw, *((argument,) for argument in args)))
    except RuntimeError as error:
        raise _translate(error) from None


class _Core:
    """The extension module, loaded on first use. Functions that were used once are plain attributes."""

    def __getattr__(self, name: str) -> Any:
        refuse_in_child()
        if name.startswith("__"):
            raise AttributeError(name)
        function = _wrapped(getattr(_load(), name))
        setattr(self, name, function)
        return function


def _load() -> Any:
    """Load the core, and with it what all of gpuconf imports when it is needed.

    A module that another thread is importing at a fork is locked for good in the child, and an import of it there hangs. So
    nothing is imported before the core is loaded, and in a child nothing before it is refused.
    """
    global _loader_pid, _module
    if _module is not None:
        return _module  # not imported again: at the end of the process, where a __del__ may free a buffer, nothing can be
    with _lock:
        if _loader_pid is None:
            _loader_pid = os.getpid()
        try:
            from . import _gpuconf
        except ImportError as error:
            if not os.path.exists(library_path()):
                _loader_pid = None
                raise errors.UnavailableError(
                    f"gpuconf's compiled core is missing ({library_path()}): install gpuconf with pip, which builds it"
                ) from error
            raise
        import json  # noqa: F401

        _module = _gpuconf
        return _gpuconf


def loaded() -> bool:
    """Whether this process has loaded the core and may call it."""
    return _module is not None and _forked_from is None


def library_path() -> str:
    """Where the shared object is that holds the core and the C symbols of ``gpuconf.h``."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "_gpuconf.abi3.so")


def _mark_forked() -> None:
    """Note that this process is a forked child that must not use the core."""
    global _forked_from
    _forked_from = os.getppid() if _loader_pid in (None, os.getpid()) else _loader_pid
    if not TYPE_CHECKING:
        vars(core).clear()  # the wrapped functions: from here on every access goes through __getattr__


def _after_fork_in_child() -> None:
    if _forked_from is None and _loader_pid is not None:
        _mark_forked()


os.register_at_fork(after_in_child=_after_fork_in_child)

if TYPE_CHECKING:
    from . import _gpuconf as core
else:
    core = _Core()
