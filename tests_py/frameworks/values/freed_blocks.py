"""Fill the blocks that PyTorch's allocator has free with a pattern, so that a result of stale memory differs."""

import ctypes

import torch

PATTERN = 0x7F  # NaN in float16, about 3e38 in float32 and bfloat16, and large as an integer
_MOST = 4 << 20  # of each block: the allocator takes memory from its beginning


def fill_freed_blocks() -> None:
    """Fill them. The memory of simulated GPUs is the host's."""
    for segment in torch.cuda.memory_snapshot():
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                ctypes.memset(block["address"], PATTERN, min(block["size"], _MOST))
