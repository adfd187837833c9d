# SPDX-License-Identifier: Apache-2.0
"""Memory that a program requests without a value, as ``torch.empty`` and ``resize_`` do: it reads as zero.

So it never reads as what a freed block held, and a result of a kernel that nothing computes, of Triton for example, is
zero. Clearing takes no memory of the host's, but for small tensors; with ``values="none"`` only memory where small
tensors have been written is cleared.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..._typing import Any
from . import graphs, memory, moves, queues, small
from .thread import state

NAMES = ("aten::empty.memory_format", "aten::empty_strided", "aten::resize_")


def clearing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the kernel of an operator that allocates, which takes a dispatch key set first."""

    def kernel(keys: Any, *args: Any, **named: Any) -> Any:
        resized = isinstance(args[0], torch.Tensor)
        kept = args[0].untyped_storage().nbytes() if resized else 0
        result = original(keys, *args, **named)
        if state.inside or _is_filled_by_pytorch() or (moves.only_small and small.is_never_written(result)):
            return result
        storage = result.untyped_storage()
        address, size = storage.data_ptr() + kept, storage.nbytes() - kept
        if size > 0 and storage.data_ptr():
            if queues.left.value:
                queues.wait(result)
            if graphs.capturing():
                graphs.record(lambda _seed: memory.clear(address, size))
            else:
                memory.clear(address, size)
        return result

    return kernel


def _is_filled_by_pytorch() -> bool:
    """Whether PyTorch fills the memory itself, with values that show a use of it."""
    return torch.are_deterministic_algorithms_enabled() and bool(torch.utils.deterministic.fill_uninitialized_memory)
