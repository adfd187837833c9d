# SPDX-License-Identifier: Apache-2.0
"""``tf.test``: which GPUs there are, as tests ask for them."""

from __future__ import annotations

from ..._core import runtime
from ..._core.built_in_errors import raise_built_in
from ..._core.fork import module_lock
from ..._missing import watch
from ..._typing import Any
from .._logger import get_logger
from .python.client.device_lib import list_local_devices

__all__ = [
    "gpu_device_name",
    "is_built_with_cuda",
    "is_built_with_gpu_support",
    "is_built_with_rocm",
    "is_built_with_xla",
    "is_gpu_available",
]

_lock = module_lock(globals(), "_lock")
_warned = False


def gpu_device_name() -> str:
    """Return the name of the first logical GPU, or ``""`` without one. Makes the GPUs ready, as a session does.

    >>> gpu_device_name()
    '/device:GPU:0'
    """
    return next((each.name for each in list_local_devices() if each.device_type == "GPU"), "")


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: tuple[int, int] | None = None) -> bool:
    """Return whether there is a logical GPU with at least a compute capability.

    Makes the GPUs ready, as a session does.

    Deprecated: logs a warning once. ``cuda_only`` has no effect, because all GPUs are CUDA GPUs. Raises TypeError for a
    compute capability that is not a tuple.

    >>> is_gpu_available(min_cuda_compute_capability=(9, 0))
    True
    """
    del cuda_only
    _warn()
    for each in list_local_devices():
        if each.device_type == "GPU":
            text = each.physical_device_desc.rpartition("compute capability: ")[2]
            capability = tuple(map(int, text.split(".")))
            if not min_cuda_compute_capability or _at_least(capability, min_cuda_compute_capability):
                return True
    return False


def _at_least(capability: tuple[int, ...], wanted: Any) -> bool:
    try:
        return bool(capability >= wanted)
    except TypeError as error:
        raise TypeError(f"{error}: pass (major, minor)") from None


def _warn() -> None:
    """Log that the program calls a deprecated function, the first time."""
    global _warned
    with _lock:
        if _warned:
            return
        _warned = True
    frame = runtime.calling_frame()
    get_logger().warning(
        "From %s:%s: is_gpu_available (from gpuconf.compat.v2.test) is deprecated and will be removed in a future "
        "version.\n"
        "Instructions for updating:\nUse `tf.config.list_physical_devices('GPU')` instead.",
        frame.f_code.co_filename,
        frame.f_lineno,
    )


def is_built_with_cuda() -> bool:
    """Return True: gpuconf uses CUDA GPUs.

    >>> is_built_with_cuda(), is_built_with_rocm()
    (True, False)
    """
    return True


def is_built_with_rocm() -> bool:
    """Return False: gpuconf does not use ROCm GPUs."""
    return False


def is_built_with_gpu_support() -> bool:
    """Return True."""
    return is_built_with_cuda() or is_built_with_rocm()


def is_built_with_xla() -> bool:
    """Return False: gpuconf compiles nothing."""
    return False


raise_built_in(__name__, __all__)


def __dir__() -> list[str]:
    return __all__


watch(globals())
