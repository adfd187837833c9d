# SPDX-License-Identifier: Apache-2.0
"""Free the memory that errors, outputs and caches keep."""

from __future__ import annotations

import builtins
import gc
import sys
from collections.abc import Callable

from .._core import html, runtime
from .._core.native import loaded, refuse_in_child
from .._core.scope import Device, gpu_number
from .._core.table import Fields, Made, Printed, Table, columns, human_bytes, make
from .._typing import Any
from . import _holders, _tracebacks
from ._holders import Holder, holds_device_memory
from ._stats import stats
from ._tracebacks import shell
from ._usage import UNTAGGED, MemoryUsage, usage


def empty_caches() -> list[str]:
    """Empty the caches of the libraries that are loaded and have used a GPU. Return the names of the libraries."""
    return [name for name, empty in (("torch", _torch), ("cupy", _cupy), ("numba", _numba)) if empty()]


def _torch() -> bool:
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not getattr(cuda, "is_initialized", bool)():
        return False
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)  # PyTorch's notes on CUDA semantics name it
    try:
        if clear is not None:
            clear()
        cuda.empty_cache()
    except RuntimeError:
        # While a CUDA graph is captured, as after a test that failed in one, and on a GPU that has failed.
        return False
    return True


def _cupy() -> bool:
    cupy: Any = sys.modules.get("cupy")
    if not hasattr(cupy, "get_default_memory_pool"):
        return False
    pools = [cupy.get_default_memory_pool(), getattr(cupy.cuda.get_allocator(), "__self__", None)]
    try:
        for pool in pools:
            if hasattr(pool, "free_all_blocks"):
                pool.free_all_blocks()
    except cupy.cuda.runtime.CUDARuntimeError:  # no driver, no GPU
        return False
    return True


def _numba() -> bool:
    driver: Any = getattr(sys.modules.get("numba.cuda.cudadrv.driver"), "driver", None)
    if not getattr(driver, "is_initialized", False):
        return False
    for device in driver.devices.values():
        context = device.primary_context
        if context is not None:
            context.deallocations.clear()
            getattr(context.memory_manager, "free_pending", bool)()  # gpuconf's own manager
    return True


# The results of earlier cells that IPython and the interactive interpreter keep:
# ``Out``, ``_``, ``__``, ``___``, ``_1`` ...

_UNDERSCORES = ("_", "__", "___")


def drop_outputs() -> int:
    """Drop the outputs that hold device memory, and only these. Return their number.

    A name that the user has assigned, such as ``_ = batch``, is the user's variable and stays.
    """
    dropped = 0
    # The interactive interpreter; gettext installs a function there.
    if holds_device_memory(getattr(builtins, "_", None)):
        builtins._ = None  # type: ignore[attr-defined]
        dropped += 1
    ipython = shell()
    return dropped if ipython is None else dropped + _drop_from(ipython)


def _drop_from(ipython: Any) -> int:
    names, hidden, hook = ipython.user_ns, ipython.user_ns_hidden, ipython.displayhook
    outputs = names.get("_oh")
    dropped: dict[int, Any] = {}
    if isinstance(outputs, dict):
        for number, value in list(outputs.items()):
            if holds_device_memory(value):
                dropped[id(value)] = outputs.pop(number)
                for namespace in (names, hidden):
                    if namespace.get(f"_{number}") is value:
                        del namespace[f"_{number}"]
    for name in _UNDERSCORES:
        value = getattr(hook, name, None)
        if holds_device_memory(value):
            dropped[id(value)] = value
            setattr(hook, name, "")
            for namespace in (names, hidden):
                if namespace.get(name) is value:
                    namespace[name] = ""
    result: Any = getattr(ipython, "last_execution_result", None)
    value = getattr(result, "result", None)
    if holds_device_memory(value):
        dropped[id(value)] = value
        result.result = None
    return len(dropped)


_UNKNOWN = "no variable that is known, such as PyTorch's graph or a C extension"


class ReleaseStep(Table):
    """One step of :func:`release`. Sizes are in bytes."""

    step: str  # "garbage", "tracebacks", "outputs", "caches", "pools"
    # objects collected, frames cleared, outputs dropped, libraries whose caches were emptied, pools trimmed
    count: int  # type: ignore[assignment]  # hides tuple's
    bytes_freed: int  # by how much the pools' memory in use fell
    bytes_unreserved: int  # how much memory the pools returned to the GPU


class Released(Printed, Fields, metaclass=Made):
    """What :func:`release` freed, and what is still in use. ``print`` shows it as a table.

    Attributes: ``steps``, a ReleaseStep for each step; ``bytes_freed``, by how much the memory in use fell;
    ``bytes_unreserved``, how much memory the pools returned to the GPU; ``bytes_in_use``, what is still in use;
    ``usage``, a MemoryUsage for each logical GPU that has memory in use, by library and tag; ``holders``, the largest
    objects that hold device memory, with the variables that refer to them. All sizes are in bytes.
    """

    _made_by = "use gpuconf.memory.release()"
    _fields = ("bytes_freed", "bytes_unreserved", "bytes_in_use", "steps", "usage", "holders")

    def __init__(
        self,
        steps: tuple[ReleaseStep, ...],
        bytes_in_use: int,
        usage: tuple[MemoryUsage, ...],
        holders: tuple[Holder, ...],
    ) -> None:
        self.steps = steps
        self.bytes_in_use = bytes_in_use
        self.usage = usage
        self.holders = holders

    @property
    def bytes_freed(self) -> int:
        """By how much the memory in use fell, in bytes; 0 if another thread allocated more meanwhile."""
        return max(0, sum(step.bytes_freed for step in self.steps))

    @property
    def bytes_unreserved(self) -> int:
        """How much memory the pools returned to the GPU, in bytes."""
        return max(0, sum(step.bytes_unreserved for step in self.steps))

    def __str__(self) -> str:
        rows = [("step", "count", "freed", "returned to the GPU")]
        rows += [
            (s.step, str(s.count), human_bytes(s.bytes_freed), human_bytes(s.bytes_unreserved)) for s in self.steps
        ]
        rows.append(("total", "", human_bytes(self.bytes_freed), human_bytes(self.bytes_unreserved)))
        lines = [*columns(rows, left=1), "", f"still in use: {human_bytes(self.bytes_in_use)}"]
        for each in self.usage:
            table = [("library", "tag", "in use", "blocks")]
            table += [
                (r.library, r.tag or UNTAGGED, human_bytes(r.bytes_in_use), str(r.live_blocks))
                for r in each
                if r.live_blocks
            ]
            lines += [f"{each.device}:", *(f"  {line}" for line in columns(table, left=2))]
        for holder in self.holders:
            lines.append(f"{human_bytes(holder.nbytes)} {holder.what}: {', '.join(holder.referrers[:3]) or _UNKNOWN}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows: list[tuple[Any, ...]] = [
            (s.step, s.count, html.size(s.bytes_freed), html.size(s.bytes_unreserved)) for s in self.steps
        ]
        rows.append((html.bold("total"), "", html.size(self.bytes_freed), html.size(self.bytes_unreserved)))
        usages = [html.Html(one._repr_html_()) for one in self.usage]
        who = (html.code(", ".join(one.referrers[:3])) if one.referrers else _UNKNOWN for one in self.holders)
        held = zip(self.holders, who, strict=True)
        holders = [html.line(html.size(one.nbytes), one.what, "held by", name) for one, name in held]
        title = f"{human_bytes(self.bytes_freed)} freed, {human_bytes(self.bytes_in_use)} still in use"
        return html.shown(
            html.titled(title, html.table(("step", "count", "freed", "returned to the GPU"), rows), *usages, *holders)
        )

    def __repr__(self) -> str:
        return f"<gpuconf.Released: {self.bytes_freed} bytes freed, {self.bytes_in_use} bytes still in use>"


def release(device: Device | None = None) -> Released:
    """Free the device memory that only stored errors, outputs and caches keep, and report what still holds the rest.

    After an error in a notebook, memory often stays in use although no variable refers to it. This function

    1. collects garbage,
    2. clears the local variables in the tracebacks that Python and IPython keep (``sys.last_exc``, the last cell's
       error, the
       error that is being handled), and in the errors that caused them,
    3. drops the entries of IPython's ``Out``, ``_``, ``__``, ``___`` and ``_1`` ... that hold device memory, and only
       these,
    4. empties the caches of PyTorch, CuPy and Numba, where they are loaded and in use,
    5. returns unused memory of gpuconf's pools to the GPU.

    It never frees memory that a variable of the program holds. Afterwards a debugger shows no locals for the cleared
    frames.

    The steps apply to the whole process. ``device`` selects the logical GPU that the result counts; the default is all
    of them. Raises ValueError for an unknown device, and TypeError for an object that is not a device.

    >>> gpuconf.memory.release().bytes_in_use
    0
    """
    refuse_in_child()
    chosen = None if device is None else gpu_number(device, "memory.release")
    steps, in_use = free(chosen)
    if not in_use:
        return make(Released, steps, 0, (), ())
    numbers = range(len(runtime.ordinals())) if chosen is None else (chosen,)
    usages = (usage(runtime.logical_gpu(number)) for number in numbers)
    return make(Released, steps, in_use, tuple(u for u in usages if u.bytes_in_use), tuple(_holders.holders()))


def free(chosen: int | None = None) -> tuple[tuple[ReleaseStep, ...], int]:
    """Run the steps of :func:`release`.

    Return them, and the memory that is still in use on one logical GPU or all, in bytes.
    """
    steps: list[ReleaseStep] = []
    before = _counted(chosen)
    for name, run in _STEPS:
        count = run()
        after = _counted(chosen)
        steps.append(ReleaseStep(name, count, before[0] - after[0], before[1] - after[1]))
        before = after
    return tuple(steps), before[0]


def _counted(chosen: int | None) -> tuple[int, int]:
    """Return the memory in use and the memory reserved, in bytes."""
    if not loaded() or not runtime.initialized():
        return 0, 0
    with runtime.unchanged():
        numbers = range(len(runtime.ordinals())) if chosen is None else (chosen,)
        each = [stats(runtime.logical_gpu(number)) for number in numbers]
    return sum(s.bytes_in_use for s in each), sum(s.bytes_reserved for s in each)


def _and_collect(clear: Callable[[], int]) -> Callable[[], int]:
    def both() -> int:
        count = clear()
        if count:
            gc.collect()
        return count

    return both


def trim_pools() -> int:
    """Return to the driver what gpuconf's pools do not use. Returns the number of pools."""
    if not loaded() or not runtime.initialized():
        return 0
    from .._core import abi

    abi.trim()
    return len(runtime.ordinals())


_STEPS: tuple[tuple[str, Callable[[], int]], ...] = (
    ("garbage", gc.collect),
    ("tracebacks", _and_collect(_tracebacks.clear_stored)),
    ("outputs", _and_collect(drop_outputs)),
    ("caches", lambda: len(empty_caches())),
    ("pools", trim_pools),
)
