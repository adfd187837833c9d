# SPDX-License-Identifier: Apache-2.0
"""The seed of random operations, which gpuconf does not have."""

from __future__ import annotations

from ..._typing import Any
from ._graph import get_default_graph
from ._mode import executing_eagerly


def set_random_seed(seed: Any) -> None:
    """Set the seed of the default graph, ``Graph.seed``. Random numbers of a seed repeat, but they are NumPy's.

    Where operations run eagerly, the seed is only checked: raises TypeError for an unhashable seed that is not one
    number.
    """
    if not executing_eagerly():
        get_default_graph().seed = seed
        _keep(seed)
        return
    try:
        hash(seed)
        _keep(seed)
    except TypeError:
        from ...tensors import arrays

        try:
            arrays.check_readable(seed)  # NumPy would never finish reading a list that contains itself
            int(arrays.numpy().array(seed).item())
        except (TypeError, ValueError) as error:
            raise TypeError(f"the seed must be an integer, but got {arrays.shown(seed)}: {error}") from None


def _keep(seed: Any) -> None:
    from .. import _numpy_ops

    _numpy_ops.seeds.set(seed)
