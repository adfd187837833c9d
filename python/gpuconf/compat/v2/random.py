# SPDX-License-Identifier: Apache-2.0
"""``tf.random``: random numbers, which are NumPy's. A seed makes them repeat, but they are not those of TensorFlow."""

from __future__ import annotations

from ..._core.built_in_errors import raise_built_in
from ..._missing import watch
from ..._typing import Any
from .. import _numpy_ops as numpy_ops
from ..v1 import _ops as _graph_ops
from ..v1._mode import executing_eagerly
from ..v1._seed import set_random_seed
from ._eager_tensor import computed

__all__ = ["normal", "set_seed", "truncated_normal", "uniform"]


def set_seed(seed: Any) -> None:
    """Set the seed, and that of the default graph if operations build graphs.

    Raises TypeError for an unhashable seed that is not one number.

    >>> set_seed(42)
    """
    set_random_seed(seed)


def normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", seed: Any = None, name: str | None = None
) -> Any:
    """Draw normally distributed numbers.

    >>> set_seed(1)
    >>> normal([2, 3]).shape
    TensorShape([2, 3])
    """
    if not executing_eagerly():
        return _graph_ops.random_normal(shape, mean, stddev, dtype, seed, name)
    return computed(numpy_ops.normal(_sizes(shape), mean, stddev, dtype, seed), name or "random_normal")


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", seed: Any = None, name: str | None = None
) -> Any:
    """Draw normally distributed numbers within two standard deviations."""
    if not executing_eagerly():
        return _graph_ops.truncated_normal(shape, mean, stddev, dtype, seed, name)
    return computed(numpy_ops.normal(_sizes(shape), mean, stddev, dtype, seed, True), name or "truncated_normal")


def uniform(
    shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = "float32", seed: Any = None, name: str | None = None
) -> Any:
    """Draw uniformly distributed numbers below ``maxval``, by default from 0 to 1. Integers need ``maxval``."""
    if not executing_eagerly():
        return _graph_ops.random_uniform(shape, minval, maxval, dtype, seed, name)
    return computed(numpy_ops.uniform(_sizes(shape), minval, maxval, dtype, seed), name or "random_uniform")


def _sizes(shape: Any) -> Any:
    return tuple(map(int, shape)) if hasattr(shape, "__iter__") else (int(shape),)


raise_built_in(__name__, __all__)


def __dir__() -> list[str]:
    return __all__


watch(globals())
