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

_OFFSET = 3  # in what PyTorch's _share_cuda_ returns: device, handle, bytes, offset of the storage, ...


def install_between_processes() -> None:
    """Correct the offsets of the tensors that this process hands to others."""
    storage: Any = sys.modules["torch"].UntypedStorage
    storage._share_cuda_ = _corrected(storage._share_cuda_)


def _corrected(share: Callable[..., Any]) -> Callable[..., Any]:
    def shared(storage: Any, *arguments: Any) -> Any:
        begin = abi.region(storage.data_ptr()) if storage.device.type == "cuda" and storage.nbytes() else 0
        try:
            answer = share(storage, *arguments)
        except RuntimeError as error:
            if not begin or "invalid argument" not in str(error):
                raise
            raise errors.FailedPreconditionError(
                "a pool that grows cannot hand tensors to other processes: use gpuconf.configure(growth=False), or "
                "send a copy of the tensor in host memory"
            ) from error
        if not begin:
            return answer
        values = list(answer)
        values[_OFFSET] = storage.data_ptr() - begin
        return tuple(values)

    return shared


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
        "limit would apply. Remove the setting, or use mode 'whole', which avoids fragmentation as well"
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
    install_between_processes()
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
