"""How much memory a logical device uses, now and at its peak."""

from __future__ import annotations

from .._core import runtime, texts
from .._core.native import core
from .._core.notices import log


def _device(function: str, device: str) -> str:
    """Initialise the runtime, then check that the argument is a string: in TensorFlow's order."""
    runtime.logical_devices(function)
    return device if type(device) is str and device.isascii() and "\0" not in device else texts.device_text(device)


def get_memory_info(device: str) -> dict[str, int]:
    """Tell the memory in use on a logical GPU and its peak, in bytes: ``{'current': ..., 'peak': ...}``.

    Counts what was handed out, in blocks of 256 bytes, not what the pool has taken from the GPU. Initialises the runtime.
    ``device`` is a string such as ``'GPU:0'``, ``'/gpu:0'`` or ``'/device:GPU:0'``; upper and lower case matter.

    Raises ValueError for a name that doesn't parse (``'GPU'``), matches no device or several, or is a CPU.

    >>> get_memory_info("GPU:0")
    {'current': 0, 'peak': 0}
    """
    current, _, peak = core.pybind_MemoryInfo(_device("get_memory_info", device)).partition(" ")
    return {"current": int(current), "peak": int(peak)}


def get_memory_usage(device: str) -> int:
    """Tell the memory in use on a logical GPU, in bytes. Deprecated: use ``get_memory_info(device)['current']``."""
    log("warning", "get_memory_usage is deprecated: use get_memory_info(device)['current']")
    runtime.logical_devices("get_memory_usage")  # so that later errors name this function
    return get_memory_info(device)["current"]


def reset_memory_stats(device: str) -> None:
    """Begin a new peak for a logical GPU at what is in use now. Raises as ``get_memory_info`` does."""
    core.pybind_ResetMemoryStats(_device("reset_memory_stats", device))
