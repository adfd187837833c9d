# SPDX-License-Identifier: Apache-2.0
"""``tf.distribute``: the devices of a strategy. gpuconf does not run programs on them."""

from __future__ import annotations

from ...._core.built_in_errors import raise_built_in
from ...._core.public import name_after
from ...._missing import watch
from . import cluster_resolver, experimental
from ._strategies import (
    CrossDeviceOps,
    HierarchicalCopyAllReduce,
    MirroredStrategy,
    MultiWorkerMirroredStrategy,
    NcclAllReduce,
    OneDeviceStrategy,
    ReduceOp,
    ReductionToOneDevice,
    Strategy,
    StrategyExtended,
    TPUStrategy,
    get_strategy,
    has_strategy,
    in_cross_replica_context,
)

__all__ = [
    "CrossDeviceOps",
    "HierarchicalCopyAllReduce",
    "MirroredStrategy",
    "MultiWorkerMirroredStrategy",
    "NcclAllReduce",
    "OneDeviceStrategy",
    "ReduceOp",
    "ReductionToOneDevice",
    "Strategy",
    "StrategyExtended",
    "TPUStrategy",
    "cluster_resolver",
    "experimental",
    "get_strategy",
    "has_strategy",
    "in_cross_replica_context",
]

name_after(__name__, __all__)
raise_built_in(__name__, __all__)


def __dir__() -> list[str]:
    return __all__


watch(globals())
