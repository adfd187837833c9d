# SPDX-License-Identifier: Apache-2.0
"""Dask clusters whose workers share GPUs, each within its own limit.

- :class:`LocalCluster` starts workers on the GPUs of this machine, several on a card if you like
- :class:`WorkerSetup` does the same for a cluster that exists, and so does
  ``dask worker ADDRESS --preload gpuconf.dask --gpuconf-memory 8GiB``
- :func:`needs` declares what a task needs, so that the scheduler never overcommits a worker
- :func:`memory` is the memory of all workers by card, library and tag; Dask's dashboard shows it as the page
  ``/gpuconf``
- :func:`retry_larger` runs tasks that ran out of memory again where there is more room

This module needs Dask: ``pip install 'gpuconf[dask]'``. It works on simulated GPUs.
"""

from __future__ import annotations

try:
    import distributed as _distributed
except ImportError as _error:
    from .._core import texts as _texts

    raise _texts.missing("gpuconf.dask needs", "Dask", "dask", _error) from _error

from .._core.public import name_after
from ..cluster.rows import ClusterMemory, ProcessRow
from . import _memory
from ._local_cluster import LocalCluster
from ._memory import memory
from ._preload import dask_setup as dask_setup  # Dask looks for these two
from ._preload import dask_teardown as dask_teardown
from ._retry import RESOURCE, needs, retry_larger
from ._worker_setup import WorkerSetup

__all__ = [
    "RESOURCE",
    "ClusterMemory",
    "LocalCluster",
    "ProcessRow",
    "WorkerSetup",
    "memory",
    "needs",
    "retry_larger",
]

_memory.add_to_dashboards()
name_after(__name__, ("LocalCluster", "WorkerSetup"))
del _distributed


def __dir__() -> list[str]:
    return __all__
