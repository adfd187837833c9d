# SPDX-License-Identifier: Apache-2.0
"""A process with a limit that imports gpuconf, or leases, and in which no startup code of ``gpuconf run`` routes
libraries: PyTorch, CuPy and Numba keep the limit by gpuconf's pools here, too.

``import gpuconf`` calls this where a variable has a limit. So next to nothing is imported before a library is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from .._core import import_hook
from .._typing import Any

_LIBRARIES = {"torch": "PyTorch", "cupy": "CuPy", "numba.cuda": "Numba"}

# Why a library is not routed that uses no GPU of gpuconf's in this process, and so nothing that the limit is about.
_NO_MATTER = ("the GPUs are simulated", "built without CUDA")


def follow() -> None:
    """Route PyTorch, CuPy and Numba onto gpuconf's pools when they first use the GPU, if a limit holds then.

    What ``gpuconf.configure`` has chosen for a library, or chooses later, stays.
    """
    if getattr(sys.modules.get("gpuconf_startup"), "routes", False):
        return  # gpuconf run does it, and reports it
    for name in _LIBRARIES:
        if name not in sys.modules:
            import_hook.when_imported(name, lambda name=name: _imported(name), keep=True)  # type: ignore[misc]
        elif name not in _prepared:
            _imported(name, before=True)


def _is_limited() -> bool:
    """Whether a limit holds now: a lease may have ended."""
    from .._core import settings

    leases = sys.modules.get("gpuconf.leases.lease")
    return bool((leases is not None and leases.held()) or settings.limit(os.environ).value)


_prepared: set[str] = set()
_routed: set[str] = set()  # by this module, and in use: what gpuconf.configure routes is not in it


def _imported(name: str, *, before: bool = False) -> None:
    """Prepare a library that is imported, now or ``before``. Never fails: what is not limited is a warning."""
    try:
        # Of simulated GPUs only PyTorch runs on gpuconf's pools; no other library may get their memory.
        if not _is_limited() or (name != "torch" and _is_simulated()) or (before and _is_too_late(name)):
            return
        from . import routing

        _prepared.add(name)
        routing.imported(name, _tell, _is_limited)
    except Exception as error:
        _warn(name, f"{type(error).__name__}: {error}")


def return_caches() -> None:
    """Return what PyTorch and CuPy keep of freed memory: the program does not know that gpuconf's pools have it."""
    torch, cupy = (sys.modules.get(name) if name in _routed else None for name in ("torch", "cupy"))
    if torch is not None:
        torch.cuda.empty_cache()
    if cupy is not None:
        cupy.get_default_memory_pool().free_all_blocks()


def resume(keep: Callable[[], Any], seen: str = "") -> None:
    """List the devices again after a reset, if PyTorch runs on the pools by `follow`: it does not look for them, and
    its next allocation would fail.

    After a lease ``seen`` are the GPUs that it had, which may be all that CUDA sees until the process ends. The pools
    then take memory as it is needed: no lease and no limit sets what they may have. ``keep`` returns the configuration
    of the moment, a leases.lease.KeptConfiguration, which `suspend` restores.
    """
    global _resumed
    if "torch" not in _routed:
        return
    from .. import config, errors
    from .._core import runtime

    if runtime.initialized():
        return
    before = dict(runtime.current.overrides)
    try:
        runtime.physical_devices()
    except errors.FailedPreconditionError:
        if not seen:
            raise
        runtime.current.overrides["CUDA_VISIBLE_DEVICES"] = seen
        runtime.physical_devices()
    kept = keep()
    kept.overrides = before
    for gpu in config.list_physical_devices("GPU") if seen else ():
        if not config.get_logical_device_configuration(gpu):
            config.experimental.set_memory_growth(gpu, True)
    runtime.logical_devices("gpuconf.lease")
    _resumed = runtime.current.generation, kept


def suspend() -> None:
    """Undo `resume`, if PyTorch holds no memory: what configures the devices comes before they are initialized."""
    global _resumed
    from .._core import runtime

    before, _resumed = _resumed, None
    if before is None or not runtime.initialized() or runtime.current.generation != before[0]:
        return
    from .. import errors
    from ..simulation.simulate import reset

    return_caches()
    try:
        reset()
    except errors.FailedPreconditionError:
        _resumed = before
    else:
        before[1].restore()


# The generation of the runtime that `resume` has initialized, and what was configured before.
_resumed: tuple[int, Any] | None = None


def _is_too_late(name: str) -> bool:
    """Whether a library that was imported before is routed already, or can no longer be, which is a warning."""
    module = sys.modules[name]
    if name == "torch" and not hasattr(module, "cuda"):
        _warn(name, "its import was under way when gpuconf was imported. Import gpuconf before it")
        return True
    import importlib

    adaptor = importlib.import_module(f"gpuconf.allocators.{name.partition('.')[0]}")
    if adaptor.installed():
        return True
    if adaptor.used():
        _warn(name, "it used the GPU before the limit was set. Import gpuconf, or lease, before that")
        return True
    if name == "cupy" and module.cuda.get_allocator() != module.get_default_memory_pool().malloc:
        _warn(name, "the program has replaced its allocator")
        return True
    return False


def _is_simulated() -> bool:
    from .._core import runtime, settings

    return bool(runtime.current.simulated or settings.value("GPUCONF_SIMULATE", os.environ))


def _tell(event: str, text: str) -> None:
    """Note a library that is routed, and warn of one that is not: no report of ``gpuconf run`` lists it."""
    name, _, state = text.partition(": ")
    if state.startswith("routed"):
        _routed.add(name)
    why = state.removeprefix("not routed: ")
    if event == "route" and why != state and not any(reason in why for reason in _NO_MATTER):
        _warn(name, why)


def _warn(name: str, why: str) -> None:
    """Warn on standard error: a program without logging would go on without its limit, and nothing would say so."""
    import warnings

    from .._core import runtime

    frame = runtime.calling_frame()
    text = f"gpuconf: {_LIBRARIES[name]} does not keep the memory limit of this process: {why}"
    warnings.warn_explicit(text, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno)
