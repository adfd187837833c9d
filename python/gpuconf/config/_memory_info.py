# SPDX-License-Identifier: Apache-2.0
"""Current and peak memory use of a logical device."""

from __future__ import annotations

from collections.abc import Callable

from .._core import runtime, texts
from .._core.built_in_errors import raising_built_in
from .._core.native import core
from .._core.notices import log
from .._typing import Any


def _ask(question: Callable[[str], Any], device: str) -> Any:
    """Check that ``device`` is a string, and ask the core.

    All errors have Python's classes, as those of TensorFlow's binding.
    """
    text = device if type(device) is str and device.isascii() and "\0" not in device else texts.device_text(device)
    return question(text)


_ask = raising_built_in(_ask, everything=True)


def get_memory_info(device: str) -> dict[str, int]:
    """Return the current and peak memory use of a logical GPU in bytes: ``{'current': ..., 'peak': ...}``.

    Counts allocated blocks, in multiples of 256 bytes, not the memory that the pool has reserved. Initializes the
    runtime. ``device`` is a string such as ``'GPU:0'``, ``'/gpu:0'`` or ``'/device:GPU:0'``. It is case-sensitive.

    Raises ValueError for a name that is malformed (``'GPU'``), matches no device or more than one, or names a CPU.

    >>> get_memory_info("GPU:0")
    {'current': 0, 'peak': 0}
    """
    runtime.logical_devices("get_memory_info")  # before the device is looked at, as in TensorFlow
    current, _, peak = _ask(core.pybind_MemoryInfo, device).partition(" ")
    return {"current": int(current), "peak": int(peak)}


def get_memory_usage(device: str) -> int:
    """Return the current memory use of a logical GPU in bytes.

    Deprecated: use ``get_memory_info(device)['current']``.
    """
    log("warning", "get_memory_usage is deprecated: use get_memory_info(device)['current']")
    runtime.logical_devices("get_memory_usage")  # first, so that later errors name this function
    return get_memory_info(device)["current"]


def reset_memory_stats(device: str) -> None:
    """Reset the peak memory use of a logical GPU to its current use. Raises as ``get_memory_info`` does."""
    runtime.logical_devices("reset_memory_stats")
    _ask(core.pybind_ResetMemoryStats, device)
