# SPDX-License-Identifier: Apache-2.0
"""Statistics of one logical GPU's pool."""

from __future__ import annotations

from .._core import html, runtime
from .._core.generated import stats as wire
from .._core.message import loads
from .._core.native import core
from .._core.scope import Device, gpu_text


class MemoryStats(html.InLists, wire.MemoryStats):
    """Statistics of a pool.

    Sizes are in bytes; names are those of TensorFlow's ``AllocatorStats`` where it has them.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        counts = ("num_allocs", "live_blocks", "stitches")
        fields = self.to_dict().items()
        rows = [(html.code(name), f"{value:,}" if name in counts else html.size(value)) for name, value in fields]
        bar = html.memory_bar(self.bytes_in_use, self.peak_bytes_in_use, self.bytes_reserved, self.bytes_limit)
        return html.shown(html.titled("MemoryStats", bar, html.table((), rows)))


def stats(device: Device | None = None) -> MemoryStats:
    """Return the statistics of a logical GPU's pool. Initializes the runtime.

    ``device`` and its default are as for :func:`allocate`. Raises ValueError for a device that is not exactly one
    logical GPU, and TypeError for an object that is not a device.

    ``oversubscribed_bytes`` describes the physical GPU, so logical GPUs that share one report the same number. At least
    that many bytes of the blocks in use are in host memory. It is 0 for pools without unified memory.

    The ``budget`` fields describe the job on the physical GPU: ``budget_limit_bytes`` is the sum of the other three.
    They are 0 in a process that does not run under the guard of ``gpuconf run --memory``.

    >>> stats("GPU:0").bytes_limit
    83132153856
    """
    text = core.pybind_MemoryStats(gpu_text(device, "memory.stats"))
    return MemoryStats(*loads(text))


def totals(number: int) -> wire.MemoryTotals:
    """Return the counters of a logical GPU's pool that :class:`MemoryStats` lacks. The pools must exist."""
    return wire.MemoryTotals(*loads(core.pybind_MemoryTotals(number)))


# ``gpuconf.max_memory``: what each GPU has left, in the form that Hugging Face's libraries take.


def max_memory() -> dict[int | str, int]:
    """Return the bytes that this process may still allocate on each GPU, by CUDA ordinal, and on the host, as
    ``"cpu"``.

    Pass the result as ``max_memory`` to ``accelerate``, and to ``from_pretrained(device_map="auto", ...)`` in
    ``transformers``: without it they count all free memory of a GPU and ignore the limit of this process. Memory in use
    by other libraries on gpuconf's pools is subtracted. Initializes the devices.

    >>> max_memory()
    {0: 83132153856, 1: 83132153856, 'cpu': ...}
    """
    runtime.logical_devices("gpuconf.max_memory")
    left: dict[int | str, int] = {}
    for number, ordinal in enumerate(runtime.ordinals()):
        now = stats(runtime.logical_gpu(number).name)
        left[ordinal] = left.get(ordinal, 0) + max(0, now.bytes_limit - now.bytes_in_use)
    return {**left, "cpu": _available_on_the_host()}


def _available_on_the_host() -> int:
    """Return what the kernel expects to be available without swapping."""
    with open("/proc/meminfo", encoding="ascii", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) << 10
    return 0
