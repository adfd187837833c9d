"""The life of the runtime as Python sees it: enumerated, initialised, reset.

Go holds the state. What is kept here are copies of what can't change until the next reset (the device lists), so that
a call needn't fetch them again, and the caller's own objects that TensorFlow's getters give back. ``replace`` drops
them all by starting a new state. Code that keeps such a copy elsewhere compares ``current.generation``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from .._typing import Any
from .devices import LogicalDevice, PhysicalDevice
from .fork import module_lock
from .native import core
from .notices import publish

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from typing import TypeVar

    T = TypeVar("T")

_lock = module_lock(globals(), "_lock")


class _State:
    """What is known between two resets. ``replace`` puts a new one in its place; until then its fields are only filled in."""

    __slots__ = (
        "at_enumeration",
        "full_names",
        "generation",
        "host_visible",
        "joined",
        "logical",
        "ordinals",
        "overrides",
        "physical",
        "positions",
        "simulated",
    )

    def __init__(self, generation: int) -> None:
        self.generation = generation  # differs after each reset, and after a session has set the pools up anew
        self.physical: list[PhysicalDevice] | None = None
        self.positions: dict[Any, int] = {}
        self.simulated = ""
        self.logical: list[LogicalDevice] | None = None
        self.joined = False  # whether the logical devices are a session's, and nothing else has asked for them yet
        self.full_names: dict[str, str] = {}
        self.ordinals: list[int] = []
        self.host_visible = False
        self.overrides: dict[str, str] = {}  # what gpuconf.configure asks for beyond the environment, and before it
        # What a ConfigProto that the program started with sets once the devices are listed; at most one.
        self.at_enumeration: list[Callable[[], object]] = []


current = _State(0)

# What ends with a runtime and lives in another module (the scope cache, configurations kept for getters).
_on_forget: list[Callable[[], None]] = []


def on_forget(clear: Callable[[], None]) -> Callable[[], None]:
    """Register what to clear when the runtime is reset."""
    _on_forget.append(clear)
    return clear


# The variables that Go reads, by prefix. It can't see os.environ: it has a copy of the environment of the process's start.
_ENVIRONMENT = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GPUCONF_", "TF_")


def environment() -> str:
    """The environment for the core, as JSON: the variables that it reads, and what stands in for them."""
    import json

    read = {name: value.encode("utf-8", "replace").decode() for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)}
    read["GPUCONF_LIBRARY_FOLDERS"] = "\n".join(_library_folders())
    return json.dumps({**read, **current.overrides})


def _library_folders() -> list[str]:
    """Where pip has put NVIDIA's libraries: the folders ``nvidia`` on the module search path."""
    folders = (os.path.join(entry, "nvidia") for entry in sys.path if isinstance(entry, str) and os.path.isabs(entry))
    return [folder.encode("utf-8", "replace").decode() for folder in folders if os.path.isdir(folder)]


def _caller(function: str) -> str:
    """The line outside gpuconf that led here, for the errors of later calls that come too late."""
    package = os.path.dirname(os.path.dirname(__file__)) + os.sep  # as it is: making it absolute fails in a folder that was deleted
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
    # A file's name may hold bytes that are no text.
    path = frame.f_code.co_filename.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return f"{path}:{frame.f_lineno} ({function})"


def physical_devices() -> list[PhysicalDevice]:
    """The physical devices; the first call lists them. The list is shared: copy before you hand it out."""
    while (devices := current.physical) is None:  # another thread may reset in between
        _enumerate()
    return devices


def _enumerate() -> None:
    with _lock:
        if current.physical is not None:
            return
        list_devices = core.pybind_Enumerate  # loads the core, which comes before all imports: see _native._load
        import json

        told = json.loads(list_devices(environment()))
        publish()
        devices = [PhysicalDevice(name, device_type) for name, device_type in told["physical"]]
        current.positions.update({device: i for i, device in enumerate(devices)})
        current.simulated = told["simulated"]
        current.physical = devices
        if current.at_enumeration:
            current.at_enumeration.pop()()  # once: if it raises, the next call goes on without it, as in TensorFlow


def enumerated() -> bool:
    """Whether the physical devices were listed."""
    return current.physical is not None


def position(device: object) -> tuple[int, str]:
    """Where a device stands in the physical list, and how to print it where it doesn't: (-1, its repr)."""
    physical_devices()
    try:
        return current.positions[device], ""
    except (KeyError, TypeError):
        return -1, repr(device).encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")  # as it may cross the border


def simulated() -> str:
    """The specification of the simulated machine, or "" on a real one."""
    physical_devices()
    return current.simulated


def logical_devices(function: str) -> list[LogicalDevice]:
    """The logical devices; the first call initialises the runtime. ``function`` is what the user called."""
    while (devices := current.logical) is None or current.joined:  # another thread may reset in between
        initialize(function)
    return devices


def initialize(function: str) -> None:
    """Build the logical devices, unless they are there, and freeze the configuration."""
    if current.logical is not None and not current.joined:
        return
    with _lock:  # a reset must not come between the two steps
        if current.logical is not None and not current.joined:
            return
        physical_devices()
        try:
            told = core.pybind_Initialize(environment(), _caller(function))
        finally:
            publish()
        if current.logical is None:
            _list_logical(told)
        current.joined = False


def _list_logical(encoded: str) -> None:
    """Keep what the core says of the logical devices. The lock is held."""
    import json

    told = json.loads(encoded)
    current.full_names.update({name: full_name for name, _, full_name, _ in told["logical"]})
    current.ordinals.extend(ordinal for _, device_type, _, ordinal in told["logical"] if device_type == "GPU")
    current.host_visible = told["host_visible"]
    current.logical = [LogicalDevice(name, device_type) for name, device_type, _, _ in told["logical"]]


def join(function: str, open_session: Callable[[str, str], int], cpus_only: bool) -> int:
    """Open a session, which may build the logical devices, or build them anew. Gives the session's number.

    A session that wants ``cpus_only`` builds none: the first call that needs them does.
    """
    with _lock:
        physical_devices()
        first = current.logical is None or current.joined
        try:
            receipt = open_session(environment(), _caller(function))
        finally:
            publish()
        if receipt & 1 and current.logical is not None:  # there are others now
            current.logical = None
            current.full_names.clear()
            current.ordinals.clear()
            current.generation += 1
        if not cpus_only and current.logical is None:
            current.joined = first
            _list_logical(core.pybind_LogicalDevices())
    return receipt >> 1


def initialized() -> bool:
    """Whether the logical devices are there."""
    return current.logical is not None


def host_visible() -> bool:
    """Whether device memory can be read at its address, as on simulated GPUs."""
    return current.host_visible


def full_name(name: str) -> str:
    """The full name of a logical device, with job and task."""
    return current.full_names[name]


def ordinals() -> list[int]:
    """The CUDA ordinal of each logical GPU, by number. The list is shared."""
    return current.ordinals


def logical_gpu(number: int) -> LogicalDevice:
    """A logical GPU by number: the CPUs come first in the list."""
    assert current.logical is not None
    return current.logical[len(current.logical) - len(current.ordinals) + number]


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
    global current
    for clear in _on_forget:
        clear()
    current = _State(current.generation + 1)


def _after_fork_in_child() -> None:
    current.physical = current.logical = None  # to list them again is refused


os.register_at_fork(after_in_child=_after_fork_in_child)
