# SPDX-License-Identifier: Apache-2.0
"""The state of the runtime on the Python side: enumerated, initialized, reset.

Go holds the state. This module caches what cannot change until the next reset (the device lists), and keeps the
caller's own objects that TensorFlow's getters return. ``replace`` drops all of it by starting a new state. Code that
keeps such a copy elsewhere compares ``current.generation``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from .._typing import Any
from . import message, settings
from .devices import LogicalDevice, PhysicalDevice
from .fork import module_lock
from .message import calling_frame as calling_frame
from .message import dumps, loads, publish
from .native import by_hand, core, loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from types import FrameType
    from typing import TypeVar

    from .generated import details as wire

    T = TypeVar("T")


# The files that a driver's GPUs have: on a server or a desktop, under WSL, on Tegra.
DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvmap")

BEGINNING = "the GPUs are simulated ("

_callers: dict[str, str] = {}  # by the machine's specification: the last call that requested it, as "file:line (call)"
_caller = ""  # of the machine that a call has chosen; "" if none has
_told: set[str] = set()


def has_driver() -> bool:
    """Report whether this machine seems to have a GPU. Nothing is opened: a simulation uses nothing of the driver."""
    return any(os.path.exists(path) for path in DRIVER_FILES)


def chosen(spec: str, caller: str = "") -> None:
    """Remember that a call has chosen a machine, or with "" that no call has.

    Without a caller, it is the one of before.
    """
    global _caller
    if spec and caller:
        _callers[spec] = caller
    _caller = _callers.get(spec, "") if spec else ""


def warn(spec: str) -> None:
    """Log once who requested a simulated machine, if there seems to be a real one."""
    if not has_driver():
        return
    who = _caller or settings.asked("GPUCONF_SIMULATE", os.environ)
    text = f"{BEGINNING}{spec}), although this machine has a driver of real ones. Requested by: {who}"
    if text not in _told:
        _told.add(text)
        message.log("warning", text)


_lock = module_lock(globals(), "_lock")


class _State:
    """The state between two resets.

    ``replace`` replaces it with a new one; until then its fields are only filled in.
    """

    def __init__(self, generation: int) -> None:
        self.generation = generation  # changes on each reset, and when a session rebuilds the pools
        self.physical: list[PhysicalDevice] | None = None
        self.positions: dict[Any, int] = {}
        self.simulated = ""
        self.logical: list[LogicalDevice] | None = None
        self.encoded = ""  # the core's description of the logical devices
        self.origin = ""  # the call that initialized the runtime, as "file:line (function)"
        self.joined = False  # whether a session built the logical devices, and nothing else has used them yet
        self.full_names: dict[str, str] = {}
        self.ordinals: list[int] = []
        self.host_visible = False
        # This process's slot in the ledger, as identified() returns it.
        self.published: tuple[int, int, int] | None = None
        # Variables set by gpuconf.configure; they take precedence over the environment.
        self.overrides: dict[str, str] = {}
        # Applies the ConfigProto that the program started with, once the devices are listed; at most one.
        self.at_enumeration: list[Callable[[], object]] = []


current = _State(0)

# Clears per-runtime state kept in other modules (the scope cache, configurations kept for getters).
_on_forget: list[Callable[[], None]] = []


def on_forget(clear: Callable[[], None]) -> Callable[[], None]:
    """Register a function that clears state when the runtime is reset."""
    _on_forget.append(clear)
    return clear


# Read what a reset forgets, or would if it were not refused: the pytest plugin's peaks.
before_replacing: list[Callable[[], object]] = []

# Run after each change of the devices' configuration that config's functions make.
_on_configured: list[Callable[[], None]] = []


def on_configured(follow: Callable[[], None]) -> Callable[[], None]:
    """Register a function that runs after each change of visible devices, growth or logical devices."""
    _on_configured.append(follow)
    return follow


def configured() -> None:
    """Run the registered functions. Called without a lock."""
    for follow in _on_configured:
        follow()


# The variables that Go reads, by prefix. Go does not see changes of os.environ: it copied the environment at process
# start.
_ENVIRONMENT = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "GPUCONF_",
    "LD_LIBRARY_PATH",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "TF_",
)


# Values of CUDA_VISIBLE_DEVICES that name GPUs of another machine than the simulated one, and so hide none of its GPUs.
other_machines_masks: set[str] = set()


def environment() -> str:
    """Return the environment for the core, as JSON: the variables that it reads, completed by files, and the
    overrides.
    """
    found = settings.environment(os.environ, _ENVIRONMENT)
    read = {name: value.encode("utf-8", "replace").decode() for name, value in found.items()}
    if found.get("CUDA_VISIBLE_DEVICES") in other_machines_masks:
        del read["CUDA_VISIBLE_DEVICES"]
    folders = module_folders(sys.path)
    read["GPUCONF_MODULE_FOLDERS"] = "\n".join(folders)
    read["GPUCONF_PYTHON"] = (sys.executable or "").encode("utf-8", "replace").decode()
    # Where pip installs NVIDIA's libraries.
    nvidia = (os.path.join(folder, "nvidia") for folder in folders)
    read["GPUCONF_LIBRARY_FOLDERS"] = "\n".join(filter(os.path.isdir, nvidia))
    read[settings.VARIABLE] = _ledger()
    return dumps({**read, **current.overrides})


def _ledger() -> str:
    """Return the folder of the ledger in which the core publishes the use of the GPUs; "" if there is none."""
    folder = settings.default_folder()
    return folder.encode("utf-8", "replace").decode() if settings.has_ledger(folder) else ""


def module_folders(path: list[str]) -> list[str]:
    """Return the folders of a module search path, as text for the core."""
    folders = (entry for entry in path if isinstance(entry, str) and os.path.isabs(entry))
    return [folder.encode("utf-8", "replace").decode() for folder in folders]


def caller(function: str) -> str:
    """Return the line outside gpuconf that called into it, for the errors of later calls that come too late.

    It is the program's own, if there is one: that of a library, such as PyTorch, says little. stacks.py knows more
    libraries, by regular expressions that a first call is not to wait for.
    """
    first = calling_frame()
    frame: FrameType | None = first
    while frame is not None and "-packages/" in frame.f_code.co_filename:
        frame = frame.f_back
    if frame is None or not frame.f_code.co_filename.endswith(".py"):  # such as bin/pytest
        frame = first
    # A file name may contain undecodable bytes.
    path = frame.f_code.co_filename.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return f"{path}:{frame.f_lineno} ({function})"


def physical_devices() -> list[PhysicalDevice]:
    """Return the physical devices; the first call lists them.

    The list is shared: copy it before returning it to a user.
    """
    while (devices := current.physical) is None:  # another thread may reset in between
        _enumerate()
    return devices


def _enumerate() -> None:
    with _lock:
        if current.physical is not None:
            return
        list_devices = core.pybind_Enumerate  # loads the core, which must precede all imports: see native._load
        listed, spec = loads(list_devices(environment()))
        publish()
        devices = [PhysicalDevice(name, device_type) for name, device_type in listed]
        _warn_of_words()
        current.positions.update({device: i for i, device in enumerate(devices)})
        current.simulated = spec
        if current.simulated:
            warn(current.simulated)
            _warn_of_another_machine(devices)
        current.physical = devices
        if current.at_enumeration:
            # Only once: if it raises, the next call continues without it, as in TensorFlow.
            current.at_enumeration.pop()()


def _warn_of_words() -> None:
    """Warn of what CUDA ignores and does not report: PyTorch's names in CUDA_VISIBLE_DEVICES, and unknown orders."""
    written, order = (os.environ.get(name, "") for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"))
    texts: list[str] = []
    for entry in written.split(","):
        head, _, number = entry.strip().lower().partition(":")
        if head in ("cuda", "gpu") and number.isdigit() and not texts:
            ignored = f'CUDA ignores "{entry.strip()}" and what follows it'
            texts.append(f'CUDA_VISIBLE_DEVICES="{written}": {ignored}. Did you mean "{number}"?')
    if order not in ("", "FASTEST_FIRST", "PCI_BUS_ID"):
        texts.append(f'CUDA_DEVICE_ORDER="{order}": CUDA ignores it. It knows FASTEST_FIRST and PCI_BUS_ID')
    if texts:
        import warnings

        for text in texts:
            warnings.warn_explicit(text, UserWarning, "environment", 0)


def _warn_of_another_machine(devices: list[PhysicalDevice]) -> None:
    """Warn if a call in a job has simulated GPUs and CUDA_VISIBLE_DEVICES has the UUIDs of others, those of its lease.

    Without a lease the variable is the user's own, who may hide all GPUs by it; memory of them fails with its name.
    """
    written = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    hidden = not any(device.device_type == "GPU" for device in devices) and written.startswith(("GPU-", "MIG-"))
    if hidden and _caller and os.environ.get("GPUCONF_LEASE") and written not in other_machines_masks:
        import warnings

        text = (
            f'CUDA_VISIBLE_DEVICES="{written}", which the lease has set, names none of the simulated GPUs '
            f"({current.simulated}), so this process sees none. Simulate them outside of the lease, or unset the "
            "variable before gpuconf.simulate()"
        )
        warnings.warn_explicit(text, UserWarning, "environment", 0)


def enumerated() -> bool:
    """Report whether the physical devices were listed."""
    return current.physical is not None


def position(device: object) -> tuple[int, str]:
    """Return (index, "") for a device in the list of physical devices, and (-1, repr) for any other object."""
    physical_devices()
    try:
        return current.positions[device], ""
    except (KeyError, TypeError):
        # Valid text for the core.
        return -1, repr(device).encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def details(position: int) -> wire.DeviceDetails | None:
    """Return what is known of a physical device, by its index in the list of them; None for the CPU."""
    from .generated.details import DeviceDetails

    found = loads(core.pybind_DeviceDetails(position))
    return found and DeviceDetails(*found)


def details_of(gpu: PhysicalDevice) -> wire.DeviceDetails:
    """Return what is known of a physical GPU that was listed."""
    found = details(position(gpu)[0])
    assert found is not None, gpu
    return found


def simulated() -> str:
    """Return the specification of the simulated machine, or "" on a real machine."""
    physical_devices()
    return current.simulated


def logical_devices(function: str) -> list[LogicalDevice]:
    """Return the logical devices; the first call initializes the runtime.

    ``function`` is the public function called.
    """
    while (devices := current.logical) is None or current.joined:  # another thread may reset in between
        initialize(function)
    return devices


def initialize(function: str) -> None:
    """Build the logical devices unless they exist, and freeze the configuration."""
    if current.logical is not None and not current.joined:
        return
    with _lock:  # a reset must not come between the two steps
        if current.logical is not None and not current.joined:
            return
        physical_devices()
        try:
            origin = caller(function)
            encoded = core.pybind_Initialize(environment(), origin)
        finally:
            publish()
        current.origin = origin
        # Settings made after a session have replaced them.
        if current.logical is not None and current.encoded != encoded:
            _drop_logical()
        if current.logical is None:
            _list_logical(encoded)
        current.joined = False


def _list_logical(encoded: str) -> None:
    """Store the core's description of the logical devices. The caller holds the lock."""
    listed, current.host_visible, published = loads(encoded)
    current.full_names.update({name: full_name for name, _, full_name, _ in listed})
    current.ordinals.extend(ordinal for _, device_type, _, ordinal in listed if device_type == "GPU")
    current.published = identified(published)
    current.encoded = encoded
    current.logical = [LogicalDevice(name, device_type) for name, device_type, _, _ in listed]


def _drop_logical() -> None:
    """Forget the logical devices, which others replace. The caller holds the lock."""
    current.logical = None
    current.full_names.clear()
    current.ordinals.clear()
    current.generation += 1


def join(function: str, open_session: Callable[[str, str], int], cpus_only: bool) -> int:
    """Open a session, which may build or rebuild the logical devices. Returns the session's number.

    With ``cpus_only`` the session builds none: the first call that needs them does.
    """
    with _lock:
        physical_devices()
        first = current.logical is None or current.joined
        try:
            origin = caller(function)
            receipt = open_session(environment(), origin)
        finally:
            publish()
        if receipt & 1 and current.logical is not None:  # the session replaced them
            _drop_logical()
        if not cpus_only and current.logical is None:
            current.joined, current.origin = first, origin
            _list_logical(core.pybind_LogicalDevices())
    return receipt >> 1


def initialized() -> bool:
    """Report whether the logical devices exist."""
    return current.logical is not None


def listed() -> bool:
    """Report whether the logical devices exist as they are set: listing them changes nothing, and does not fail."""
    return initialized() and not current.joined


def origin() -> str:
    """Return the call that initialized the runtime, as "file:line (function)"; "" before."""
    return current.origin


def host_visible() -> bool:
    """Report whether the host can access device memory at its address, as on simulated GPUs."""
    return current.host_visible


def full_name(name: str) -> str:
    """Return the full name of a logical device, with job and task."""
    return current.full_names[name]


def ordinals() -> list[int]:
    """Return the CUDA ordinal of each logical GPU, by number. The list is shared."""
    return current.ordinals


def logical_gpu(number: int) -> LogicalDevice:
    """Return a logical GPU by number. CPUs come first in the list of logical devices."""
    assert current.logical is not None
    return current.logical[len(current.logical) - len(current.ordinals) + number]


def unchanged() -> threading.RLock:
    """Return a lock. While a thread holds it, no other thread lists devices or resets the runtime."""
    return _lock


def replace(change: Callable[[], T]) -> T:
    """Run a function that clears Go's state, and drop the copies of that state here, in one step for all threads.

    In two steps, another thread could list the new devices in between, and its result would be dropped with the old
    state.
    """
    with _lock:
        for read in before_replacing:
            read()
        before = _generation()
        try:
            changed = change()
            _forget()
        except BaseException:  # a signal handler's may come when the core has changed, and nothing here
            if _generation() != before:
                _forget()
            raise
        return changed


def _generation() -> int:
    """Return the core's number of its devices."""
    return by_hand().generation() if loaded() else -1


def _forget() -> None:
    global current
    for clear in _on_forget:
        clear()
    current = _State(current.generation + 1)


def identified(descriptor: int) -> tuple[int, int, int] | None:
    """Return a descriptor and the file that it is of; None for a negative number."""
    if descriptor < 0:
        return None
    status = os.fstat(descriptor)
    return descriptor, status.st_dev, status.st_ino


def _after_fork_in_child() -> None:
    current.physical = current.logical = None  # listing them again raises ForkedProcessError
    published, current.published = current.published, None
    if published is None:
        return
    # Its copy would keep the slot alive after the parent; unlocking it would end the parent's slot. Another thread of
    # the parent may have closed it already, and its number may be of another file.
    try:
        if identified(published[0]) == published:
            os.close(published[0])
    except OSError:
        pass


os.register_at_fork(after_in_child=_after_fork_in_child)
