# SPDX-License-Identifier: Apache-2.0
"""Operations that gpuconf computes with NumPy in host memory: what programs compute to see that a device works.

The result is put on the device of the operation. Random numbers are NumPy's: a seed makes them repeat, but they are not
those of TensorFlow.
"""

from __future__ import annotations

import re

from .. import errors
from .._typing import Any
from ..config._execution import is_op_determinism_enabled
from ..tensors import arrays
from ._arrays import name_of, type_name
from ._dtypes import as_dtype

OPERATORS = {"mul": "Mul", "sub": "Sub", "truediv": "RealDiv", "floordiv": "FloorDiv", "mod": "FloorMod", "pow": "Pow"}

# By the kind of an operation: NumPy's function, where its name is not only spelled otherwise.
_FUNCTIONS: dict[str, Any] = {
    **{"Acos": "arccos", "Asin": "arcsin", "Atan": "arctan", "Atan2": "arctan2", "FloorDiv": "floor_divide"},
    **{"IsFinite": "isfinite", "IsInf": "isinf", "IsNan": "isnan", "MatMul": "matmul"},
    **{"Mul": "multiply", "Neg": "negative", "Pow": "power", "RealDiv": "true_divide", "Sub": "subtract"},
    "DivNoNan": lambda a, b: arrays.numpy().where(b == 0, 0, a / b),
    "Elu": lambda a: arrays.numpy().where(a > 0, a, arrays.numpy().expm1(a)),
    "EuclideanNorm": lambda a, **options: arrays.numpy().sqrt(arrays.numpy().square(a).sum(**options)),
    "FloorMod": lambda a, b: _with_zeros_of(arrays.numpy().mod(a, b), arrays.numpy().fmod, a, b),
    "LeakyRelu": lambda a, alpha: arrays.numpy().where(a > 0, a, a * alpha),
    "LogSoftmax": lambda a, axis=-1: arrays.numpy().log(_shares(a, axis)),
    "LogSumExp": lambda a, **options: arrays.numpy().log(arrays.numpy().exp(a).sum(**options)),
    "Mean": lambda a, **options: _mean(a.sum(**options), a.size),
    "Relu": lambda a: arrays.numpy().maximum(a, 0),
    "Relu6": lambda a: a.clip(0, 6),
    "Rsqrt": lambda a: 1 / arrays.numpy().sqrt(a),
    "Sigmoid": lambda a: 1 / (1 + arrays.numpy().exp(-a)),
    "Silu": lambda a: a / (1 + arrays.numpy().exp(-a)),
    "Softmax": lambda a, axis=-1: _shares(a, axis),
    "Softplus": lambda a: arrays.numpy().logaddexp(a, 0),
    "SquaredDifference": lambda a, b: (a - b) ** 2,
}


# The kinds of operations on floats only.
_OF_FLOATS = frozenset(
    [
        *("Acos", "Asin", "Atan", "Atan2", "Ceil", "Cos", "Cosh", "Elu", "Exp", "Expm1", "Floor", "IsFinite", "IsInf"),
        *("IsNan", "LeakyRelu", "Log", "Log1p", "LogSoftmax", "LogSumExp", "Reciprocal", "Rsqrt", "Sigmoid", "Silu"),
        *("Sin", "Sinh", "Softmax", "Softplus", "Sqrt", "Std", "Tan", "Tanh", "Var", "L2Normalize", "DivNoNan"),
    ]
)


_NOT_OF_COMPLEX = frozenset(
    [
        *("Atan2", "Ceil", "Floor", "FloorDiv", "FloorMod", "Greater", "GreaterEqual", "Less", "LessEqual", "Max"),
        *("LogSoftmax", "Maximum", "Min", "Minimum", "Relu", "Relu6", "Softmax"),
    ]
)


def check_type(kind: str, dtype: str) -> None:
    """Raise InvalidArgumentError for an integer or a complex type that an operation does not have."""
    if kind in _NOT_OF_COMPLEX and as_dtype(dtype).is_complex:
        raise errors.InvalidArgumentError(f"Value for attr 'T' of {dtype} is not allowed [Op:{kind}]")
    if kind in _OF_FLOATS and as_dtype(dtype).is_integer:
        text = f"Value for attr 'T' of {dtype} is not in the list of allowed values: half, float, double"
        if kind in ("Std", "Var"):
            raise TypeError("Input must be either real or complex. Received integer type")
        raise errors.InvalidArgumentError(f"{text} [Op:{kind}]")


def compute(kind: str, *inputs: Any, **options: Any) -> Any:
    """Compute an operation. Raises ValueError for shapes that do not fit."""
    np = arrays.numpy()
    wanted = arrays.type_of_result(kind, inputs[0].dtype.name)
    check_type(kind, inputs[0].dtype.name)
    if kind in _OF_FLOATS and inputs[0].dtype == "float32":  # rounded correctly, as most of TensorFlow's are
        inputs = tuple(each.astype("float64") for each in inputs)
    if kind in ("FloorDiv", "FloorMod") and inputs[1].dtype.kind in "iu" and not inputs[1].all():
        raise errors.InvalidArgumentError(f"Integer division by zero [Op:{kind}]")
    if kind in ("Softmax", "LogSoftmax") and not inputs[0].ndim:
        raise errors.InvalidArgumentError(f"logits must have >= 1 dimension, got [] [Op:{kind}]")
    if kind == "Round" and inputs[0].dtype.kind == "c":
        raise errors.NotFoundError("Could not find device for node: {{node Round}}")
    wanted = "bool" if kind in ("IsFinite", "IsInf", "IsNan") else wanted
    if kind == "MatMul":
        check_matrices(*inputs)
    if kind == "Abs" and inputs[0].dtype.kind == "c":
        wanted = np.abs(inputs[0][:0] if inputs[0].ndim else inputs[0]).dtype
    if kind in ("Max", "Min") and not inputs[0].size:
        least, most = _range(inputs[0].dtype)
        options = {**options, "initial": least if kind == "Max" else most}
    with np.errstate(all="ignore"):
        function = _FUNCTIONS.get(kind) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()
        result = (getattr(np, function) if isinstance(function, str) else function)(*inputs, **options)
    return np.asarray(result).astype(wanted, copy=False)


def _with_zeros_of(result: Any, function: Any, *inputs: Any) -> Any:
    """Return a result with the signs that zeros have in another function: NumPy's zeros have the divisor's."""
    return arrays.numpy().where(result == 0, function(*inputs), result)


def _range(dtype: Any) -> tuple[Any, Any]:
    np = arrays.numpy()
    if dtype.kind == "f":
        return -np.inf, np.inf
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def _mean(total: Any, size: int) -> Any:
    return total / (size / max(total.size, 1))


def _shares(array: Any, axis: int) -> Any:
    exponents = arrays.numpy().exp(array - array.max(axis, keepdims=True, initial=-arrays.numpy().inf))
    return exponents / exponents.sum(axis, keepdims=True)


def give_operators(kind: Any, value_of: Any) -> None:
    """Give a class of variables the operators of their values."""
    names = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
    for method in (*names, *(f"r{each}" for each in names), "lt", "le", "gt", "ge", "neg", "abs", "invert"):

        def forward(self: Any, *other: Any, name: str = f"__{method}__") -> Any:
            return getattr(value_of(self), name)(*map(value_of, other))

        setattr(kind, f"__{method}__", forward)


def cast(array: Any, wanted: str) -> Any:
    """Convert an array to another type. Raises UnimplementedError for strings."""
    has = name_of(array)
    if has != wanted and "string" in (has, wanted):
        raise errors.UnimplementedError(f"Cast {has} to {wanted} is not supported [Op:Cast]")
    with arrays.numpy().errstate(all="ignore"):
        return (array.real if wanted == "bool" else array).astype(as_dtype(wanted).dtype)


def check_matrices(a: Any, b: Any) -> None:
    """Raise InvalidArgumentError for arrays of which ``matmul`` has no product. NumPy accepts vectors, too."""
    for index, each in enumerate((a, b)):
        if each.ndim < 2:
            raise errors.InvalidArgumentError(f"In[{index}] ndims must be >= 2: {each.ndim} [Op:MatMul]")
    if a.shape[-1] != b.shape[-2]:
        sizes = f"In[0]: {_sizes(a)}, In[1]: {_sizes(b)}"
        raise errors.InvalidArgumentError(f"Matrix size-incompatible: {sizes} [Op:{_product(a, b)}] name: ")
    try:
        arrays.numpy().broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        text = f"In[0] and In[1] must have compatible batch dimensions: {_sizes(a)} vs. {_sizes(b)}"
        raise errors.InvalidArgumentError(f"{text} [Op:{_product(a, b)}] name: ") from None


def shape_of_product(a: Any, b: Any) -> tuple[int, ...]:
    """Return the shape of a product of matrices. Raises ValueError for shapes that do not fit."""
    np = arrays.numpy()
    first, second = np.broadcast_to(np.int8(0), a), np.broadcast_to(np.int8(0), b)
    try:
        check_matrices(first, second)
    except errors.InvalidArgumentError as error:
        raise ValueError(error.message) from None
    return (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])


def _product(a: Any, b: Any) -> str:
    return "BatchMatMulV2" if max(a.ndim, b.ndim) > 2 else "MatMul"


def _sizes(array: Any) -> str:
    return f"[{','.join(map(str, array.shape))}]"


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
        self.given: Any = None  # where operations run eagerly
        self._generator: Any = None

    def set(self, seed: Any) -> None:
        """Start over with a seed. Anything that is not an integer counts by its text; None draws a seed."""
        self.seed = seed if isinstance(seed, int) else hash(repr(seed)) if seed is not None else None
        self._generator = None

    def check(self, given: Any, seed: Any) -> None:
        """Raise TypeError for a seed of the program with which one cannot compute, as TensorFlow does when it needs it.

        Raises RuntimeError if neither the program nor the operation has one and there must be one.
        """
        if given is not None:
            given % 2**31
        elif seed is None and is_op_determinism_enabled():
            raise RuntimeError(
                "Random ops require a seed to be set when determinism is enabled. Please set a seed before running the "
                "op, e.g. by calling tf.random.set_seed(1)."
            )

    def generator(self, seed: Any) -> Any:
        """Return the generator of an operation: its own for each seed of an operation. ``seed`` can be one, too."""
        np = arrays.numpy()
        if isinstance(seed, np.random.Generator):
            return seed
        self.check(self.seed, seed)
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
    wanted = as_dtype(type_name(dtype)).dtype
    if wanted.kind in "bO":
        text = "Argument `dtype` got invalid value <dtype: 'bool'>."
        raise ValueError(f"{text} Accepted dtypes are float32, float64, int32.")
    return wanted
