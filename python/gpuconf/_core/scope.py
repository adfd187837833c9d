"""``gpuconf.device``: which device a thread's operations and allocations go to.

A scope's name is TensorFlow's: fully qualified, made from the outer scope's and the argument field by field. Python holds a
thread's stack of them; the logical GPU that the innermost one names is written where the C entry points read it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from .. import errors
from .._typing import Any
from . import device_argument, runtime, texts
from .devices import LogicalDevice, PhysicalDevice, VisibleDevice
from .native import core, loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .device_argument import Device


class _Current(threading.local):
    """A thread's innermost scope. A new thread starts without one."""

    name: str = ""  # "" places automatically
    entry: tuple[str, str | None] | None = None  # what it was made of: the outer scope's name and the argument
    number: int = -1  # of the logical GPU that it names, negative for none
    generation: int = 0


_current = _Current()
_MISSING = -2  # what the core says of a scope of a device that is not there

# (outer name, argument) -> the scope's name. TensorFlow has this cache too.
_names: dict[tuple[str, str], str] = {}
runtime.on_forget(_names.clear)


def current_scope() -> str:
    """The full name of this thread's innermost scope, or "" where it has none."""
    if _current.generation != runtime.current.generation:
        _current.name, _current.entry, _current.number, _current.generation = "", None, -1, runtime.current.generation
    return _current.name


def current_gpu() -> int:
    """The number of the logical GPU that this thread's innermost scope names, negative where it names none."""
    current_scope()
    return _current.number


def check_scope() -> None:
    """Raise where this thread's scope names what isn't there. For after an error: the core knows the scope's number only."""
    name = current_scope()
    if _current.number != _MISSING:
        return
    there = ", ".join(d.name.removeprefix("/device:") for d in runtime.logical_devices("device") if d.device_type == "GPU")
    text = f"this thread's scope names a device that is not there: {texts.shown(name)}"
    raise errors.InvalidArgumentError(f"{text}. This process has {there or 'no logical GPU'}")


def gpu_number(device: Device | None, function: str) -> int:
    """The number of the logical GPU that an argument names. Initializes the runtime; ``function`` is what the user called.

    -1 for None: the core takes the GPU that this thread's scope names, else GPU:0. Where it raises, call :func:`check_scope`.
    """
    runtime.logical_devices(function)
    return -1 if device is None else core.pybind_ResolveGPU(device_argument.text_of(device))


def gpu_text(device: Device | None, function: str) -> str:
    """The name of the logical GPU that an argument names; None follows this thread's scope as in :func:`gpu_number`."""
    runtime.logical_devices(function)
    if device is not None:
        return device_argument.text_of(device)
    check_scope()
    return f"GPU:{max(current_gpu(), 0)}"


# What other libraries switch together with a scope on a GPU, by library: given the number of the logical GPU, a context or None.
companions: dict[str, Callable[[int], AbstractContextManager[Any] | None]] = {}


def _accompany(number: int) -> ExitStack | None:
    if number < 0 or not companions:
        return None
    from contextlib import ExitStack

    with ExitStack() as stack:
        for companion in list(companions.values()):
            context = companion(number)
            if context is not None:
                stack.enter_context(context)
        return stack.pop_all()


def _set(name: str, entry: tuple[str, str | None] | None) -> None:
    """Make a name this thread's scope: in the core first, which may refuse. No reset may come meanwhile."""
    number = core.pybind_EnterScope(name)
    _current.name, _current.entry, _current.number, _current.generation = name, entry, number, runtime.current.generation


def _merge(outer: str, argument: str) -> str:
    key = (outer, argument)
    name = _names.get(key)
    if name is None:
        name = core.pybind_MergeScope(outer, argument)
        if len(_names) < 4096:
            _names[key] = name
    return name


class _DeviceScope(threading.local):
    """What ``gpuconf.device`` returns. It may be entered again and again, also inside itself and in several threads.

    Each thread has an ``_entered`` of its own.
    """

    _ending = staticmethod(sys.is_finalizing)  # see Buffer._ending

    def __init__(self, device_name: Any) -> None:
        self._device_name = device_name
        # The outer scope's name and entry, the own entry, and the generation, of each that was entered and not left yet.
        self._entered: list[tuple[str, Any, tuple[str, str | None], int]] = []
        self._accompanied: list[ExitStack | None] = []  # what other libraries have switched with each entry

    def __enter__(self) -> None:
        argument = self._argument()
        with runtime.unchanged():  # a reset comes before this or after it
            runtime.logical_devices("device")  # there may have been one since this object was made
            outer = current_scope()
            outer_entry, entry, generation = _current.entry, (outer, argument), runtime.current.generation
            name = "" if argument is None else _merge(outer, argument)
            try:
                _set(name, entry)
            except BaseException:
                _set(outer, outer_entry)
                raise
        try:
            self._accompanied.append(_accompany(_current.number))
        except BaseException:
            self._leave(outer, outer_entry, generation)
            raise
        self._entered.append((outer, outer_entry, entry, generation))

    def __exit__(self, *_: object) -> None:
        if self._ending() or not loaded():  # in a forked child
            return
        outer, outer_entry, entry, generation = self._entered[-1]
        current_scope()
        # Two scopes of one name may have come about in different ways; those that have not are one to TensorFlow too.
        if generation == _current.generation and _current.entry != entry:
            raise errors.FailedPreconditionError("Exiting device scope without proper scope nesting")
        self._leave(outer, outer_entry, generation)
        self._entered.pop()
        companion = self._accompanied.pop()
        if companion is not None:
            companion.close()

    @staticmethod
    def _leave(outer: str, entry: tuple[str, str | None] | None, generation: int) -> None:
        with runtime.unchanged():
            if generation == runtime.current.generation:  # else a reset has left all scopes, in the core too
                _set(outer, entry)

    def _argument(self) -> str | None:
        argument = self._device_name
        if argument is None:
            return None
        if isinstance(argument, VisibleDevice) or (isinstance(argument, PhysicalDevice) and argument.device_type == "GPU"):
            return device_argument.text_of(argument)
        if isinstance(argument, LogicalDevice):
            argument = argument.name
        if not isinstance(argument, str):
            raise errors.InvalidArgumentError(f"Expecting a string device name. Got {type(argument)}({argument})")
        return texts.check_text("device name", argument)


def device(device_name: Any) -> _DeviceScope:
    """Choose the device for the operations and allocations of a ``with`` block, in this thread.

    ``device_name`` is a string such as ``"GPU:1"`` or ``"/cpu:0"``, a LogicalDevice, a PhysicalDevice or VisibleDevice that is
    exactly one logical GPU, or ``None``, which places automatically. Initializes the runtime at once. Fields that the string
    leaves out come from the outer scope, at the top from CPU:0. Whether the device exists is checked when it is used, not here.

    A scope belongs to its thread: a new thread starts without one, and asyncio tasks that wait inside a scope share it.

    Raises RuntimeError for a function, and on entering ValueError for a string that does not parse, a GPU that is not exactly one
    logical GPU, or an object of another type.

    >>> with device("GPU:1"):
    ...     current_scope()
    '/job:localhost/replica:0/task:0/device:GPU:1'
    """
    if callable(device_name):
        raise errors.FailedPreconditionError("tf.device does not support functions.")
    runtime.logical_devices("device")
    return _DeviceScope(device_name)
