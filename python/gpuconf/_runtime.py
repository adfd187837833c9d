"""The life of the runtime as Python sees it: enumerated, initialised, reset.

Go holds the state. What is kept here are copies of what can't change until the next reset (the device lists), so that
a call needn't fetch them again, and the caller's own objects that TensorFlow's getters give back. ``replace`` drops
them all; whoever keeps such a copy elsewhere asks for ``generation``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from . import errors
from ._fork import module_lock
from ._native import core
from ._notices import publish
from ._types import LogicalDevice, PhysicalDevice
from ._typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from typing import TypeVar

    T = TypeVar("T")

_lock = module_lock(globals(), "_lock")
generation = 0

_physical: list[PhysicalDevice] | None = None
_positions: dict[Any, int] = {}
_logical: list[LogicalDevice] | None = None
_joined = False  # whether the logical devices are a session's, and nothing else has asked for them yet
_full_names: dict[str, str] = {}
_ordinals: list[int] = []
_simulated = ""
_host_visible = False

# What ends with a runtime and lives in another module (the scope cache, configurations kept for getters).
_on_forget: list[Callable[[], None]] = []


def on_forget(clear: Callable[[], None]) -> Callable[[], None]:
    """Register what to clear when the runtime is reset."""
    _on_forget.append(clear)
    return clear


# The variables that Go reads, by prefix. It can't see os.environ: it has a copy of the environment of the process's start.
_ENVIRONMENT = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GPUCONF_", "TF_")


# What gpuconf.configure asks for beyond the environment, and before it. Lasts until the next reset.
overrides: dict[str, str] = {}
_on_forget.append(overrides.clear)


# What a ConfigProto that the program started with has to say, at most one. Lasts until it is said, or the next reset.
at_enumeration: list[Callable[[], object]] = []
_on_forget.append(at_enumeration.clear)


def environment() -> str:
    """The environment for the core, as JSON: the variables that it reads, and what stands in for them."""
    import json

    read = {name: value.encode("utf-8", "replace").decode() for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)}
    read["GPUCONF_LIBRARY_FOLDERS"] = "\n".join(_library_folders())
    return json.dumps({**read, **overrides})


def _library_folders() -> list[str]:
    """Where pip has put NVIDIA's libraries: the folders ``nvidia`` on the module search path."""
    folders = (os.path.join(entry, "nvidia") for entry in sys.path if isinstance(entry, str) and os.path.isabs(entry))
    return [folder.encode("utf-8", "replace").decode() for folder in folders if os.path.isdir(folder)]


def _caller(function: str) -> str:
    """The line outside gpuconf that led here, for the errors of later calls that come too late."""
    package = os.path.dirname(__file__) + os.sep  # as it is: making it absolute fails in a folder that was deleted
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
    # A file's name may hold bytes that are no text.
    path = frame.f_code.co_filename.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return f"{path}:{frame.f_lineno} ({function})"


def physical_devices() -> list[PhysicalDevice]:
    """The physical devices; the first call lists them. The list is shared: copy before you hand it out."""
    while (devices := _physical) is None:  # another thread may reset in between
        _enumerate()
    return devices


def _enumerate() -> None:
    global _physical, _simulated
    with _lock:
        if _physical is not None:
            return
        list_devices = core.pybind_Enumerate  # loads the core, which comes before all imports: see _native._load
        import json

        told = json.loads(list_devices(environment()))
        publish()
        devices = [PhysicalDevice(name, device_type) for name, device_type in told["physical"]]
        _positions.update({device: i for i, device in enumerate(devices)})
        _simulated = told["simulated"]
        _physical = devices
        if at_enumeration:
            at_enumeration.pop()()  # once: if it raises, the next call goes on without it, as in TensorFlow


def enumerated() -> bool:
    """Whether the physical devices were listed."""
    return _physical is not None


def position(device: object) -> tuple[int, str]:
    """Where a device stands in the physical list, and how to print it where it doesn't: (-1, its repr)."""
    physical_devices()
    try:
        return _positions[device], ""
    except (KeyError, TypeError):
        return -1, repr(device).encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")  # as it may cross the border


def simulated() -> str:
    """The specification of the simulated machine, or "" on a real one."""
    physical_devices()
    return _simulated


def logical_devices(function: str) -> list[LogicalDevice]:
    """The logical devices; the first call initialises the runtime. ``function`` is what the user called."""
    while (devices := _logical) is None or _joined:  # another thread may reset in between
        initialize(function)
    return devices


def initialize(function: str) -> None:
    """Build the logical devices, unless they are there, and freeze the configuration."""
    global _joined
    if _logical is not None and not _joined:
        return
    with _lock:  # a reset must not come between the two steps
        if _logical is not None and not _joined:
            return
        physical_devices()
        try:
            told = core.pybind_Initialize(environment(), _caller(function))
        finally:
            publish()
        if _logical is None:
            _list_logical(told)
        _joined = False


def _list_logical(encoded: str) -> None:
    """Keep what the core says of the logical devices. The lock is held."""
    global _logical, _host_visible
    import json

    told = json.loads(encoded)
    _full_names.update({name: full_name for name, _, full_name, _ in told["logical"]})
    _ordinals.extend(ordinal for _, device_type, _, ordinal in told["logical"] if device_type == "GPU")
    _host_visible = told["host_visible"]
    _logical = [LogicalDevice(name, device_type) for name, device_type, _, _ in told["logical"]]


def join(function: str, open_session: Callable[[str, str], int], cpus_only: bool) -> int:
    """Open a session, which may build the logical devices, or build them anew. Gives the session's number.

    A session that wants ``cpus_only`` builds none: the first call that needs them does.
    """
    global _joined, _logical, generation
    with _lock:
        physical_devices()
        first = _logical is None or _joined
        try:
            receipt = open_session(environment(), _caller(function))
        finally:
            publish()
        if receipt & 1 and _logical is not None:  # there are others now
            _logical = None
            _full_names.clear()
            _ordinals.clear()
            generation += 1
        if not cpus_only and _logical is None:
            _joined = first
            _list_logical(core.pybind_LogicalDevices())
    return receipt >> 1


def initialized() -> bool:
    """Whether the logical devices are there."""
    return _logical is not None


def host_visible() -> bool:
    """Whether device memory can be read at its address, as on simulated GPUs."""
    return _host_visible


def full_name(name: str) -> str:
    """The full name of a logical device, with job and task."""
    return _full_names[name]


def ordinals() -> list[int]:
    """The CUDA ordinal of each logical GPU, by number. The list is shared."""
    return _ordinals


def logical_gpu(number: int) -> LogicalDevice:
    """A logical GPU by number: the CPUs come first in the list."""
    assert _logical is not None
    return _logical[len(_logical) - len(_ordinals) + number]


def unchanged() -> threading.RLock:
    """A lock: while a thread holds it, no other lists devices or resets."""
    return _lock


def replace(change: Callable[[], T]) -> T:
    """Run what empties Go's state, and forget the copies of it, as one step for all threads.

    In two steps, a thread could list the new devices in between, and what it got would be forgotten with the old.
    """
    with _lock:
        changed = change()
        _forget()
        return changed


def _forget() -> None:
    global _physical, _logical, _joined, _simulated, _host_visible, generation
    _physical = _logical = None
    _joined, _simulated, _host_visible = False, "", False
    _positions.clear()
    _full_names.clear()
    _ordinals.clear()
    for clear in _on_forget:
        clear()
    generation += 1


def _after_fork_in_child() -> None:
    global _physical, _logical
    _physical = _logical = None  # to list them again is refused


os.register_at_fork(after_in_child=_after_fork_in_child)


def shown(value: object) -> str:
    """A caller's object for a message, without its middle where it is long."""
    text = bounded_repr(value)
    return text if len(text) <= 400 else f"{text[:200]}... {len(text) - 300} characters ...{text[-100:]}"


def bounded_repr(value: object) -> str:
    """An object's repr, which ends soon and never raises: lists within lists are cut short, and a repr may fail."""
    try:
        if not isinstance(value, (list, tuple, dict, set, frozenset)) or hasattr(value, "_fields"):
            return repr(value)
        import reprlib

        cut = reprlib.Repr()
        cut.maxlevel, cut.maxstring, cut.maxlong, cut.maxother = 4, 400, 400, 400
        cut.maxlist = cut.maxtuple = cut.maxdict = cut.maxset = cut.maxfrozenset = 16
        return cut.repr(value)
    except Exception as error:  # a number of more digits than Python prints, an object's own failure
        return f"a {type(value).__name__} that can't be shown: {type(error).__name__}"


def check_text(what: str, value: object) -> str:
    """A string that can cross the border, or the error that says why not."""
    if not isinstance(value, str):
        raise errors.InvalidTypeError(f"{what} must be a string, but got {type(value).__name__}: {shown(value)}")
    if "\0" in value:
        raise errors.InvalidArgumentError(f"{what} must not contain a NUL character: {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise errors.InvalidArgumentError(f"{what} is not valid text (it has a lone surrogate): {shown(value)}") from None
    return value


def device_text(device: object) -> str:
    """A device argument as a string that can cross the border, or the error that says what to write."""
    try:
        return check_text("device", device)
    except errors.InvalidTypeError as error:
        remedy = ""
        if isinstance(device, PhysicalDevice):
            remedy = "; use the name of one of list_logical_devices()"
        elif isinstance(device, LogicalDevice) and isinstance(device.name, str):
            remedy = "; use its name"
        elif isinstance(device, int) and not isinstance(device, bool):
            remedy = f"; write 'GPU:{device}'" if 0 <= device < 10_000 else "; write 'GPU:0'"
        raise errors.InvalidTypeError(f"{error}{remedy}") from None
