"""Device memory by hand: allocate and free under the limits, look at the books, measure a peak.

>>> import gpuconf
>>> with gpuconf.memory.allocate(1_000_000, "GPU:0") as buffer:
...     buffer.nbytes, gpuconf.memory.stats("GPU:0").bytes_in_use
(1000000, 1000192)
"""

from __future__ import annotations

from ._buffer import Buffer, allocate, live_buffers
from ._measure import Measurement, measure
from ._memory_map import Chunk, MemoryMap, Region, memory_map
from ._memory_stats import MemoryStats, stats
from ._record import Recording, record
from ._trace import Trace, TraceEvent, load_trace

__all__ = [
    "Buffer",
    "Chunk",
    "Measurement",
    "MemoryMap",
    "MemoryStats",
    "Recording",
    "Region",
    "Trace",
    "TraceEvent",
    "allocate",
    "live_buffers",
    "load_trace",
    "measure",
    "memory_map",
    "record",
    "stats",
]


def __dir__() -> list[str]:
    return __all__
