"""``tf.random``: the seed, which is stored only."""

from __future__ import annotations

from ..._typing import Any
from ..v1._seed import set_random_seed

__all__ = ["set_seed"]


def set_seed(seed: Any) -> None:
    """Store the seed. Has no effect: gpuconf has no random operations.

    Raises TypeError for a seed that Python's ``random.Random`` does not take.
    """
    set_random_seed(seed)


def __dir__() -> list[str]:
    return __all__
