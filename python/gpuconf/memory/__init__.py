# SPDX-License-Identifier: Apache-2.0
"""Explicit device memory: allocate and free within the limits, read statistics by library and tag, measure peaks,
record traces.

>>> import gpuconf
>>> with gpuconf.memory.allocate(1_000_000, "GPU:0") as buffer:
...     buffer.nbytes, gpuconf.memory.stats("GPU:0").bytes_in_use
(1000000, 1000192)
"""

from __future__ import annotations

from .._core.devices import LogicalDevice  # noqa: F401 - typing.get_type_hints(Buffer) resolves names here
from .._core.generated.memorymap import Chunk, Region
from .._core.generated.stats import UsageRow
from .._core.public import name_after
from . import _dask
from ._buffer import Buffer, allocate, live_buffers
from ._fit_batch import BatchFit, BatchTry, fit_batch
from ._holders import Holder
from ._map import MemoryMap, memory_map
from ._measure import Measurement, MeasureRow, measure
from ._record import Recording, record
from ._release import Released, ReleaseStep, release
from ._stats import MemoryStats, stats
from ._tag import Tag, tag
from ._trace import Trace, TraceEvent, load_trace
from ._usage import MemoryUsage, usage

__all__ = [
    "BatchFit", "BatchTry", "Buffer", "Chunk", "Holder", "MeasureRow", "Measurement", "MemoryMap", "MemoryStats",
    "MemoryUsage", "Recording", "Region", "ReleaseStep", "Released", "Tag", "Trace", "TraceEvent", "UsageRow",
    "allocate", "fit_batch", "live_buffers", "load_trace", "measure", "memory_map", "record", "release", "report",
    "stats", "tag", "usage",
]  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..plans.pages.report import report
else:

    def __getattr__(name: str) -> object:
        """Load ``report`` on first use. It needs the planner, which is on a floor above and reads traces."""
        if name == "report":
            import importlib

            return importlib.import_module("gpuconf.plans.pages.report").report
        import sys

        from .._missing import error_for

        raise error_for(__name__, name, sys._getframe(1))


_dask.register()
name_after(__name__, __all__)


def __dir__() -> list[str]:
    return __all__
