"""``gpuconf.device``: the device for a thread's operations and allocations.

Scope names are TensorFlow's: fully qualified, merged field by field from the outer scope and the argument. Python holds each
thread's stack of scopes; the logical GPU of the innermost scope is stored where the C entry points read it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from .. import errors
from .._typing import Any
from . import device_argument, runtime, texts
from .device_spec import name_of
from .devices import LogicalDevice, PhysicalDevice, VisibleDevice
from .native import core, loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .device_argument import Device


class _Current(threading.local):
    """A thread's innermost scope. A new thread starts without one."""

    name: str = ""  # "" places automatically
    entry: tuple[str, str | None] | None = None  # the outer scope's name and the argument that name was merged from
    number: int = -1  # the number of the scope's logical GPU, negative if none
    generation: int = 0


_current = _Current()
_MISSING = -2  # the core's number for a scope with an unknown device

# (outer name, argument) -> the scope's name. TensorFlow has this cache too.
_names: dict[tuple[str, str], str] = {}
runtime.on_forget(_names.clear)


def current_scope() -> str:
    """Return the full name of this thread's innermost scope, or "" outside a scope."""
    if _current.generation != runtime.current.generation:
        _current.name, _current.entry, _current.number, _current.generation = "", None, -1, runtime.current.generation
    return _current.name


def current_gpu() -> int:
    """Return the number of the logical GPU that this thread's innermost scope names, negative if it names none."""
    current_scope()
    return _current.number


def check_scope() -> None:
    """Raise if this thread's scope names an unknown device. Called after an error, because the core knows only a number."""
    name = current_scope()
    if _current.number != _MISSING:
        return
    there = ", ".join(d.name.removeprefix("/device:") for d in runtime.logical_devices("device") if d.device_type == "GPU")
    text = f"this thread's device scope names an unknown device: {texts.shown(name)}"
    raise errors.InvalidArgumentError(f"{text}. This process has {there or 'no logical GPU'}")


def gpu_number(device: Device | None, function: str) -> int:
    """Return the number of the logical GPU that an argument names. Initializes the runtime.

    ``function`` is the public function called. Returns -1 for None: the core then uses the GPU of this thread's scope, or GPU:0.
    If the core raises, call :func:`check_scope`.
    """
    runtime.logical_devices(function)
    return -1 if device is None else core.pybind_ResolveGPU(device_argument.text_of(device))


def gpu_text(device: Device | None, function: str) -> str:
    """Return the name of the logical GPU that an argument names; None follows this thread's scope as in :func:`gpu_number`."""
    runtime.logical_devices(function)
    if device is not None:
        return device_argument.text_of(device)
    check_scope()
    return f"GPU:{max(current_gpu(), 0)}"


# By library, a function that returns a context manager to enter with a scope on a GPU, or None, given the logical GPU's number.
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
    """Make a name this thread's scope, first in the core, which may reject it. The caller prevents a reset meanwhile."""
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
    """The context manager that ``gpuconf.device`` returns. It is reusable and reentrant, also in several threads.

    Each thread has its own ``_entered``.
    """

    _ending = staticmethod(sys.is_finalizing)  # see Buffer._ending

    def __init__(self, device_name: Any) -> None:
        self._device_name = device_name
        # For each active entry: the outer scope's name and entry, this entry, and the generation.
        self._entered: list[tuple[str, Any, tuple[str, str | None], int]] = []
        self._accompanied: list[ExitStack | None] = []  # the contexts of other libraries, for each active entry

    def __enter__(self) -> None:
        argument = self._argument()
        with runtime.unchanged():  # no reset can run during this block
            runtime.logical_devices("device")  # a reset may have run since this object was created
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
        # Scopes with the same name may have different entries. TensorFlow treats scopes with equal entries as one, too.
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
            if generation == runtime.current.generation:  # otherwise a reset has already left all scopes, in the core too
                _set(outer, entry)

    def _argument(self) -> str | None:
        argument = self._device_name
        if argument is None:
            return None
        if isinstance(argument, VisibleDevice) or (isinstance(argument, PhysicalDevice) and argument.device_type == "GPU"):
            return device_argument.text_of(argument)
        argument = name_of(argument.name if isinstance(argument, LogicalDevice) else argument)
        if not isinstance(argument, str):
            raise errors.InvalidArgumentError(f"Expecting a string device name. Got {type(argument)}({argument})")
        return texts.check_text("device name", argument)


def device(device_name: Any) -> _DeviceScope:
    """Choose the device for the operations and allocations of a ``with`` block, in this thread.

    ``device_name`` is a string such as ``"GPU:1"`` or ``"/cpu:0"``, a DeviceSpec, a LogicalDevice, a PhysicalDevice or
    VisibleDevice that is exactly one logical GPU, or ``None``, which places automatically. Initializes the runtime immediately.
    Fields missing from the string come from the outer scope, or from CPU:0 at the top level. Whether the device exists is checked
    on use, not here.

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
