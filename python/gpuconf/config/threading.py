# SPDX-License-Identifier: Apache-2.0
"""``tf.config.threading``: thread pool sizes. They are stored but have no effect: gpuconf has no such pools."""

from __future__ import annotations

from .._core.built_in_errors import raise_built_in
from .._missing import watch
from . import _execution

__all__ = [
    "get_inter_op_parallelism_threads",
    "get_intra_op_parallelism_threads",
    "set_inter_op_parallelism_threads",
    "set_intra_op_parallelism_threads",
]


def get_intra_op_parallelism_threads() -> int:
    """Return the number of threads used within an operation. 0 lets the runtime choose."""
    return int(_execution.get("intra_op_parallelism_threads"))


def set_intra_op_parallelism_threads(num_threads: int | None) -> None:
    """Set the number of threads used within an operation.

    Raises RuntimeError if the runtime is initialized and it would change.
    """
    _execution.put("intra_op_parallelism_threads", _execution.integer("num_threads", num_threads))


def get_inter_op_parallelism_threads() -> int:
    """Return the number of operations that may run concurrently. 0 lets the runtime choose."""
    return int(_execution.get("inter_op_parallelism_threads"))


def set_inter_op_parallelism_threads(num_threads: int | None) -> None:
    """Set the number of concurrent operations.

    Raises RuntimeError if the runtime is initialized and it would change.
    """
    _execution.put("inter_op_parallelism_threads", _execution.integer("num_threads", num_threads))


raise_built_in(__name__, __all__)

watch(globals())
