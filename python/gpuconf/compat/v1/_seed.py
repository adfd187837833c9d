"""The seed of random operations, which gpuconf does not have."""

from __future__ import annotations

from ..._typing import Any
from ._graph import get_default_graph
from ._mode import executing_eagerly


def set_random_seed(seed: Any) -> None:
    """Store the seed: in the default graph if operations build graphs, for the program otherwise. Has no other effect.

    Raises TypeError for a seed that Python's ``random.Random`` does not take.
    """
    if not executing_eagerly():
        get_default_graph().seed = seed
        return
    try:
        hash(seed)
    except TypeError:
        int(seed)
