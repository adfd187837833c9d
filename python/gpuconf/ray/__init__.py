# SPDX-License-Identifier: Apache-2.0
"""Ray tasks and actors that share GPUs by bytes, each within its own limit.

- :func:`remote` is ``ray.remote`` with GPU memory: ``@gpuconf.ray.remote(memory="6GiB")``
- :func:`options` is the same for what is decorated with ``ray.remote`` already
- :func:`resources` announces the size of a node's cards, for ``ray start --resources`` and ``ray.init``
- :func:`memory` is the memory of all tasks and actors by card, library and tag

Ray does the accounting, in fractions of a GPU. gpuconf turns bytes into these fractions, and sets the limit in the
process that holds the share. This module needs Ray: ``pip install 'gpuconf[ray]'``. It works on simulated GPUs.
"""

from __future__ import annotations

try:
    import ray as _ray
except ImportError as _error:
    from .._core import texts as _texts

    raise _texts.missing("gpuconf.ray needs", "Ray", "ray", _error) from _error

from .._core.public import name_after
from ..cluster.rows import ClusterMemory, ProcessRow
from ._memory import memory
from ._remote import RemoteActor, RemoteFunction, options, remote
from ._resources import CARD_MEMORY, resources

__all__ = [
    "CARD_MEMORY",
    "ClusterMemory",
    "ProcessRow",
    "RemoteActor",
    "RemoteFunction",
    "memory",
    "options",
    "remote",
    "resources",
]

name_after(__name__, ("RemoteActor", "RemoteFunction"))
del _ray


def __dir__() -> list[str]:
    return __all__
