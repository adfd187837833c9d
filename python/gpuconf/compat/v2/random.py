# SPDX-License-Identifier: Apache-2.0
"""``tf.random``: the seed, which has no effect."""

from __future__ import annotations

from ..._core.built_in_errors import raise_built_in
from ..._missing import watch
from ..._typing import Any
from ..v1._seed import set_random_seed

__all__ = ["set_seed"]


def set_seed(seed: Any) -> None:
    """Set the seed of the default graph if operations build graphs. Has no effect on results: gpuconf has no random operations.

    Raises TypeError for an unhashable seed that is not one number.

    >>> set_seed(42)
    """
    set_random_seed(seed)

raise_built_in(__name__, __all__)


def __dir__() -> list[str]:
    return __all__


watch(globals())
