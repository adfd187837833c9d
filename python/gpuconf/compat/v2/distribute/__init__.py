# SPDX-License-Identifier: Apache-2.0
"""``tf.distribute``: the devices of a strategy, and functions that run on each of them."""

from __future__ import annotations

from ...._core.built_in_errors import raise_built_in
from ...._core.public import name_after
from ...._missing import watch
from . import cluster_resolver, experimental
from ._options import InputOptions, InputReplicationMode, RunOptions
from ._replicas import DistributedValues, ReplicaContext
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
    experimental_set_strategy,
    get_replica_context,
    get_strategy,
    has_strategy,
    in_cross_replica_context,
)

__all__ = [
    "CrossDeviceOps",
    "DistributedValues",
    "HierarchicalCopyAllReduce",
    "InputOptions",
    "InputReplicationMode",
    "MirroredStrategy",
    "MultiWorkerMirroredStrategy",
    "NcclAllReduce",
    "OneDeviceStrategy",
    "ReduceOp",
    "ReductionToOneDevice",
    "ReplicaContext",
    "RunOptions",
    "Strategy",
    "StrategyExtended",
    "TPUStrategy",
    "cluster_resolver",
    "experimental",
    "experimental_set_strategy",
    "get_replica_context",
    "get_strategy",
    "has_strategy",
    "in_cross_replica_context",
]

name_after(__name__, __all__)
raise_built_in(__name__, __all__)


def __dir__() -> list[str]:
    return __all__


watch(globals())
