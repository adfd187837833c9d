# SPDX-License-Identifier: Apache-2.0
"""``torch.cuda.set_sync_debug_mode``, which notices calls that wait for a card.

PyTorch's own functions notice waits in copies and streams. What the CPU computes instead of a kernel that waits is
noticed here.
"""

from __future__ import annotations

import torch

from ..._typing import Any
from . import notice

_TEXT = "called a synchronizing CUDA operation"
_WARN, _RAISE = 1, 2


def note() -> None:
    """Warn or raise, if the program wishes, as an operation does that waits on a card."""
    mode = torch._C._cuda_get_sync_debug_mode()
    if mode == _WARN:
        notice.warn(_TEXT)
    elif mode == _RAISE:
        raise RuntimeError(_TEXT)


def is_noticed(error: BaseException) -> bool:
    """Whether an error is that of the debug mode."""
    return _TEXT in str(error)


def synchronize(stream: Any) -> None:
    """Wait for a stream where a card does not: without a notice."""
    mode = torch._C._cuda_get_sync_debug_mode()
    if not mode:
        stream.synchronize()
        return
    torch._C._cuda_set_sync_debug_mode(0)
    try:
        stream.synchronize()
    finally:
        torch._C._cuda_set_sync_debug_mode(mode)
