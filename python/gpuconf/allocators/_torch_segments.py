# SPDX-License-Identifier: Apache-2.0
"""The PyTorch functions that mode "segments" changes, and the settings that it rejects before PyTorch applies them.

Mode segments supplies the memory that PyTorch's allocator requests with ``cudaMalloc``. Expandable segments are mapped
through the driver instead, and the backend ``cudaMallocAsync`` is a different allocator. Importing this module does not
import
PyTorch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from .. import errors
from .._core import abi
from .._typing import Any
from . import _torch_processes

_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_SETTERS = ("_cuda_cudaCachingAllocator_set_allocator_settings", "_accelerator_setAllocatorSettings")
_EMPTIERS = ("_cuda_emptyCache", "_accelerator_emptyCache")
_PATTERN = r"(?:^|[,\s])(expandable_segments\s*:\s*True|backend\s*:\s*cudaMallocAsync)"


def _offending(settings: Any) -> str | None:
    import re

    found = re.search(_PATTERN, settings) if isinstance(settings, str) else None
    return found[1] if found else None


def _refusal(setting: str, where: str) -> errors.FailedPreconditionError:
    return errors.FailedPreconditionError(
        f"{setting}{where} is incompatible with gpuconf's mode 'segments' for PyTorch: it bypasses cudaMalloc, so no "
        "limit would "
        "apply. Remove the setting, or use mode 'whole', which avoids fragmentation as well"
    )


def refuse_expandable() -> None:
    """Raise FailedPreconditionError if the environment selects expandable segments or another backend."""
    for variable in _VARIABLES:
        setting = _offending(os.environ.get(variable))
        if setting is not None:
            raise _refusal(setting, f" in {variable}")


def install() -> None:
    """Make gpuconf the source of segments, reject these settings at run time too, and let ``empty_cache()`` trim our
    pools.
    """
    refuse_expandable()
    abi.redirect_torch()
    _torch_processes.install()
    native: Any = sys.modules["torch"]._C
    for names, wrap in ((_SETTERS, _refusing), (_EMPTIERS, _trimming)):
        for name in names:
            if hasattr(native, name):
                setattr(native, name, wrap(getattr(native, name)))


def _refusing(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(settings: Any) -> Any:
        setting = _offending(settings)
        if setting is not None:
            raise _refusal(setting, "")
        return change(settings)

    return checked


def _trimming(empty: Callable[[], Any]) -> Callable[[], Any]:
    """``empty_cache()`` returns idle memory to the GPU.

    PyTorch calls it before it captures a graph, which needs settled memory.
    """

    def empty_all() -> Any:
        result = empty()
        abi.trim()
        return result

    return empty_all
