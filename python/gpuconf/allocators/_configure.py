"""``gpuconf.configure``: limits, growth, and who has to keep them, in one call."""

from __future__ import annotations

import os
import sys
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType

from .. import errors
from .._core import runtime, sizes, texts
from .._core.devices import PhysicalDevice
from .._core.native import refuse_in_child
from .._core.table import Table
from .._typing import Any

Limit = int | str | None

# How each library is reached: the module whose import decides, and the adaptor. JAX and TensorFlow have no socket for an allocator.
_ADAPTORS = {"torch": "torch", "cupy": "cupy", "numba": "numba.cuda"}
_SETTINGS_ONLY = ("jax", "tensorflow")
_NAMES = {"torch": "PyTorch", "cupy": "CuPy", "numba": "Numba", "jax": "JAX", "tensorflow": "TensorFlow"}


class Configuration(Table, namedtuple("Configuration", ["limits", "growth", "libraries"])):
    """What :func:`configure` has done: ``limits`` in bytes by device name, ``growth``, and a sentence for each library."""

    __slots__ = ()

    limits: dict[str, int]
    growth: bool | None
    libraries: dict[str, str]


def configure(
    limit: Limit | Sequence[Limit] = None,
    growth: bool | None = None,
    libraries: str | Iterable[str] | Mapping[str, str] = "auto",
) -> Configuration:
    """Set memory limits and growth for this process, and make PyTorch, CuPy and Numba keep them.

    ``limit`` is the most that may be taken of each visible GPU: bytes, ``"6GiB"``, ``"500MB"`` or ``"50%"`` of its memory; a list
    has one for each visible GPU, with None for no limit. Whole MiB count, rounded down. ``growth`` lets pools take memory as it is
    needed; without it a pool takes its whole limit at once. None leaves each as it is.

    ``libraries`` is ``"auto"`` for all, a list of ``"torch"``, ``"cupy"``, ``"numba"``, ``"jax"`` and ``"tensorflow"``, or a
    dictionary with PyTorch's mode: ``{"torch": "segments"}``. One that is imported is routed at once, another when it is imported.
    **JAX and TensorFlow have allocators of their own that can't be exchanged**: for them only environment variables are set,
    which they read when they are imported. On simulated GPUs no library is routed.

    The call can be repeated. It uses no GPU. Returns what it did, with a sentence for each library.

    Raises FailedPreconditionError, before anything changes, where a library that should be routed has used the GPU already (it is
    named), PyTorch's settings contradict its mode, or the devices are initialised with another configuration; ValueError for an
    invalid limit or library.

    >>> configure(limit="6GiB", growth=True, libraries=[]).limits
    {'/physical_device:GPU:0': 6442450944, '/physical_device:GPU:1': 6442450944}
    """
    refuse_in_child()  # before the imports
    from ..config import get_visible_devices

    asked = _asked(libraries)
    gpus = get_visible_devices("GPU")
    limits = _limits(limit, gpus)
    if growth is not None and not isinstance(growth, bool):
        raise errors.InvalidTypeError(f"growth must be True, False or None, but got {texts.shown(growth)}")
    for name, mode in asked.items():
        _refuse_if_used(name, explicit=libraries != "auto")
        _refuse_settings(name, mode)
    _set(gpus, limits, growth)
    told = {name: _route(name, mode, explicit=libraries != "auto") for name, mode in asked.items() if name in _ADAPTORS}
    told.update({name: _environment(name, gpus, limits, growth) for name in asked if name in _SETTINGS_ONLY})
    return Configuration({gpu.name: wanted for gpu, wanted in zip(gpus, limits, strict=True) if wanted}, growth, told)


def _asked(libraries: Any) -> dict[str, str]:
    if libraries == "auto":
        return dict.fromkeys((*_ADAPTORS, *_SETTINGS_ONLY), "")
    if isinstance(libraries, str):
        libraries = [libraries]
    try:
        asked = dict(libraries) if hasattr(libraries, "keys") else dict.fromkeys(libraries, "")
    except TypeError:
        text = "libraries must be 'auto', a list of names, or a dictionary of PyTorch's modes"
        raise errors.InvalidTypeError(f"{text}, but got {type(libraries).__name__}: {texts.shown(libraries)}") from None
    for name, mode in asked.items():
        if name not in _NAMES:
            raise errors.InvalidArgumentError(
                f"libraries names {texts.shown(name)}; known are {', '.join(map(repr, _NAMES))}, and 'auto' for all"
            )
        if not isinstance(mode, str) or mode not in ("", "whole", "segments") or (mode and name != "torch"):
            raise errors.InvalidArgumentError(
                f"{name} has no mode {texts.shown(mode)}; only torch has modes: 'whole' and 'segments'"
            )
    return asked


# Limits


def _limits(limit: Any, gpus: list[PhysicalDevice]) -> list[int]:
    """The limit of each GPU in bytes, whole MiB; 0 for none."""
    each = list(limit) if isinstance(limit, (list, tuple)) else [limit] * len(gpus)
    if len(each) != len(gpus):
        raise errors.InvalidArgumentError(f"limit has {len(each)} entries, but {len(gpus)} GPUs are visible")
    if limit is not None and not isinstance(limit, (list, tuple)):
        sizes.limit_bytes(limit, 1 << 40)  # a mistake is an error without a GPU too
    return [sizes.limit_bytes(one, _total(gpu)) if one is not None else 0 for one, gpu in zip(each, gpus, strict=True)]


def _total(gpu: PhysicalDevice) -> int:
    import json

    from .._core.native import core

    return int(json.loads(core.pybind_DeviceDetails(runtime.position(gpu)[0]))["total_bytes"])


def _set(gpus: list[PhysicalDevice], limits: list[int], growth: bool | None) -> None:
    from .. import config

    for gpu, wanted in zip(gpus, limits, strict=True):
        if growth is not None and config.get_logical_device_configuration(gpu) is None:
            config.experimental.set_memory_growth(gpu, growth)
        if wanted:
            one = config.LogicalDeviceConfiguration(memory_limit=wanted >> 20)
            config.set_logical_device_configuration(gpu, [one])
    if growth is None:
        return
    value = "true" if growth else "false"
    if runtime.initialized() and runtime.current.overrides.get("GPUCONF_ALLOW_GROWTH") != value:
        limited = [gpu for gpu in gpus if config.get_logical_device_configuration(gpu) is not None]
        if limited:
            raise errors.FailedPreconditionError(
                "growth can't change any more: the devices are initialised. Call gpuconf.configure() before anything uses them"
            )
    runtime.current.overrides["GPUCONF_ALLOW_GROWTH"] = value  # for GPUs with a limit, which TensorFlow's call refuses


# Libraries


def _adaptor(name: str) -> ModuleType:
    import importlib

    return importlib.import_module(f"gpuconf.allocators.{name}")


def _refuse_if_used(name: str, explicit: bool) -> None:
    """Raise where a library can't be routed any more. For JAX and TensorFlow only where they were asked for by name."""
    if name in _ADAPTORS:
        if not _can_route(name)[0] or _ADAPTORS[name] not in sys.modules:
            return
        adaptor = _adaptor(name)
        late = adaptor.used() and not adaptor.installed()
    else:
        late = explicit and name in sys.modules
    if late:
        what = "has used the GPU already" if name in _ADAPTORS else "is imported already, and has read its settings"
        raise errors.FailedPreconditionError(
            f"gpuconf.configure() comes too late: {_NAMES[name]} {what}. Call it before, or leave {name!r} out of libraries="
        )


def _refuse_settings(name: str, mode: str) -> None:
    """Raise where the environment sets PyTorch's allocator to what mode segments can't route."""
    if mode == "segments" and _can_route(name)[0]:
        from . import _torch_segments

        _torch_segments.refuse_expandable()


def _can_route(name: str) -> tuple[bool, str]:
    if runtime.simulated():
        return False, f"not routed: the GPUs are simulated ({runtime.simulated()}), and {_NAMES[name]} can't run on them"
    if not any(device.device_type == "GPU" for device in runtime.physical_devices()):
        return False, "not routed: there is no GPU"
    if name == "torch" and "torch" in sys.modules and not sys.modules["torch"].backends.cuda.is_built():
        return False, "not routed: this PyTorch is built without CUDA"
    return True, ""


def _route(name: str, mode: str, explicit: bool) -> str:
    from .._core import import_hook, notices

    possible, why = _can_route(name)
    if not possible:
        if explicit and why.startswith("not routed: the GPUs are simulated"):
            raise errors.FailedPreconditionError(f"{name}: {why}")
        return why
    if _ADAPTORS[name] in sys.modules:
        return _install(name, mode)

    def later() -> None:
        possible, why = _can_route(name)
        if possible:
            _install(name, mode)
        else:
            notices.log("warning", f"{_NAMES[name]} was imported and is {why}")

    import_hook.when_imported(_ADAPTORS[name], later)
    return "is routed when it is imported" if import_hook.installed(name) else "is not installed"


def _install(name: str, mode: str) -> str:
    adaptor = _adaptor(name)
    if name == "torch":
        adaptor.install(mode or adaptor.installed() or "whole")
        return f"routed, in mode {adaptor.installed()!r}"
    adaptor.install()
    return "routed"


def _environment(name: str, gpus: list[PhysicalDevice], limits: list[int], growth: bool | None) -> str:
    """Settings for a library whose allocator can't be exchanged. What the user has set himself stays."""
    from .._core import import_hook

    if name in sys.modules:
        return "not changed: it is imported already, and its allocator is its own"
    if not import_hook.installed(name):
        return "is not installed"
    wanted: dict[str, str] = {}
    if name == "jax":
        fractions = [one / _total(gpu) for gpu, one in zip(gpus, limits, strict=True) if one]
        if fractions and "XLA_CLIENT_MEM_FRACTION" not in os.environ:
            wanted["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{min(fractions):.4f}"
        if growth is not None:
            wanted["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false" if growth else "true"
    elif growth is not None:
        wanted["TF_FORCE_GPU_ALLOW_GROWTH"] = "true" if growth else "false"
    for variable, value in wanted.items():
        os.environ.setdefault(variable, value)
    said = ", ".join(f"{variable}={os.environ[variable]}" for variable in wanted) or "nothing to set"
    return f"settings only ({said}): its allocator is its own, beside gpuconf's limits"
