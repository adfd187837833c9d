# SPDX-License-Identifier: Apache-2.0
"""``tf.keras.utils``: the seed."""

from __future__ import annotations

from ...._missing import watch
from ...._typing import Any

__all__ = ["set_random_seed"]


def set_random_seed(seed: Any) -> None:
    """Seed Python's, NumPy's and gpuconf's random numbers. Raises ValueError for anything but an integer."""
    if not isinstance(seed, int):
        raise ValueError(f"Expected `seed` argument to be an integer. Received: seed={seed} (of type {type(seed)})")
    import random

    from ....tensors import arrays
    from ...v1._seed import set_random_seed as set_seed

    random.seed(seed)
    arrays.numpy().random.seed(seed)
    set_seed(seed)


def __dir__() -> list[str]:
    return __all__


watch(globals())
