# SPDX-License-Identifier: Apache-2.0
"""Inside a program under ``gpuconf run``, which knows nothing of gpuconf: its libraries are routed onto gpuconf's
pools. So they are in one with a limit that imports gpuconf itself (limited.py).

A library is routed just before it first uses the GPU, not when it is imported. A program may import PyTorch, fork, and
use the GPU in its children, and gpuconf's core does not survive a fork.

Nothing here may make the program fail. ``tell`` reports what happened to ``gpuconf run``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from .. import errors
from .._core import when_loaded
from .._core.fork import module_lock
from .._typing import Any
from ..simulation import simulated_torch

Tell = Callable[[str, str], None]
Wanted = Callable[[], bool]  # whether a library shall still be routed when it first uses the GPU

_lock = module_lock(globals(), "_lock")


def _always() -> bool:
    return True


def imported(name: str, tell: Tell, wanted: Wanted = _always) -> None:
    """Prepare a library that has just been imported. Raises an error if it cannot be routed."""
    if name == "gpuconf._core.runtime":
        when_loaded.insert(0, lambda: _publish(tell))
        when_loaded.append(trim_when_asked)
        return
    if name == "torch":
        sys.modules["torch"].cuda._lazy_call(trim_when_asked)
    if os.environ.get("GPUCONF_SIMULATE") and not (name == "torch" and simulated_torch.runs()):
        tell("route", f"{name}: not routed: the GPUs are simulated")
    else:
        _PREPARE[name](tell, wanted)


def _publish(tell: Tell) -> None:
    """Let other processes see the figures of this process's pools, as a process of the job.

    Runs when the core is loaded.
    """
    try:
        from ..leases.ledger import open_ledger

        open_ledger(create=False).publish(os.environ.get("GPUCONF_LEASE", ""))
    except Exception as error:
        tell("trouble", f"no figures for other processes: {type(error).__name__}: {error}")


_trimming: list[bool] = []


def trim_when_asked() -> None:
    """Return idle memory when the job's agent requests it, if memory was lent to the job.

    Runs when the process first uses the GPU.
    """
    from .gate import Gate

    if _trimming:
        return
    _trimming.append(True)
    try:
        gate = Gate(os.path.dirname(os.environ.get("GPUCONF_GUARD", "")))
    except errors.UnavailableError:  # the job takes no turns
        return
    if seen := gate.trims():
        from _thread import start_new_thread

        start_new_thread(_trim, (gate, seen))


def _trim(gate: Any, seen: int) -> None:
    """Return the caches of PyTorch and CuPy, and then what gpuconf's pools do not use."""
    import ctypes

    from ..memory import _release

    relaxed = ctypes.c_int(2)  # another thread may be capturing a CUDA graph, which this one's calls must not spoil
    ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode(ctypes.byref(relaxed))
    while True:
        seen = gate.trims(seen)
        torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
        for trim in (
            torch and torch.cuda.is_initialized() and torch.cuda.empty_cache,
            cupy and cupy.get_default_memory_pool().free_all_blocks,
            _release.trim_pools,
        ):
            try:
                trim and trim()
            except Exception:  # such as of a GPU that has failed: the program finds it, and this thread says nothing
                continue


def _prepare_torch(tell: Tell, wanted: Wanted) -> None:
    torch = sys.modules["torch"]
    if not torch.backends.cuda.is_built():
        tell("route", "torch: not routed: this PyTorch was built without CUDA")
        return
    initialize = torch.cuda._lazy_init
    pending = True

    def route_and_initialize() -> None:
        nonlocal pending
        if pending:
            with _lock:
                if pending and wanted():
                    pending = False
                    _try("torch", _route_torch, tell)
        initialize()

    for module in [one for name, one in sys.modules.items() if name.startswith("torch.")]:
        if vars(module).get("_lazy_init") is initialize:  # several modules have imported it by name
            vars(module)["_lazy_init"] = route_and_initialize


def _route_torch() -> str:
    """Route PyTorch in the mode that keeps most of its features, if its settings allow it."""
    import torch

    from ..allocators import torch as adaptor

    if torch.cuda.is_initialized() or adaptor.installed():
        return "already in use"
    if torch.cuda.memory.get_allocator_backend() == "pluggable":
        return "not routed: the program has replaced its allocator"
    try:
        adaptor.install("segments")
    except errors.FailedPreconditionError:
        adaptor.install("whole")
    return f"routed, in mode {adaptor.installed()!r}"


def _prepare_cupy(tell: Tell, wanted: Wanted) -> None:
    cupy = sys.modules["cupy"]
    chosen: list[Callable[[int], Any]] = []

    def route_and_allocate(nbytes: int) -> Any:
        if not chosen:
            with _lock:
                if not (chosen or wanted()):
                    return cupy.get_default_memory_pool().malloc(nbytes)
                if not chosen:
                    _try("cupy", lambda: _route_cupy(chosen), tell)
                    chosen.append(cupy.get_default_memory_pool().malloc)  # if it could not be routed
        return chosen[0](nbytes)

    cupy.cuda.set_allocator(route_and_allocate)


def _route_cupy(chosen: list[Callable[[int], Any]]) -> str:
    from ..allocators import cupy as adaptor

    adaptor.install()
    chosen.append(adaptor.allocate)
    return "routed"


def _prepare_numba(tell: Tell, _: Wanted) -> None:
    """Choose the memory manager, which Numba creates when it first uses the GPU."""
    if os.environ.get("NUMBA_CUDA_MEMORY_MANAGER"):
        tell("route", "numba: not routed: NUMBA_CUDA_MEMORY_MANAGER is set")
        return
    from ..allocators import numba as adaptor

    sys.modules["numba.cuda"].set_memory_manager(adaptor.GpuconfMemoryManager)
    tell("route", "numba: routed")


_PREPARE: dict[str, Callable[[Tell, Wanted], None]] = {
    "torch": _prepare_torch,
    "cupy": _prepare_cupy,
    "numba.cuda": _prepare_numba,
}


def _try(name: str, route: Callable[[], str], tell: Tell) -> bool:
    """Route a library, and report the result. Returns whether it worked."""
    try:
        said = route()
    except Exception as error:
        tell("route", f"{name}: not routed: {type(error).__name__}: {error}")
        return False
    tell("route", f"{name}: {said}")
    return True


def ended(tell: Tell) -> None:
    """Report the peaks of this process's pools, and its last error if it was out of memory."""
    from .._core import runtime
    from .._core.native import loaded

    if not loaded() or not runtime.initialized():
        return
    import json

    from ..memory import usage

    peaks: dict[str, int] = {}
    for number in range(len(runtime.ordinals())):
        for row in usage(runtime.logical_gpu(number).name).rows:
            peaks[row.library] = peaks.get(row.library, 0) + row.peak_bytes_in_use
    tell("end", json.dumps({"peaks": peaks, "out_of_memory": _last_error()}))


def _last_error() -> str | None:
    """Return the first line of the error that ends the program, if it is out of memory."""
    error = getattr(sys, "last_value", None)
    if not isinstance(error, MemoryError) and type(error).__name__ != "OutOfMemoryError":
        return None
    return str(error).strip().partition("\n")[0]
