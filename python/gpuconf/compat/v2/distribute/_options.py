# SPDX-License-Identifier: Apache-2.0
"""Options that methods of strategies take. gpuconf keeps them as arguments only."""

from __future__ import annotations

import enum

from ...._typing import Any, NamedTuple


class InputReplicationMode(enum.Enum):
    """Whether there is a pipeline of inputs for each worker, or for each replica."""

    PER_WORKER = "PER_WORKER"
    PER_REPLICA = "PER_REPLICA"


class InputOptions(NamedTuple):
    """How a dataset is distributed."""

    experimental_fetch_to_device: Any = None
    experimental_replication_mode: InputReplicationMode = InputReplicationMode.PER_WORKER
    experimental_place_dataset_on_device: bool = False
    experimental_per_replica_buffer_size: int = 1


class RunOptions(NamedTuple):
    """How ``Strategy.run`` compiles a function."""

    experimental_enable_dynamic_batch_size: bool = True
    experimental_bucketizing_dynamic_shape: bool = False
    experimental_xla_options: Any = None
