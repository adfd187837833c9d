# SPDX-License-Identifier: Apache-2.0
"""Tensors that PyTorch hands to other processes, in mode "segments".

The driver shares a whole allocation: its handle of any address in the pool's region leads to the region's begin.
PyTorch states where a tensor is in a segment, which it takes for the allocation. So the place of that segment in the
region is added. Without it, the other process would read and write the memory of other tensors. A pool that grows has
no such handles.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from .. import errors
from .._core import abi
from .._typing import Any

_OFFSET = 3  # in what PyTorch's _share_cuda_ returns: device, handle, bytes, offset of the storage, ...


def install() -> None:
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
                "send a copy "
                "of the tensor in host memory"
            ) from error
        if not begin:
            return answer
        values = list(answer)
        values[_OFFSET] = storage.data_ptr() - begin
        return tuple(values)

    return shared
