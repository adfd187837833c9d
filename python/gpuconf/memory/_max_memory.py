# SPDX-License-Identifier: Apache-2.0
"""``gpuconf.max_memory``: what each GPU has left, in the form that Hugging Face's libraries take."""

from __future__ import annotations

from .._core import runtime
from ._stats import stats


def max_memory() -> dict[int | str, int]:
    """Return the bytes that this process may still allocate on each GPU, by CUDA ordinal, and on the host, as
    ``"cpu"``.

    Pass the result as ``max_memory`` to ``accelerate``, and to ``from_pretrained(device_map="auto", ...)`` in
    ``transformers``: without it they count all free memory of a GPU and ignore the limit of this process. Memory in use
    by other libraries on gpuconf's pools is subtracted. Initializes the devices.

    >>> max_memory()
    {0: 84011909120, 1: 84011909120, 'cpu': ...}
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
