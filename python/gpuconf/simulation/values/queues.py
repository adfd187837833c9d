# SPDX-License-Identifier: Apache-2.0
"""Work that is left in the queues of streams: NCCL's, host functions, and what comes after these.

The CPU computes an operation when it is queued. So the thread waits first until the work before it in its stream is
done. NCCL's operations under capture are recorded with the others, and done in their turn at each replay.
"""

from __future__ import annotations

import ctypes

import torch

from ..._typing import Any
from . import graphs, moves, waits

left: ctypes.c_uint32 = ctypes.c_uint32(0)  # pieces of work in the queues of all streams
_kept: list[Any] = []


def install(library: Any) -> None:
    """Use the replacement libraries' count."""
    global left
    library.gpuconf_runtime_queued_address.restype = ctypes.c_void_p
    left = ctypes.c_uint32.from_address(library.gpuconf_runtime_queued_address())
    collective = library.gpuconf_runtime_collective
    collective.argtypes, collective.restype = [ctypes.c_void_p], None
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda batch: graphs.record(lambda _seed: collective(batch)))
    _kept.append(callback)
    library.gpuconf_runtime_on_captured_collective(callback)


def wait(*arguments: Any) -> None:
    """Return when the work before an operation in its stream is done, unless it is captured.

    Call it only if there is work left.
    """
    stream = torch.cuda.current_stream(moves.device_among(arguments))
    if not graphs.capturing():
        waits.synchronize(stream)
