# SPDX-License-Identifier: Apache-2.0
"""What ``get_variable`` calls for the first value of a variable: functions of a shape and a type."""

from __future__ import annotations

from ..._typing import Any
from . import _ops


class Initializer:
    """The base of the initializers."""

    def __init__(self, dtype: Any = "float32") -> None:
        self.dtype = dtype

    def _value(self, shape: Any, dtype: Any) -> Any:
        raise NotImplementedError

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        """Return a tensor of a shape."""
        del partition_info
        return self._value(shape, self.dtype if dtype is None else dtype)


class zeros_initializer(Initializer):  # noqa: N801 - TensorFlow's names
    """Zeros."""

    def _value(self, shape: Any, dtype: Any) -> Any:
        return _ops.zeros(shape, dtype)


class ones_initializer(Initializer):  # noqa: N801
    """Ones."""

    def _value(self, shape: Any, dtype: Any) -> Any:
        return _ops.ones(shape, dtype)


class constant_initializer(Initializer):  # noqa: N801
    """A number, or an array that is filled into the shape."""

    def __init__(self, value: Any = 0, dtype: Any = "float32", verify_shape: bool = False) -> None:
        super().__init__(dtype)
        self.value = value
        self._verify = verify_shape

    def _value(self, shape: Any, dtype: Any) -> Any:
        return _ops.constant(self.value, dtype, shape, verify_shape=self._verify)


class random_uniform_initializer(Initializer):  # noqa: N801
    """Uniformly distributed numbers."""

    def __init__(self, minval: float = 0.0, maxval: Any = None, seed: Any = None, dtype: Any = "float32") -> None:
        super().__init__(dtype)
        self.minval: float = minval
        self.maxval: Any = maxval
        self.seed: Any = seed

    def _value(self, shape: Any, dtype: Any) -> Any:
        return _ops.random_uniform(shape, self.minval, self.maxval, dtype, self.seed)


class random_normal_initializer(Initializer):  # noqa: N801
    """Normally distributed numbers."""

    _draw = staticmethod(_ops.random_normal)

    def __init__(self, mean: float = 0.0, stddev: float = 1.0, seed: Any = None, dtype: Any = "float32") -> None:
        super().__init__(dtype)
        self.mean: float = mean
        self.stddev: float = stddev
        self.seed: Any = seed

    def _value(self, shape: Any, dtype: Any) -> Any:
        return self._draw(shape, self.mean, self.stddev, dtype, self.seed)


class truncated_normal_initializer(random_normal_initializer):  # noqa: N801
    """Normally distributed numbers within two standard deviations."""

    _draw = staticmethod(_ops.truncated_normal)


class glorot_uniform_initializer(Initializer):  # noqa: N801
    """Uniformly distributed numbers whose bound falls with the number of inputs and outputs."""

    def __init__(self, seed: Any = None, dtype: Any = "float32") -> None:
        super().__init__(dtype)
        self.seed = seed

    def _value(self, shape: Any, dtype: Any) -> Any:
        bound = (6 / max(sum(list(shape)[-2:]), 1)) ** 0.5
        return _ops.random_uniform(shape, -bound, bound, dtype, self.seed)
