# SPDX-License-Identifier: Apache-2.0
"""``gpuconf.device``: the device for a thread's operations and allocations.

Scope names are TensorFlow's: fully qualified, merged field by field from the outer scope and the argument. The
extension module (``pybind/_gpuconf/scope.c``) holds each thread's stack of scopes, and stores the logical GPU of the
innermost one where the C entry points read it. It calls functions of this module for what it does not know yet.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from .. import errors
from .._typing import Any
from . import runtime, texts
from .device_spec import DeviceSpec, name_of
from .devices import LogicalDevice, PhysicalDevice, VisibleDevice
from .native import by_hand, core

TYPE_CHECKING = False


_PHYSICAL = "/physical_device:GPU:"  # as in the limits of gpuconf.configure's result

Device = str | DeviceSpec | LogicalDevice | PhysicalDevice | VisibleDevice


def text_of(device: object) -> str:
    """Return the string that names the device. The runtime must be initialized.

    Raises InvalidTypeError for an object of another type, and InvalidArgumentError for a string that cannot be passed
    to the core or a GPU that is not exactly one logical GPU.
    """
    if isinstance(device, LogicalDevice):
        device = device.name
    elif isinstance(device, (PhysicalDevice, VisibleDevice)):
        return _only_logical_gpu(device)
    elif isinstance(device, str) and device.startswith(_PHYSICAL):
        return _only_logical_gpu(PhysicalDevice(device, "GPU"))
    return texts.device_text(device)


def _only_logical_gpu(device: PhysicalDevice | VisibleDevice) -> str:
    runtime.logical_devices("device")
    kind, name = type(device).__name__, _name_of(device)
    if name is None:
        raise errors.InvalidArgumentError(f"{texts.shown(device)} is not a GPU of this process. {_there()}")
    ordinal = int(name.rpartition(":")[2])
    numbers = [number for number, at in enumerate(runtime.ordinals()) if at == ordinal]
    if len(numbers) != 1:
        split = ", ".join(f"GPU:{number}" for number in numbers)
        what = f"is split into {len(numbers)} logical GPUs ({split}); name one of them" if numbers else "is not visible"
        raise errors.InvalidArgumentError(f"the {kind} {name!r} {what}. {_there()}")
    return runtime.logical_gpu(numbers[0]).name


def _name_of(device: PhysicalDevice | VisibleDevice) -> str | None:
    """Return the name in the list of physical devices, or None if it is not a GPU there: a CPU, or a device of another
    machine.
    """
    name = device.name if isinstance(device, PhysicalDevice) else device.physical_device
    position, _ = runtime.position((name, "GPU"))
    if position < 0 or (isinstance(device, PhysicalDevice) and device.device_type != "GPU"):
        return None
    details = runtime.details(position)
    if isinstance(device, VisibleDevice) and details is not None and details.uuid != device.uuid:
        return None  # a GPU of an earlier simulation, at the same position
    return name


def _there() -> str:
    gpus = ", ".join(f"GPU:{number}" for number in range(len(runtime.ordinals())))
    return f"The logical GPUs are {gpus}" if gpus else "There is no logical GPU"


_MISSING = -2  # the core's number for a scope with an unknown device

# Functions of the extension module; None until the first scope is made. Before that, no thread is in one.
_scope: Callable[[Any], AbstractContextManager[None]] | None = None
_scope_name: Callable[[], str] | None = None
_scope_number: Callable[[], int] | None = None


def current_scope() -> str:
    """Return the full name of this thread's innermost scope, or "" outside a scope."""
    return "" if _scope_name is None else _scope_name()


def current_gpu() -> int:
    """Return the number of the logical GPU that this thread's innermost scope names, negative if it names none."""
    return -1 if _scope_number is None else _scope_number()


def check_scope() -> None:
    """Raise if this thread's scope names an unknown device.

    Called after an error, because the core knows only a number.
    """
    name = current_scope()
    if current_gpu() != _MISSING:
        return
    there = ", ".join(
        d.name.removeprefix("/device:") for d in runtime.logical_devices("device") if d.device_type == "GPU"
    )
    text = f"this thread's device scope names an unknown device: {texts.shown(name)}"
    raise errors.InvalidArgumentError(f"{text}. This process has {there or 'no logical GPU'}") from None


def gpu_number(device: Device | None, function: str) -> int:
    """Return the number of the logical GPU that an argument names. Initializes the runtime.

    ``function`` is the public function called. Returns -1 for None: the core then uses the GPU of this thread's scope,
    or GPU:0. If the core raises, call :func:`check_scope`.
    """
    runtime.logical_devices(function)
    return -1 if device is None else core.pybind_ResolveGPU(text_of(device))


def gpu_text(device: Device | None, function: str) -> str:
    """Return the name of the logical GPU that an argument names.

    None follows this thread's scope as in :func:`gpu_number`.
    """
    runtime.logical_devices(function)
    if device is not None:
        return text_of(device)
    check_scope()
    return f"GPU:{max(current_gpu(), 0)}"


# By library, a function that returns a context manager to enter with a scope on a GPU, or None, given the logical GPU's
# number.
companions: dict[str, Callable[[int], AbstractContextManager[Any] | None]] = {}


def _accompany(number: int) -> ExitStack:
    from contextlib import ExitStack

    with ExitStack() as stack:
        for companion in list(companions.values()):
            context = companion(number)
            if context is not None:
                stack.enter_context(context)
        return stack.pop_all()


def _check(argument: Any) -> None:
    """Check an argument that was not used before, and initialize the runtime."""
    if callable(argument):
        raise errors.FailedPreconditionError("tf.device does not support functions.")
    runtime.logical_devices("device")


def _text(argument: Any) -> str:
    """Return the text of an argument that is neither None nor a plain string."""
    if isinstance(argument, VisibleDevice) or (isinstance(argument, PhysicalDevice) and argument.device_type == "GPU"):
        return text_of(argument)
    argument = name_of(argument.name if isinstance(argument, LogicalDevice) else argument)
    if not isinstance(argument, str):
        number = f"; write 'GPU:{argument if type(argument) is int and 0 <= argument < 64 else 0}'"
        raise errors.InvalidArgumentError(f"Expecting a string device name. Got {type(argument)}({argument}){number}")
    return str.__str__(argument)


def _resolve(outer: str, argument: str | None) -> tuple[str, int, int]:
    """Return the full name of a scope, its logical GPU's number, and the generation of devices in which both are
    valid.
    """
    with runtime.unchanged():  # no reset can run during this block
        runtime.logical_devices("device")  # a reset may have run since the scope was created
        name = "" if argument is None else core.pybind_MergeScope(outer, texts.check_text("device name", argument))
        return name, core.pybind_ScopeNumber(name), by_hand().generation()


def _connect() -> Callable[[Any], AbstractContextManager[None]]:
    """Load the core, and connect the extension module with this one. A second time changes nothing."""
    global _scope, _scope_name, _scope_number
    module = by_hand()
    module.connect_scope(_check, _text, _resolve, _accompany, companions)
    made: Callable[[Any], AbstractContextManager[None]] = module.scope
    _scope_name, _scope_number, _scope = module.scope_name, module.scope_number, made
    return made


def device(device_name: Any) -> AbstractContextManager[None]:
    """Choose the device for the operations and allocations of a ``with`` block, in this thread.

    ``device_name`` is a string such as ``"GPU:1"`` or ``"/cpu:0"``, a DeviceSpec, a LogicalDevice, a PhysicalDevice or
    VisibleDevice that is exactly one logical GPU, or ``None``, which places automatically. Initializes the runtime
    immediately. Fields missing from the string come from the outer scope, or from CPU:0 at the top level. Whether the
    device exists is checked on use, not here.

    A scope belongs to its thread: a new thread starts without one, and asyncio tasks that wait inside a scope share it.

    Raises RuntimeError for a function, and on entering ValueError for a string that does not parse, a GPU that is not
    exactly one logical GPU, or an object of another type.

    >>> with device("GPU:1"):
    ...     current_scope()
    '/job:localhost/replica:0/task:0/device:GPU:1'
    """
    if _scope is not None:
        return _scope(device_name)
    _check(device_name)
    return _connect()(device_name)
