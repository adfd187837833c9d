# SPDX-License-Identifier: Apache-2.0
"""Operations that gpuconf computes with NumPy in host memory: what programs compute to see that a device works.

The result is put on the device of the operation. Random numbers are NumPy's: a seed makes them repeat, but they are not
those of TensorFlow.
"""

from __future__ import annotations

from .._typing import Any
from ..tensors import arrays

OPERATORS = {"mul": "Mul", "sub": "Sub", "truediv": "RealDiv", "floordiv": "FloorDiv", "mod": "FloorMod", "pow": "Pow"}

_FUNCTIONS = {
    **dict(arrays.COMPARISONS.values()),
    "Exp": "exp",
    "FloorDiv": "floor_divide",
    "FloorMod": "mod",
    "Max": "max",
    "Mean": "mean",
    "Min": "min",
    "Mul": "multiply",
    "Neg": "negative",
    "Pow": "power",
    "RealDiv": "true_divide",
    "Sqrt": "sqrt",
    "Square": "square",
    "Sub": "subtract",
    "Sum": "sum",
    "Tanh": "tanh",
}


def compute(kind: str, *inputs: Any, **options: Any) -> Any:
    """Compute an operation. Raises ValueError for shapes that do not fit."""
    np = arrays.numpy()
    wanted = arrays.type_of_result(kind, inputs[0].dtype.name)
    with np.errstate(all="ignore"):
        result = getattr(np, _FUNCTIONS[kind])(*inputs, **options)
    return np.asarray(result).astype(wanted, copy=False)


def shape_of_result(*shapes: Any, **options: Any) -> tuple[int | None, ...] | None:
    """Return the shape of a result, None if it is not known. Raises ValueError for shapes that do not fit."""
    if any(shape is None for shape in shapes):
        return None
    np = arrays.numpy()
    if "axis" in options:
        if options["axis"] is None and not options.get("keepdims"):
            return ()
        if None in shapes[0]:
            return None
        return tuple(np.empty(shapes[0], "int8").sum(**options).shape)
    if any(None in shape for shape in shapes):
        return shapes[0] if len(shapes) == 1 or len(shapes[1]) == 0 else shapes[1] if len(shapes[0]) == 0 else None
    return tuple(np.broadcast_shapes(*shapes))


class Seeds:
    """The random numbers of a program: those of a seed repeat."""

    def __init__(self) -> None:
        self.seed: int | None = None
        self._generator: Any = None

    def set(self, seed: Any) -> None:
        """Start over with a seed. Anything that is not an integer counts by its text; None draws a seed."""
        self.seed = seed if isinstance(seed, int) else hash(repr(seed)) if seed is not None else None
        self._generator = None

    def generator(self, seed: Any) -> Any:
        """Return the generator of an operation: its own for each seed of an operation."""
        np = arrays.numpy()
        if self._generator is None:
            self._generator = np.random.default_rng(None if self.seed is None else abs(self.seed))
        if seed is None:
            return self._generator
        own = abs(int(seed))
        return np.random.default_rng([own, (self.seed and abs(self.seed)) or 0, int(self._generator.integers(1 << 31))])


seeds = Seeds()


def normal(shape: Any, mean: Any, stddev: Any, dtype: Any, seed: Any, truncated: bool = False) -> Any:
    """Draw normally distributed numbers; ``truncated`` draws those beyond two standard deviations again."""
    np = arrays.numpy()
    wanted, generator = _numbers(dtype), seeds.generator(seed)
    drawn = generator.standard_normal(shape)
    while truncated and (beyond := np.abs(drawn) > 2).any():
        drawn = np.where(beyond, generator.standard_normal(shape), drawn)
    return np.asarray(drawn * stddev + mean).astype(wanted)


def uniform(shape: Any, minval: Any, maxval: Any, dtype: Any, seed: Any) -> Any:
    """Draw uniformly distributed numbers, below ``maxval``: 1 for floats. Raises ValueError for integers without it."""
    np = arrays.numpy()
    wanted = _numbers(dtype)
    if wanted.kind == "i":
        if maxval is None:
            raise ValueError(f"Must specify maxval for integer dtype {wanted.name}")
        return np.asarray(seeds.generator(seed).integers(minval, maxval, shape)).astype(wanted)
    drawn = seeds.generator(seed).random(shape) * ((1 if maxval is None else maxval) - minval) + minval
    return np.asarray(drawn).astype(wanted)


def _numbers(dtype: Any) -> Any:
    """Return a type of random numbers. Raises ValueError for bool."""
    wanted = arrays.dtype_of(dtype)
    if wanted.kind == "b":
        text = "Argument `dtype` got invalid value <dtype: 'bool'>."
        raise ValueError(f"{text} Accepted dtypes are float32, float64, int32.")
    return wanted
