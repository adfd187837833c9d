# SPDX-License-Identifier: Apache-2.0
"""``gpuconf.configure``: limits, growth, and the libraries that follow them, in one call."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType

from .. import errors
from .._core import runtime, settings, sizes, texts
from .._core.devices import ConfiguredLimit, PhysicalDevice
from .._core.message import loads
from .._core.native import core, refuse_in_child
from .._core.table import Table, counted, human_bytes
from .._core.texts import refuse_unknown
from .._missing import closest
from .._typing import Any, NoReturn
from ..simulation import simulated_torch

Limit = int | str | None

# For each adaptor, the module whose import triggers it. JAX and TensorFlow do not accept a foreign allocator.
_ADAPTORS = {"torch": "torch", "cupy": "cupy", "numba": "numba.cuda"}
_FOLLOWERS = ("jax", "tensorflow")
_NAMES = {"torch": "PyTorch", "cupy": "CuPy", "numba": "Numba", "jax": "JAX", "tensorflow": "TensorFlow"}

_MODULES = {
    **{name.lower(): key for key, name in _NAMES.items()},
    "tf": "tensorflow",
    "numba.cuda": "numba",
    "numba-cuda": "numba",
}


class Configuration(Table):
    """The result of :func:`configure`: what holds now, which may be less than what was requested.

    ``limits`` are in bytes, by device name: the ``bytes_limit`` of :func:`gpuconf.memory.stats`, or for a GPU with
    several logical devices their sum. A GPU without a limit is missing. ``libraries`` has a status text for each
    library. ``notes`` says for each GPU why its limit is lower than requested.
    """

    __module__ = "gpuconf"

    limits: dict[str, int]
    growth: bool | None
    libraries: dict[str, str]
    notes: dict[str, str]

    @property
    def in_force(self) -> bool:
        """True if any limit holds: False without a GPU, and if none was set."""
        return bool(self.limits)


def configure(
    limit: Limit | Sequence[Limit] = None,
    growth: bool | None = None,
    libraries: str | Iterable[str] | Mapping[str, str] = "auto",
    *,
    missing_ok: bool = False,
    **unknown: NoReturn,
) -> Configuration:
    """Set memory limits and growth for this process, and apply them to PyTorch, CuPy and Numba.

    ``limit`` is the maximum memory of each visible GPU: bytes, ``"6GiB"``, ``"500MB"`` or ``"50%"`` of its memory. A
    list has an entry for each visible GPU; None in it means no limit. Limits replace what was configured before, also
    several logical devices on a GPU. A limit can be changed, but not removed. With ``growth=True`` pools reserve memory
    as needed; with False a pool reserves its whole limit at once. ``limit=None`` and ``growth=None`` leave the setting
    unchanged.

    ``libraries`` is ``"auto"`` for all, a list of ``"torch"``, ``"cupy"``, ``"numba"``, ``"jax"`` and ``"tensorflow"``,
    or a dictionary with PyTorch's mode: ``{"torch": "segments"}``. A library that is already imported is routed to
    gpuconf at once, any other when it is imported. **The allocators of JAX and TensorFlow cannot be replaced**: they
    get the same limits, growth and visible GPUs through their own settings, before they start. Of these, PyTorch alone
    runs on simulated GPUs.

    The call can be repeated. It does not use the GPU. The result has the limits that hold, and a status text for each
    library. A limit is lower than requested if ``GPUCONF_LIMIT``, ``gpuconf run`` or the administrator's ceiling leaves
    less; the result's ``notes`` say so.

    Without a GPU a limit cannot hold. So a limit, from the call, the environment or a settings file, is then an error,
    unless ``missing_ok`` is true. With it, test the result: ``if not configure("6GiB", missing_ok=True).in_force``.

    Raises NotFoundError, a LookupError, if there is a limit and no GPU. Raises FailedPreconditionError, and changes
    nothing, if a library that should be routed has already used the GPU (the error names it), if PyTorch's settings
    contradict its mode, if an entry of None would remove a limit, or if the devices are already initialized with
    another configuration. Raises ValueError for an invalid limit or library, also for a limit of more than the GPU's
    memory.

    >>> configure(limit="6GiB", growth=True, libraries=[]).limits
    {'/physical_device:GPU:0': 6442450944, '/physical_device:GPU:1': 6442450944}
    """
    refuse_in_child()  # before the imports
    refuse_unknown("configure", unknown, ("limit", "growth", "libraries", "missing_ok"), _MEANT)
    from ..config import _frameworks, get_visible_devices

    modes = not_too_late(libraries)
    gpus = get_visible_devices("GPU")
    limits = _limits(limit, gpus)
    if not gpus and not missing_ok:
        _refuse_without_gpu(limit)
    if limit is not None:
        _refuse_to_lift(gpus, limits)
    if growth is not None and not isinstance(growth, bool):
        raise errors.InvalidTypeError(f"growth must be True, False or None, but got {texts.shown(growth)}")
    before = _frameworks.follow(())  # they get it below, once
    try:
        _set(gpus, limits, growth)
        before = modes.keys() & set(_FOLLOWERS)
    finally:
        _frameworks.follow(before)
    routes = {name: _route(name, mode) for name, mode in modes.items() if name in _ADAPTORS}
    routes.update({name: _frameworks.pass_on(name) for name in modes if name in _FOLLOWERS})
    holding, notes = _in_force(gpus, limits)
    return Configuration(holding, growth, routes, notes)


# What the command line, the environment, TensorFlow and other tools call it.
_MEANT = {
    "memory": "limit",
    "memory_limit": "limit",
    "limits": "limit",
    "allow_growth": "growth",
    "memory_growth": "growth",
}


def checked_libraries(libraries: Any) -> dict[str, str]:
    """Return the mode of each library of configure()'s argument, "" for the default. Raises ValueError or TypeError."""
    if libraries == "auto":
        return dict.fromkeys((*_ADAPTORS, *_FOLLOWERS), "")
    if isinstance(libraries, str):
        libraries = [libraries]
    try:
        modes = dict(libraries) if hasattr(libraries, "keys") else dict.fromkeys(libraries, "")
    except TypeError:
        text = "libraries must be 'auto', a list of names, or a dictionary of PyTorch's modes"
        raise errors.InvalidTypeError(f"{text}, but got {texts.given(libraries)}") from None
    for name, mode in modes.items():
        if name not in _NAMES:
            near = _MODULES.get(closest(name, _MODULES))
            meant = f". Did you mean {near!r}?" if near else f": use {', '.join(map(repr, _NAMES))}, or 'auto' for all"
            raise errors.InvalidArgumentError(f"unknown library {texts.shown(name)}{meant}")
        if not isinstance(mode, str) or mode not in ("", "whole", "segments") or (mode and name != "torch"):
            near = closest(mode, ("whole", "segments")) if name == "torch" and isinstance(mode, str) else ""
            raise errors.InvalidArgumentError(
                f"invalid mode {texts.shown(mode)} for {name!r}: only 'torch' has modes, 'whole' and 'segments'"
                + f". Did you mean {near!r}?" * bool(near)
            )
    return modes


def not_too_late(libraries: Any) -> dict[str, str]:
    """Return what :func:`checked_libraries` does.

    Raises FailedPreconditionError if a library has used the GPU already.
    """
    modes = checked_libraries(libraries)
    for name, mode in modes.items():
        if libraries != "auto" and name in _ADAPTORS and runtime.simulated() and not _can_route(name)[0]:
            raise errors.FailedPreconditionError(f"{name}: {_can_route(name)[1]}")
        _refuse_if_used(name, explicit=libraries != "auto")
        if mode == "segments" and _can_route(name)[0]:
            from . import _torch_segments

            _torch_segments.refuse_expandable()
    return modes


# Limits


def _limits(limit: Any, gpus: list[PhysicalDevice]) -> list[int]:
    """Return the limit of each GPU in bytes; 0 for no limit."""
    if isinstance(limit, (dict, set, frozenset)):
        text = "limit must be a number of bytes or text such as '6GiB' for all GPUs, or a list with one for each"
        raise errors.InvalidTypeError(f"{text}, but got {texts.given(limit)}")
    several = isinstance(limit, (list, tuple))
    for size in limit if several and not gpus else () if several or limit is None else (limit,):
        if size is not None:
            sizes.limit_bytes(size, 1 << 40)  # an invalid limit is an error even without a GPU
    each = list(limit) if several and gpus else [None if several else limit] * len(gpus)
    if len(each) != len(gpus) and gpus:
        given, visible = counted(len(each), "entry", "entries"), counted(len(gpus), "GPU is", "GPUs are")
        raise errors.InvalidArgumentError(
            f"limit has {given}, but {visible} visible: pass one size for all, or one for each GPU"
        )
    return [_limit(size, gpu) if size is not None else 0 for size, gpu in zip(each, gpus, strict=True)]


def _limit(limit: int | str, gpu: PhysicalDevice) -> int:
    total = _total(gpu)
    wanted = sizes.limit_bytes(limit, total)
    # In a lease or under the guard a card looks as large as the limit, which lowers this one, with a note.
    if wanted > total and not any(map(os.environ.get, ("GPUCONF_LEASE", "GPUCONF_GUARD"))):
        text = f"limit {texts.shown(limit)} is more than the {human_bytes(total)} of {gpu.name}"
        raise errors.InvalidArgumentError(f"{text}. Write at most that, or a part of it, such as '90%'")
    return wanted


def _refuse_without_gpu(limit: Any) -> None:
    """Raise if there is a limit, which cannot hold without a GPU: the program would run without it, and nothing would
    say so.
    """
    called = limit is not None and limit != []
    what = f"limit={texts.shown(limit)}" if called else settings.requested("GPUCONF_LIMIT", os.environ)
    if what:
        why = core.pybind_WhyNoGPU()
        raise errors.NotFoundError(
            f"{what} is not in force: this process sees no GPU{': ' * bool(why)}{why}. Correct that, "
            "simulate one (gpuconf run --simulate T4 ...), or pass missing_ok=True if the program may run without a GPU"
        )


def _in_force(gpus: list[PhysicalDevice], wanted: list[int]) -> tuple[dict[str, int], dict[str, str]]:
    """Return the limit that holds on each GPU, and why where it is lower than requested."""
    limits: dict[str, int] = {}
    notes: dict[str, str] = {}
    for gpu, requested in zip(gpus, wanted, strict=True):
        holding, why = loads(core.pybind_LimitInForce(runtime.position(gpu)[0], runtime.environment()))
        if holding < 0:
            continue
        limits[gpu.name] = holding
        if holding < requested:
            by = settings.explain(os.environ, {})["GPUCONF_LIMIT"]
            before, now = _apart(requested, holding)
            text = f"lowered from {before} to {now} by {_who(by)}"
            notes[gpu.name] = f"{text}; {why}" if why else text
    return limits, notes


def _apart(*limits: int) -> list[str]:
    """Return sizes as text; in bytes where different ones would read the same."""
    short = [human_bytes(limit) for limit in limits]
    return short if len(set(short)) == len(set(limits)) else [f"{limit} bytes" for limit in limits]


def _who(origin: settings.Origin) -> str:
    """Return who set GPUCONF_LIMIT."""
    if origin.ceiling == settings.CONTAINER_LIMIT:
        return f"{origin.ceiling}, the container's limit"
    if origin.ceiling:
        return f"the administrator's ceiling in {origin.ceiling}"
    if origin.source == "environment":
        return "GPUCONF_LIMIT" + (
            ", the lease of gpuconf run" if os.environ.get("GPUCONF_LEASE") else " in the environment"
        )
    return f"limit in {origin.source}"


def _total(gpu: PhysicalDevice) -> int:
    return runtime.details_of(gpu).total_bytes


def _refuse_to_lift(gpus: list[PhysicalDevice], limits: list[int]) -> None:
    """Raise if a GPU that has a limit shall have none: TensorFlow's configuration has no call for that."""
    from ..config import get_logical_device_configuration

    for gpu, wanted in zip(gpus, limits, strict=True):
        if not wanted and get_logical_device_configuration(gpu):
            raise errors.FailedPreconditionError(
                f"the limit of {gpu.name} cannot be removed. Give it another limit, such as 100%, or call "
                "gpuconf.reset() first"
            )


def _set(gpus: list[PhysicalDevice], limits: list[int], growth: bool | None) -> None:
    from ..config import _devices  # whose errors are gpuconf's own classes

    for gpu, wanted in zip(gpus, limits, strict=True):
        if growth is not None and _devices.get_logical_device_configuration(gpu) is None:
            try:
                _devices.set_memory_growth(gpu, growth)
            except errors.FailedPreconditionError:
                if not runtime.initialized():
                    raise
                raise errors.FailedPreconditionError(f"growth={growth} is too late: {_initialized()}") from None
        if wanted:
            try:
                _devices.set_logical_device_configuration(gpu, [ConfiguredLimit.of(wanted)])
            except errors.FailedPreconditionError:
                if not runtime.initialized():
                    raise
                raise _too_late(gpu, wanted) from None
    if growth is None:
        return
    value = "true" if growth else "false"
    if runtime.initialized() and runtime.current.overrides.get("GPUCONF_GROWTH") != value:
        limited = [gpu for gpu in gpus if _devices.get_logical_device_configuration(gpu) is not None]
        if limited:
            raise errors.FailedPreconditionError(f"growth={growth} is too late: {_initialized()}")
    runtime.current.overrides["GPUCONF_GROWTH"] = value  # for GPUs with a limit, which set_memory_growth rejects


def _too_late(gpu: PhysicalDevice, wanted: int) -> errors.FailedPreconditionError:
    """Return the error for a limit that differs from that of pools that exist."""
    from ..memory import stats

    ordinal = int(gpu.name.rpartition(":")[2])
    limits = [
        stats(runtime.logical_gpu(n).name).bytes_limit for n, at in enumerate(runtime.ordinals()) if at == ordinal
    ]
    asked, *each = _apart(wanted, *limits)
    had = " and ".join(each) or "no pool"
    return errors.FailedPreconditionError(
        f"limit {asked} is too late: {gpu.name} has the limit {had}, and {_initialized()}"
    )


def _initialized() -> str:
    by = runtime.origin()
    return (
        f"the GPUs were initialized{f' by {by}' * bool(by)}. "
        "Call gpuconf.configure() before that, or free all GPU memory and call gpuconf.reset() first"
    )


# Libraries


def _adaptor(name: str) -> ModuleType:
    import importlib

    return importlib.import_module(f"gpuconf.allocators.{name}")


def outside_pools() -> list[str]:
    """Return the libraries that have used the GPU with an allocator of their own: it is too late to limit them."""
    return [_NAMES[name] for name in _ADAPTORS if _is_outside(name)]


def _is_outside(name: str) -> bool:
    if _ADAPTORS[name] not in sys.modules or not _can_route(name)[0]:
        return False
    adaptor = _adaptor(name)
    return bool(adaptor.used() and not adaptor.installed())


def _refuse_if_used(name: str, explicit: bool) -> None:
    """Raise if it is too late to route a library. For JAX and TensorFlow, only if the caller named them."""
    if name in _ADAPTORS:
        late = _is_outside(name)
    else:
        from ..config import _frameworks

        late = explicit and _frameworks.started(name)
    if late:
        what = "has already used the GPU" if name in _ADAPTORS else "has already started"
        raise errors.FailedPreconditionError(
            f"gpuconf.configure() was called too late: {_NAMES[name]} {what}. Call it earlier, or leave {name!r} out "
            "of libraries="
        )


def _can_route(name: str) -> tuple[bool, str]:
    if runtime.simulated() and (name != "torch" or ("torch" in sys.modules and not simulated_torch.runs())):
        return (
            False,
            f"not routed: the GPUs are simulated ({runtime.simulated()}), and {_NAMES[name]} does not use them",
        )
    if not any(device.device_type == "GPU" for device in runtime.physical_devices()):
        return False, "not routed: there is no GPU"
    if name == "torch" and "torch" in sys.modules and not sys.modules["torch"].backends.cuda.is_built():
        return False, "not routed: this PyTorch was built without CUDA"
    if name == "numba" and "numba.cuda" in sys.modules:
        from . import _share

        if _share.is_numbas_own(sys.modules["numba.cuda"]):
            return (
                False,
                "not routed: this numba.cuda is Numba's own, and gpuconf routes numba-cuda's: pip install numba-cuda",
            )
    return True, ""


def _route(name: str, mode: str) -> str:
    from .._core import import_hook, message

    installed = _ADAPTORS[name] in sys.modules or import_hook.installed(name)
    possible, why = _can_route(name)
    if not possible:
        return why if installed else "not installed"
    if _ADAPTORS[name] in sys.modules:
        return _install(name, mode)

    def later() -> None:
        possible, why = _can_route(name)
        if possible:
            _install(name, mode)
        else:
            message.log("warning", f"{_NAMES[name]} was imported but {why}")

    import_hook.when_imported(_ADAPTORS[name], later)
    return f"will use this limit once imported{_where()}" if installed else "not installed"


def _where() -> str:
    """Return what is added to a library's state if its GPUs are simulated."""
    machine = runtime.simulated()
    return f", on simulated GPUs ({machine})" if machine else ""


def _install(name: str, mode: str) -> str:
    adaptor = _adaptor(name)
    if name == "torch":
        adaptor.install(mode or adaptor.installed() or "whole")
        return f"routed, in mode {adaptor.installed()!r}{_where()}"
    adaptor.install()
    return "routed"
