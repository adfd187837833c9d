# SPDX-License-Identifier: Apache-2.0
"""Operations and scopes that run eagerly, or build graphs where TensorFlow does."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from functools import reduce, update_wrapper
from inspect import signature

from ... import errors
from ..._core import message, scope
from ..._core.block import Block
from ..._core.built_in_errors import raise_built_in_class, raising_built_in
from ..._core.fork import module_lock
from ..._typing import Any
from ...tensors import arrays
from ...tensors import operations as eager
from ...tensors.tensor import Tensor as EagerTensor
from .. import _numpy_ops as numpy_ops
from .._arrays import is_core, name_of, type_name, zero
from .._dtypes import as_dtype
from .._names import publish
from ..v1 import _graph, _python_ops
from ..v1 import _ops as graph
from ..v1._mode import executing_eagerly, set_random_seed
from . import _eager_tensor
from ._eager_tensor import array_of, computed, shown
from ._variable import mismatched, tensor_of

TYPE_CHECKING = False
if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The functions of the tables below."""


built_in_slice, built_in_len = slice, len
_lock = module_lock(globals(), "_lock")
_said = False


class Function:
    """A function that ``tf.function`` decorates: calling it runs the Python function each time."""

    def __init__(self, python_function: Callable[..., Any]) -> None:
        self.python_function = python_function
        update_wrapper(self, python_function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.python_function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else Function(self.python_function.__get__(instance, owner))


def inside_function() -> bool:
    """Return False: gpuconf traces no functions."""
    return False


def function(func: Any = None, **options: Any) -> Any:
    """Return a function that runs ``func`` each time it is called.

    ``options`` have no effect: nothing is traced or compiled.

    The first call logs that.

    >>> @function
    ... def twice(x):
    ...     return x + x
    >>> twice(2)
    4
    """
    del options
    _say()
    return Function if func is None else Function(func)


def _say() -> None:
    global _said
    with _lock:
        if not _said:
            _said = True
            message.log(
                "info", "gpuconf runs tf.function's Python functions as they are: it traces and compiles nothing"
            )


class _TensorType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, (EagerTensor, _graph.Tensor))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, (EagerTensor, _graph.Tensor))

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise TypeError("Tensor objects cannot be created directly: use constant() or another operation")


class Tensor(metaclass=_TensorType):
    """The type of eager tensors, ``gpuconf.Tensor``, and of graph tensors, ``gpuconf.compat.v1.Tensor``: for
    isinstance.
    """


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Any:
    """Create a tensor, see ``gpuconf.constant``; where operations build graphs, see ``gpuconf.compat.v1.constant``.

    >>> import gpuconf.compat.v2 as tf
    >>> tf.constant([1.0, 2.0]).numpy()
    array([1., 2.], dtype=float32)
    >>> with tf.Graph().as_default():
    ...     tf.constant([1.0, 2.0])
    <tf.Tensor 'Const:0' shape=(2,) dtype=float32>
    """
    given, value = value, tensor_of(value)
    if not executing_eagerly():
        return graph.constant(value, dtype, shape, name)
    if value is given and isinstance(value, EagerTensor) and dtype is not None and value.dtype != type_name(dtype):
        raise TypeError(
            f"Expected tensor {EagerTensor.numpy(value)} with dtype {as_dtype(dtype)!r}, but got dtype {value.dtype!r}."
        )
    array = array_of(EagerTensor.numpy(value) if isinstance(value, EagerTensor) else value, dtype)
    if is_core(array.dtype.name):
        return shown(eager.constant(array, None, shape, name))
    if shape is not None:
        sizes = arrays.shape_of(shape)
        if array.size not in (1, arrays.elements(sizes)):
            raise TypeError(
                f"Eager execution of tf.constant with unsupported shape. Tensor {array} has {array.size} elements, "
                f"but got `shape` {sizes} with {arrays.elements(sizes)} elements)."
            )
        array = arrays.numpy().resize(array, sizes)
    return computed(array, name)


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, name: str | None = None) -> Any:
    """Multiply two matrices, see ``gpuconf.matmul``."""
    a, b = tensor_of(a), tensor_of(b)
    if executing_eagerly():
        a, b = _pair(a, b)
        if _eager_tensor.is_plain(a) and _eager_tensor.is_plain(b) and _eager_tensor.of_matrices(a, b):
            return shown(eager.matmul(a, b, transpose_a, transpose_b, name))
        left, right = _eager_tensor.of(a), _eager_tensor.of(b)
        left = left.swapaxes(-1, -2) if transpose_a and left.ndim > 1 else left
        right = right.swapaxes(-1, -2) if transpose_b and right.ndim > 1 else right
        return _eager_tensor.of_arrays("MatMul", left, right, name)
    return graph.matmul(a, b, transpose_a, transpose_b, name)


def _pair(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the operands of a sum or a product: the first in its own type, the second in that if it can have it."""
    x = x if isinstance(x, EagerTensor) else array_of(x)
    return x, _eager_tensor.beside(y, x._about()["dtype"] if isinstance(x, EagerTensor) else name_of(x))


def add(x: Any, y: Any, name: str | None = None) -> Any:
    """Add two tensors, see ``gpuconf.add``."""
    x, y = tensor_of(x), tensor_of(y)
    if not executing_eagerly():
        return graph.add(x, y, name)
    x, y = _pair(x, y)
    if _eager_tensor.is_plain(x) and _eager_tensor.is_plain(y):
        return shown(eager.add(x, y, name))
    return _eager_tensor.of_arrays("Add", _eager_tensor.of(x), _eager_tensor.of(y), name)


def add_n(inputs: Any, name: str | None = None) -> Any:
    """Add the tensors of a list, see ``gpuconf.add_n``."""
    if isinstance(inputs, (list, tuple)):
        inputs = list(map(tensor_of, inputs))
        if executing_eagerly() and inputs and not all(map(_eager_tensor.is_plain, inputs)):
            return reduce(add, inputs)
    return shown(eager.add_n(inputs, name)) if executing_eagerly() else graph.add_n(inputs, name)


def identity(input: Any, name: str | None = None) -> Any:  # noqa: A002 - TensorFlow's name
    """Return a tensor with the same contents, see ``gpuconf.identity``."""
    input = tensor_of(input)  # noqa: A001
    if executing_eagerly() and not isinstance(input, EagerTensor):
        input = array_of(input)  # noqa: A001
    if executing_eagerly() and not _eager_tensor.is_plain(input):
        return computed(_eager_tensor.of(input), name or "Identity")
    return shown(eager.identity(input, name)) if executing_eagerly() else graph.identity(input, name)


def is_tensor(x: Any) -> bool:
    """Return whether ``x`` is a tensor or a variable."""
    return tensor_of(x) is not x or isinstance(x, Tensor)


def _elementwise(kind: str, x: Any, y: Any, name: str | None) -> Any:
    if executing_eagerly() and kind.startswith("Logical"):
        x, y = _all_of("bool", kind, [x, y])
    given, x, y = y, tensor_of(x), tensor_of(y)
    if executing_eagerly():
        # What the fast path does not have has its own type beside a variable, and that of a tensor beside one.
        if y is not given and not _is_fast(x) and kind != "RealDiv" and name_of(array_of(x)) != y.dtype:
            raise mismatched(given, name_of(array_of(x)))
        return _eager_tensor.elementwise(kind, x, y, name)
    try:
        return _python_ops.elementwise(kind, x, y, name)
    except ValueError:
        if kind == "RealDiv":  # which is Python's operator there
            _graph.give_turn(graph.constant(x), y)
        raise


def _of_one(kind: str, value: Any, name: str | None, dtype: str | None = None, **options: Any) -> Any:
    value = tensor_of(value)
    if not executing_eagerly():
        return _python_ops.of_one(kind, value, name, dtype, **options)
    array = EagerTensor.numpy(value) if isinstance(value, EagerTensor) else array_of(value, dtype)
    try:
        return computed(numpy_ops.compute(kind, array, **options), name or kind)
    except (ValueError, IndexError) as error:
        if isinstance(error, errors.GpuconfError):
            raise
        raise errors.InvalidArgumentError(f"{error} [Op:{kind}]") from None


def _make(names: str, of: str) -> None:
    """Make the functions of a table: names, each with the kind of its operation unless that is only spelled otherwise.

    ``of`` says what they take: "two" values, "one", or one and the "axes" along which it is reduced.
    """
    for word in names.split():
        name, _, kind = word.partition("=")
        kind = kind or "".join(part.capitalize() for part in name.split("_"))
        dtype = "bool" if kind in ("All", "Any", "LogicalNot") else None

        def two(x: Any, y: Any, name: str | None = None, kind: str = kind) -> Any:
            return _elementwise(kind, x, y, name)

        def one(x: Any, name: str | None = None, kind: str = kind, dtype: str | None = dtype) -> Any:
            return _of_one(kind, x, name, dtype)

        def axes(
            input_tensor: Any,
            axis: Any = None,
            keepdims: Any = False,
            name: str | None = None,
            kind: str = kind,
            dtype: str | None = dtype,
        ) -> Any:
            return _of_one(kind, input_tensor, name, dtype, axis=_axis(axis), keepdims=bool(keepdims))

        function: Any = {"two": two, "one": one, "axes": axes}[of]
        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"TensorFlow's operation {kind}. Computed with NumPy."
        globals()[name] = function


_make(
    "multiply=Mul subtract=Sub divide=RealDiv truediv=RealDiv floordiv=FloorDiv floormod=FloorMod mod=FloorMod pow "
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor maximum minimum atan2 "
    "squared_difference divide_no_nan=DivNoNan",
    "two",
)
_make(
    "abs square sqrt exp logical_not tanh sigmoid relu floor ceil round sin cos tan asin acos atan sinh cosh "
    "log log1p expm1 rsqrt sign reciprocal negative=Neg is_nan is_inf is_finite softplus elu relu6 silu",
    "one",
)
_make(
    "reduce_sum=Sum reduce_mean=Mean reduce_max=Max reduce_min=Min reduce_prod=Prod reduce_all=All reduce_any=Any "
    "reduce_std=Std reduce_variance=Var reduce_logsumexp=LogSumExp reduce_euclidean_norm=EuclideanNorm",
    "axes",
)


def softmax(logits: Any, axis: int | None = None, name: str | None = None) -> Any:
    """Return the elements' shares of the sum of exponents, by default along the last axis. Computed with NumPy."""
    return _of_one("Softmax", logits, name, axis=-1 if axis is None else axis)


def log_softmax(logits: Any, axis: int | None = None, name: str | None = None) -> Any:
    """Return the logarithms of ``softmax``. Computed with NumPy."""
    return _of_one("LogSoftmax", logits, name, axis=-1 if axis is None else axis)


def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Any:
    """Return the elements above 0, and the others times ``alpha``. Computed with NumPy."""
    return _of_one("LeakyRelu", features, name, alpha=alpha)


def stop_gradient(input: Any, name: str | None = None) -> Any:  # noqa: A002 - TensorFlow's name
    """Return a tensor with the same contents: gpuconf has no gradients."""
    return identity(input, name or "StopGradient")


def _operation(
    kind: str, values: int = 1, dtype: str | None = None, known: bool = True, of: str | None = None
) -> Callable[[Any], Any]:
    """Make an operation of a function of arrays, whose first ``values`` parameters are values; 0: the first is a list.

    ``dtype`` is the type of the result, else that of the first value, and ``of`` that of values without one. The shape
    is ``known`` before a graph runs.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = signature(function)

        def call(*args: Any, name: str | None = None, **options: Any) -> Any:
            given = parameters.bind(*args, **options).arguments
            first = [given.pop(each) for each in list(parameters.parameters)[: values or 1] if each in given]
            inputs = first if values else list(first[0])
            if of is not None:
                inputs = _all_of(of, kind, inputs)
            settings = {key: _plain(each) for key, each in given.items()}
            return _arranged(kind, inputs, lambda *a: function(*a if values else (a,), **settings), name, dtype, known)

        update_wrapper(call, function)
        return raising_built_in(call, wrapped=True)

    return decorate


def _is_fast(value: Any) -> bool:
    """Whether TensorFlow converts a value in native code."""
    return is_tensor(value) or type(value) in (bool, int, float, arrays.numpy().ndarray)


def _all_of(dtype: str, kind: str, values: list[Any]) -> list[Any]:
    """Convert values to a type, in their order; where TensorFlow's fast path has them, its operation does.

    Raises TypeError, ValueError or InvalidArgumentError for a value of another type.
    """
    if not executing_eagerly():
        try:
            return [convert_to_tensor(each, dtype) for each in values]
        except ValueError as error:
            if kind == "StringJoin" or "mixed types" in str(error):
                raise TypeError(str(error)) from None
            raise
    if not all(map(_is_fast, values)):
        return [convert_to_tensor(each, dtype) for each in values]
    values = [tensor_of(each) for each in values]
    values = [each if isinstance(each, EagerTensor) else convert_to_tensor(each, dtype) for each in values]
    for index, each in enumerate(values):
        if each.dtype != dtype:
            has = arrays.word(each.dtype.name)
            text = f"was expected to be a {dtype} tensor but is a {has} tensor [Op:{kind}] name: "
            raise errors.InvalidArgumentError(f"cannot compute {kind} as input #{index}(zero-based) {text}")
    return values


def _plain(value: Any) -> Any:
    value = tensor_of(value)
    return EagerTensor.numpy(value) if isinstance(value, EagerTensor) else value


def _arranged(
    kind: str, values: Any, function: Callable[..., Any], name: str | None, dtype: str | None = None, known: bool = True
) -> Any:
    """Arrange the elements of values by a function of NumPy's. Raises InvalidArgumentError if they do not fit."""
    values = list(map(tensor_of, values))
    like = next((each for each in values if isinstance(each, (EagerTensor, _graph.Tensor))), None)
    if like is None and len(values) > 1:  # the first one's type counts
        kind_of_first = name_of(array_of(values[0]))
        values = [array_of(each, kind_of_first) for each in values]
    if not executing_eagerly():
        return _python_ops.arranged(kind, values, like, function, name, dtype, known)
    inputs = [_eager_tensor.of(each, like) for each in values]
    try:
        result = function(*inputs)
    except (ValueError, IndexError, arrays.numpy().linalg.LinAlgError) as error:
        raise errors.InvalidArgumentError(f"{error} [Op:{kind}]") from None
    if isinstance(result, list):
        return [computed(each, name or kind) for each in result]
    if dtype is not None:
        result = arrays.numpy().asarray(result).astype(as_dtype(dtype).dtype)
    return computed(result, name or kind)


def _floats(array: Any) -> Any:
    if array.dtype.kind not in "fc":
        text = f"Value for attr 'T' of {name_of(array)} is not in the list of allowed values: half, float, double"
        raise errors.InvalidArgumentError(text)
    return array


def _numbers(array: Any, axis: Any, others: str = "O") -> Any:
    if array.dtype.kind in others:
        raise errors.InvalidArgumentError(
            f"Value for attr 'T' of {name_of(array)} is not in the list of allowed values"
        )
    if not array.ndim:
        raise errors.InvalidArgumentError(f"Expected dimension in the range [0, 0), but got {axis}")
    return array


@_operation("ArgMax", dtype="int64")
def argmax(input: Any, axis: int = 0) -> Any:  # noqa: A002 - TensorFlow's names, here and below
    """Return where the largest elements are."""
    return _numbers(input, axis, "Oc").argmax(axis)


@_operation("ArgMin", dtype="int64")
def argmin(input: Any, axis: int = 0) -> Any:  # noqa: A002
    """Return where the smallest elements are."""
    return _numbers(input, axis, "Oc").argmin(axis)


@_operation("Rank", dtype="int32")
def rank(input: Any) -> Any:  # noqa: A002
    """Return the number of dimensions."""
    return arrays.numpy().asarray(input.ndim)


@_operation("CountNonzero", dtype="int64")
def count_nonzero(input: Any, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """Return how many elements are not 0."""
    return arrays.numpy().asarray(arrays.numpy().count_nonzero(input, _axis(axis), keepdims=keepdims))


@_operation("Norm")
def norm(tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """Return a norm of the elements, along ``axis`` or of all."""
    order = {"euclidean": None, "fro": None}.get(ord, ord)
    flat = tensor.ravel() if axis is None and not keepdims else tensor
    return arrays.numpy().asarray(arrays.numpy().linalg.norm(_floats(flat), order, _axis(axis), keepdims), tensor.dtype)


@_operation("Cumsum")
def cumsum(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Any:
    """Return the sums of the elements so far; ``exclusive``, without each itself; ``reverse``, from the end."""
    arrays.type_of_result("Cumsum", x.dtype.name)
    _numbers(x, axis)
    flip = arrays.numpy().flip
    sums = flip(flip(x, axis).cumsum(axis, x.dtype), axis) if reverse else x.cumsum(axis, x.dtype)
    return sums - x if exclusive else sums


@_operation("Cumprod")
def cumprod(x: Any, axis: int = 0) -> Any:
    """Return the products of the elements so far."""
    return x.cumprod(axis, x.dtype)


@_operation("Tile")
def tile(input: Any, multiples: Any) -> Any:  # noqa: A002
    """Return the elements several times along each dimension."""
    if arrays.numpy().ndim(multiples) != 1:
        raise errors.InvalidArgumentError("Expected multiples to be 1-D")
    return arrays.numpy().tile(input, multiples)


@_operation("Repeat")
def repeat(input: Any, repeats: Any, axis: int | None = None) -> Any:  # noqa: A002
    """Return each element several times."""
    return input.repeat(repeats, axis)


@_operation("ReverseV2")
def reverse(tensor: Any, axis: Any) -> Any:
    """Return the elements in reverse order along dimensions."""
    return arrays.numpy().flip(tensor, _axis(axis))


@_operation("BroadcastTo")
def broadcast_to(input: Any, shape: Any) -> Any:  # noqa: A002
    """Return the elements in a larger shape."""
    return arrays.numpy().broadcast_to(input, _sizes(shape))


@_operation("GatherV2")
def gather(params: Any, indices: Any, axis: int = 0) -> Any:
    """Return the elements at positions along a dimension."""
    return params.take(arrays.numpy().asarray(indices), axis)


def boolean_mask(tensor: Any, mask: Any, axis: Any = None, name: str | None = None) -> Any:
    """Return the elements where a mask is true. Raises ValueError for a mask of another shape."""
    tensor, chosen = convert_to_tensor(tensor), array_of(_plain(mask)).astype(bool)
    if not chosen.ndim:
        raise ValueError("mask cannot be scalar.")
    before = int(_plain(axis) or 0)
    sizes = tensor.shape[before : before + chosen.ndim] if tensor.shape else chosen.shape
    if len(sizes) != chosen.ndim or any(a not in (None, b) for a, b in zip(sizes, chosen.shape, strict=True)):
        raise ValueError(f"Shapes {sizes} and {chosen.shape} are incompatible")
    place = (*[built_in_slice(None)] * before, chosen)
    return _arranged("BooleanMask", [tensor], lambda a: a[place], name, known=False)


@_operation("Slice")
def slice(input_: Any, begin: Any, size: Any) -> Any:  # noqa: A001
    """Return a part of the elements: from positions, with sizes, of which -1 is all that is left."""
    ends = [first + count if count >= 0 else None for first, count in zip(begin, size, strict=True)]
    return input_[tuple(map(built_in_slice, begin, ends))]


@_operation("Pad")
def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0) -> Any:
    """Return the elements with others around them."""
    kind = mode.lower()
    options = {"constant_values": constant_values} if kind == "constant" else {}
    return arrays.numpy().pad(tensor, paddings, kind, **options)


@_operation("Unpack")
def unstack(value: Any, num: Any = None, axis: int = 0) -> Any:
    """Return the parts of a dimension as a list."""
    del num
    return list(arrays.numpy().moveaxis(value, axis, 0))


@_operation("Split")
def split(value: Any, num_or_size_splits: Any, axis: int = 0) -> Any:
    """Return parts of a dimension as a list: as many as a number says, or of given sizes."""
    np = arrays.numpy()
    sizes = num_or_size_splits
    return list(np.split(value, int(sizes) if np.ndim(sizes) == 0 else np.cumsum(sizes)[:-1], axis))


@_operation("Sort")
def sort(values: Any, axis: int = -1, direction: str = "ASCENDING") -> Any:
    """Return the elements in order."""
    ordered = arrays.numpy().sort(values, axis)
    return ordered if direction == "ASCENDING" else arrays.numpy().flip(ordered, axis)


@_operation("Argsort", dtype="int32")
def argsort(values: Any, axis: int = -1, direction: str = "ASCENDING") -> Any:
    """Return the positions of the elements in order."""
    return (values if direction == "ASCENDING" else -values).argsort(axis, "stable")


@_operation("ClipByValue")
def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any) -> Any:
    """Return the elements, moved into a range."""
    np = arrays.numpy()
    return np.maximum(np.minimum(t, clip_value_max), clip_value_min).astype(t.dtype)


@_operation("Roll")
def roll(input: Any, shift: Any, axis: Any) -> Any:  # noqa: A002
    """Return the elements moved along dimensions; those that leave come in again."""
    return arrays.numpy().roll(input, shift, axis)


@_operation("MatrixDiag")
def diag(diagonal: Any) -> Any:
    """Return matrices with these diagonals."""
    return diagonal[..., None] * arrays.numpy().eye(diagonal.shape[-1], dtype=diagonal.dtype)


@_operation("MatrixSolve", 2)
def solve(matrix: Any, rhs: Any) -> Any:
    """Return the solutions of linear equations."""
    return arrays.numpy().linalg.solve(_floats(matrix), rhs)


@_operation("MatVec", 2)
def matvec(a: Any, b: Any) -> Any:
    """Return the products of matrices and vectors."""
    return (a @ b[..., None])[..., 0]


@_operation("RandomShuffle")
def shuffle(value: Any, seed: Any = None) -> Any:
    """Return the parts of the first dimension in random order."""
    return numpy_ops.seeds.generator(seed).permutation(value)


@_operation("Tensordot", 2)
def tensordot(a: Any, b: Any, axes: Any) -> Any:
    """Return sums of products along dimensions."""
    return arrays.numpy().tensordot(a, b, axes)


@_operation("Inv")
def inv(input: Any) -> Any:  # noqa: A002
    """Return the inverse of matrices."""
    return arrays.numpy().linalg.inv(_floats(input))


@_operation("Det")
def det(input: Any) -> Any:  # noqa: A002
    """Return the determinant of matrices."""
    return arrays.numpy().linalg.det(_floats(input))


@_operation("Trace")
def trace(x: Any) -> Any:
    """Return the sum of the diagonal of matrices."""
    return x.trace(axis1=-2, axis2=-1)


@_operation("MatrixTranspose")
def matrix_transpose(a: Any) -> Any:
    """Return matrices with rows and columns exchanged."""
    return a.swapaxes(-1, -2)


def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = 1,
    off_value: Any = 0,
    axis: Any = None,
    dtype: Any = "float32",
    name: str | None = None,
) -> Any:
    """Return ``on_value`` at positions, and ``off_value`` elsewhere."""
    np, sizes, values = arrays.numpy(), int(depth), array_of([on_value, off_value], dtype)

    def chosen(places: Any) -> Any:
        at = -1 if axis is None else axis
        behind = places.ndim - at % (places.ndim + 1)
        found = np.expand_dims(places, at) == np.arange(sizes).reshape([sizes, *[1] * behind])
        return np.where(found, *values)

    return _arranged("OneHot", [indices], chosen, name or "one_hot", type_name(dtype))


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Return the elements of ``x`` where a condition is true, and of ``y`` elsewhere; without both, the positions."""
    np = arrays.numpy()
    if x is None and y is None:
        return _arranged("Where", [condition], lambda a: np.argwhere(a), name, "int64", False)
    if not executing_eagerly():
        name, ends = _graph.operands(["t", "e"], (x, y), name or "SelectV2")
        chosen = convert_to_tensor(condition, "bool")
        return _arranged("SelectV2", [*ends, chosen], lambda a, b, c: np.where(c, a, b), name)
    return _arranged("SelectV2", [x, y], lambda a, b: np.where(_eager_tensor.of(condition), a, b), name)


def einsum(equation: str, *inputs: Any, name: str | None = None, **_: Any) -> Any:
    """Return sums of products as an equation says."""
    return _arranged("Einsum", inputs, lambda *a: arrays.numpy().einsum(equation, *a), name)


def linspace(start: Any, stop: Any, num: Any, name: str | None = None) -> Any:
    """Return numbers at equal distances."""
    like = array_of(start, "float64" if array_of(start).dtype.kind in "iu" else None)
    return constant(arrays.numpy().linspace(like, array_of(stop), int(num), dtype=like.dtype), name=name or "linspace")


def timestamp(name: str | None = None) -> Any:
    """Return the seconds since 1970 as a tensor."""
    return constant(time.time(), "float64", name=name or "Timestamp")


def no_op(name: str | None = None) -> Any:
    """Add an operation that does nothing; where operations run eagerly, return None."""
    _eager_tensor.begin()
    return None if executing_eagerly() else graph.no_op(name)


def group(*inputs: Any, name: str | None = None) -> Any:
    """Add an operation that runs after others; where operations run eagerly, return None."""
    return None if executing_eagerly() else graph.group(*inputs, name=name)


def cond(pred: Any, true_fn: Any = None, false_fn: Any = None, name: str | None = None) -> Any:
    """Call one of two functions. Raises UnimplementedError where operations build graphs."""
    del name
    if not executing_eagerly():
        raise errors.UnimplementedError("cond in a graph needs TensorFlow: gpuconf's graphs have no branches")
    return true_fn() if bool(tensor_of(pred)) else false_fn()


def _text(kind: str, dtype: str | None = "string") -> Callable[[Any], Any]:
    """Make an operation of a function of bytes, for each string."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def arranged(input: Any, **options: Any) -> Any:  # noqa: A002 - TensorFlow's name
            np = arrays.numpy()
            return np.asarray(np.frompyfunc(lambda each: function(each, **options), 1, 1)(input), as_dtype(dtype).dtype)

        arranged.__signature__ = signature(function)  # type: ignore[attr-defined]
        made = _operation(kind, 1, dtype, of=None if kind == "AsString" else "string")(arranged)
        return update_wrapper(made, function)

    return decorate


@_text("StringLength", "int32")
def length(input: bytes, unit: str = "BYTE") -> int:  # noqa: A002
    """Return the lengths of strings."""
    return len(input if unit == "BYTE" else input.decode())


@_text("StringLower")
def lower(input: bytes, encoding: str = "") -> bytes:  # noqa: A002
    """Return strings in lower case."""
    return input.decode().lower().encode() if encoding else input.lower()


@_text("StringUpper")
def upper(input: bytes, encoding: str = "") -> bytes:  # noqa: A002
    """Return strings in upper case."""
    return input.decode().upper().encode() if encoding else input.upper()


@_text("StringStrip")
def strip(input: bytes) -> bytes:  # noqa: A002
    """Return strings without blanks at their ends."""
    return input.strip()


@_text("Substr")
def substr(input: bytes, pos: int, len: int) -> bytes:  # noqa: A002
    """Return parts of strings. Raises InvalidArgumentError for a position behind the end."""
    if not -built_in_len(input) <= int(pos) <= built_in_len(input):
        raise errors.InvalidArgumentError(f"pos {pos} out of range for string {input!r} [Op:Substr]")
    return input[int(pos) :][: int(len)]


@_text("RegexReplace")
def regex_replace(input: bytes, pattern: str, rewrite: str, replace_global: bool = True) -> bytes:  # noqa: A002
    """Return strings with what matches a pattern replaced."""
    return re.sub(pattern.encode(), rewrite.encode(), input, count=0 if replace_global else 1)


@_text("AsString")
def as_string(input: Any, precision: int = -1) -> bytes:  # noqa: A002
    """Return numbers as strings, and strings as they are."""
    if isinstance(input, (bytes, float)):
        return input if isinstance(input, bytes) else f"{input:.{6 if precision < 0 else precision}f}".encode()
    return str(input).lower().encode()


@_text("StringToNumber", "float32")
def _number(input: bytes) -> float:  # noqa: A002
    return float(input)


def to_number(input: Any, out_type: Any = "float32", name: str | None = None) -> Any:  # noqa: A002
    """Return strings as numbers."""
    return cast(_number(input, name=name), out_type)


@_operation("StringJoin", 0, of="string")
def join(inputs: Any, separator: str = "") -> Any:
    """Return strings one after another."""
    np = arrays.numpy()
    gap = separator.encode()
    sizes = list(dict.fromkeys(each.shape for each in inputs if each.ndim))
    if len(sizes) > 1:
        raise errors.InvalidArgumentError(f"Input shapes do not match: {list(sizes[0])} vs. {list(sizes[1])}")
    return np.asarray(reduce(lambda a, b: np.add(np.add(a, gap), b), (each.astype(object) for each in inputs)), object)


@_operation("Squeeze")
def squeeze(input: Any, axis: Any = None) -> Any:  # noqa: A002
    """Return the elements without dimensions of size 1: those of ``axis``, or all."""
    return input.squeeze(_axis(axis))


@_operation("ExpandDims")
def expand_dims(input: Any, axis: int) -> Any:  # noqa: A002
    """Return the elements with another dimension of size 1."""
    return arrays.numpy().expand_dims(input, axis)


@_operation("Transpose")
def transpose(a: Any, perm: Any = None, conjugate: bool = False) -> Any:
    """Return the elements with the dimensions in another order: that of ``perm``, or backwards."""
    del conjugate
    return a.transpose(perm)


@_operation("ConcatV2", 0)
def concat(values: Any, axis: int) -> Any:
    """Return values one after another along a dimension; a single value as it is."""
    return values[0] if len(values) == 1 else arrays.numpy().concatenate(values, axis)


@_operation("Pack", 0)
def stack(values: Any, axis: int = 0) -> Any:
    """Return values one after another along a new dimension."""
    return arrays.numpy().stack(values, axis)


def shape(input: Any, out_type: Any = "int32", name: str | None = None) -> Any:  # noqa: A002
    """Return the sizes as a tensor."""
    return _arranged("Shape", [input], lambda a: arrays.numpy().asarray(a.shape, "int32"), name, type_name(out_type))


def size(input: Any, out_type: Any = "int32", name: str | None = None) -> Any:  # noqa: A002
    """Return the number of elements as a tensor."""
    return _arranged("Size", [input], lambda a: arrays.numpy().asarray(a.size), name, type_name(out_type))


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Any:  # noqa: A001
    """Return the numbers from ``start`` to below ``limit``; from 0 to below ``start`` without a limit."""
    first, end = (0, start) if limit is None else (start, limit)
    numbers = [EagerTensor.numpy(each) if isinstance(each, EagerTensor) else each for each in (first, end, delta)]
    kind = array_of([float(each) if "float" in array_of(numbers).dtype.name else int(each) for each in numbers])
    return constant(arrays.numpy().arange(*numbers, dtype=zero(dtype or name_of(kind)).dtype), name=name)


def _axis(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Convert a tensor to another type. Raises NotImplementedError for strings, as TensorFlow does."""
    given, x = x, tensor_of(x)
    if dtype is None:
        raise TypeError("Cannot convert the argument `type_value`: None to a TensorFlow DType.")
    wanted = type_name(dtype)
    if isinstance(getattr(x, "_value", x), (EagerTensor, _graph.Tensor)) and x.dtype == wanted:
        return given
    if executing_eagerly():
        return _eager_tensor.computed(numpy_ops.cast(_eager_tensor.of(x), wanted), name or "Cast")
    return _python_ops.cast(x, wanted, name)


def convert_to_tensor(value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None) -> Any:
    """Return a value as a tensor; a tensor as it is. Raises ValueError for a tensor of another type."""
    del dtype_hint
    given, value = value, tensor_of(value)
    value = getattr(value, "_value", value)  # of a variable of a graph
    if not isinstance(value, (EagerTensor, _graph.Tensor)):
        return constant(value, dtype, None, name or "Const")
    if dtype is None or value.dtype == type_name(dtype):
        return value
    wanted = type_name(dtype)
    if value is not given:
        raise mismatched(given, wanted)
    raise ValueError(f"Tensor conversion requested dtype {wanted} for Tensor with dtype {value.dtype.name}: {value!r}")


def zeros(shape: Any, dtype: Any = "float32", name: str | None = None) -> Any:
    """Return a tensor of zeros.

    >>> print(zeros([2]))
    tf.Tensor([0. 0.], shape=(2,), dtype=float32)
    """
    return constant(zero(dtype), None, _whole(shape), name or "zeros")


def ones(shape: Any, dtype: Any = "float32", name: str | None = None) -> Any:
    """Return a tensor of ones. Raises InvalidArgumentError for strings."""
    if type_name(dtype) == "string":
        if not executing_eagerly():
            raise TypeError("Expected string, but got 1 of type 'int'.")
        raise errors.InvalidArgumentError("Value for attr 'T' of string is not in the list of allowed values")
    return constant(zero(dtype, 1), None, _whole(shape), name or "ones")


def fill(dims: Any, value: Any, name: str | None = None) -> Any:
    """Return a tensor that holds one number."""
    return constant(value, None, _whole(dims), name or "Fill")


def zeros_like(input: Any, dtype: Any = None, name: str | None = None) -> Any:  # noqa: A002 - TensorFlow's name
    """Return a tensor of zeros, of the shape and type of another one."""
    like = convert_to_tensor(input, name="zeros_like/tensor")
    return zeros(like.shape, dtype or like.dtype.name, name or "zeros_like")


def ones_like(input: Any, dtype: Any = None, name: str | None = None) -> Any:  # noqa: A002 - TensorFlow's name
    """Return a tensor of ones, of the shape and type of another one."""
    like = convert_to_tensor(input, name="ones_like/tensor")
    return ones(like.shape, dtype or like.dtype.name, name or "ones_like")


def eye(num_rows: int, num_columns: int | None = None, dtype: Any = "float32", name: str | None = None) -> Any:
    """Return a matrix with ones on the diagonal."""
    return constant(arrays.numpy().eye(num_rows, num_columns, dtype=zero(dtype).dtype), name=name or "eye")


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Any:
    """Return the elements in another shape, which may have one -1.

    Raises InvalidArgumentError if the numbers do not match.
    """
    tensor, sizes = tensor_of(tensor), _sizes(shape)
    if not executing_eagerly():
        if isinstance(tensor, _graph.Tensor):
            known = None if -1 in sizes else sizes
            return _python_ops.add_result(
                "Reshape", (tensor,), lambda _, a: a.reshape(sizes), tensor._dtype, known, name
            )
        return constant(array_of(tensor).reshape(sizes), name=name or "Reshape")
    array = _eager_tensor.of(tensor)
    try:
        return _eager_tensor.computed(array.reshape(sizes), name or "Reshape")
    except ValueError:
        text = (
            f"Input to reshape is a tensor with {array.size} values, but the requested shape has "
            f"{abs(arrays.elements(sizes))}"
        )
        raise errors.InvalidArgumentError(f"{text} [Op:Reshape]") from None


def _whole(shape: Any) -> Any:
    """Return the sizes of a new tensor. Where operations run eagerly, whatever becomes a tensor of integers counts.

    Raises InvalidArgumentError for negative sizes there, and for a tensor of another type.
    """
    _eager_tensor.begin()
    plain = _plain(shape)
    try:
        sizes = arrays.shape_of(plain)
    except errors.InvalidTypeError:
        if not executing_eagerly():
            return _whole_in_graph(plain)
        if isinstance(shape, EagerTensor) and "int" not in shape.dtype.name:
            text = (
                f"Value for attr 'index_type' of {shape.dtype.name} is not in the list of allowed values: int32, int64"
            )
            raise errors.InvalidArgumentError(text) from None
        if tensor_of(shape) is not shape:
            raise ValueError(f"Incompatible type conversion requested to type int32 for {shape!r}") from None
        whole = array_of(plain, "int32")
        if whole.ndim > 1:
            got = str(list(whole.shape)).replace(" ", "")
            text = f"dims must represent a vector, got shape {got} [Op:Fill] name: "
            raise errors.InvalidArgumentError(text) from None
        sizes = tuple(whole.ravel().tolist())
    if executing_eagerly() and any(size < 0 for size in sizes):
        raise errors.InvalidArgumentError(f"Dimension {min(sizes)} must be >= 0 [Op:Fill] name: ")
    return sizes


def _whole_in_graph(shape: Any) -> Any:
    """Return the sizes of a new tensor of a graph: the integer parts of numbers in a sequence.

    Raises ValueError or TypeError for what is no vector of integers.
    """
    if shape is None:
        raise ValueError("None values not supported.")
    if hasattr(shape, "_value") and "int" not in shape.dtype.name:
        raise mismatched(shape, "int32")
    if isinstance(shape, _graph.Tensor) and "int" not in shape._dtype:
        raise TypeError(f"Value passed to parameter 'dims' has DataType {shape._dtype} not in list of allowed values")
    if hasattr(shape, "__iter__") and all(
        hasattr(each, "__float__") and not arrays.numpy().ndim(each) for each in shape
    ):
        return tuple(map(int, shape))
    whole = _graph.graph_array(shape, "int32")
    if whole.ndim > 1:
        raise ValueError(f"Shape must be rank 1 but is rank {whole.ndim}")
    return tuple(whole.ravel().tolist())


def _sizes(shape: Any) -> Any:
    return tuple(int(size) for size in shape) if hasattr(shape, "__iter__") else shape


def print_(*inputs: Any, output_stream: Any = None, sep: str = " ", end: str = "\n", **_: Any) -> Any:
    """Print values to ``output_stream``, by default ``sys.stderr``, as TensorFlow does. Named ``tf.print``.

    Where operations build graphs, return an operation that does.
    """
    stream = output_stream
    if not hasattr(output_stream, "write"):
        stream = {"": sys.stderr, None: sys.stderr}.get(output_stream, output_stream)

    def show(_: Any, *values: Any) -> None:
        left = iter(values)
        texts = [_shown(next(left)) if isinstance(each, _graph.Tensor) else _printed(each) for each in inputs]
        stream.write(sep.join(texts) + end)

    inputs = tuple(getattr(each, "_value", each) for each in inputs)
    if executing_eagerly():
        return show(None)
    return _python_ops.add_action("PrintV2", [x for x in inputs if isinstance(x, _graph.Tensor)], show, "PrintV2")


def _printed(value: Any) -> str:
    value = tensor_of(value)
    return _shown(EagerTensor.numpy(value)) if isinstance(value, EagerTensor) else str(value)


def _shown(array: Any) -> str:
    kinds = {
        "float_kind": lambda number: f"{number:g}",
        "bool": lambda flag: f"{flag:d}",
        "object": lambda text: f'"{text.decode(errors="replace")}"',
    }
    return str(arrays.numpy().array2string(arrays.numpy().asarray(array), formatter=kinds))


def device(device_name: Any) -> Any:
    """Choose the device of a ``with`` block, see ``gpuconf.device``; where operations build graphs, ``Graph.device``.

    Raises RuntimeError for a function.
    """
    if callable(device_name):
        raise RuntimeError("tf.device does not support functions.")
    return _Device(scope.device(device_name)) if executing_eagerly() else _graph.get_default_graph().device(device_name)


class _Device(Block):
    """A scope of gpuconf's, which reports a malformed string as TensorFlow does."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __enter__(self) -> None:
        self._inner.__enter__()

    def _leave(self, *error: Any) -> None:
        self._inner.__exit__(*error)


raise_built_in_class(_Device, everything=True)


def control_dependencies(control_inputs: Any) -> Any:
    """Add control dependencies, see ``Graph.control_dependencies``.

    Where operations run eagerly, they are in order anyway.

    A function among ``control_inputs`` is called there, as in TensorFlow.
    """
    if not executing_eagerly():
        return _graph.get_default_graph().control_dependencies(control_inputs)
    from contextlib import nullcontext

    for each in control_inputs or ():
        if callable(each):
            each()
    return nullcontext()


def set_seed(seed: Any) -> None:
    """Set the seed, and that of the default graph if operations build graphs.

    Raises TypeError for an unhashable seed that is not one number.

    >>> set_seed(42)
    """
    set_random_seed(seed)


def normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", seed: Any = None, name: str | None = None
) -> Any:
    """Draw normally distributed numbers; in a graph, anew in each run.

    >>> set_seed(1)
    >>> normal([2, 3]).shape
    TensorShape([2, 3])
    """
    return _drawn("RandomStandardNormal", numpy_ops.normal, shape, (mean, stddev, dtype, seed), name or "random_normal")


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", seed: Any = None, name: str | None = None
) -> Any:
    """Draw normally distributed numbers within two standard deviations; in a graph, anew in each run."""
    options = (mean, stddev, dtype, seed, True)
    return _drawn("TruncatedNormal", numpy_ops.normal, shape, options, name or "truncated_normal")


def uniform(
    shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = "float32", seed: Any = None, name: str | None = None
) -> Any:
    """Draw uniformly distributed numbers below ``maxval``, by default from 0 to 1. Integers need ``maxval``."""
    return _drawn("RandomUniform", numpy_ops.uniform, shape, (minval, maxval, dtype, seed), name or "random_uniform")


class Generator:
    """Random numbers of a state of their own. A seed makes them repeat, but they are NumPy's.

    >>> Generator.from_seed(1).normal([2, 3]).shape
    TensorShape([2, 3])
    """

    def __init__(self, copy_from: Any = None, state: Any = None, alg: Any = None) -> None:
        del alg
        make = arrays.numpy().random.default_rng
        self._own = make(_plain(state)) if copy_from is None else deepcopy(copy_from._own)

    @classmethod
    def from_seed(cls, seed: Any, alg: Any = None) -> Generator:
        """Return a generator of a seed."""
        return cls(state=int(_plain(seed)) % 2**64, alg=alg)

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """Return a generator whose numbers are others each time."""
        return cls(alg=alg)

    def reset_from_seed(self, seed: Any) -> None:
        """Begin anew, from a seed."""
        self._own = Generator.from_seed(seed)._own

    def split(self, count: int = 1) -> list[Generator]:
        """Return generators of other numbers."""
        return [Generator.from_seed(each) for each in self._own.integers(2**62, size=count)]

    def normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", name: str | None = None
    ) -> Any:
        """Draw normally distributed numbers."""
        return normal(shape, mean, stddev, dtype, self._own, name)

    def truncated_normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", name: str | None = None
    ) -> Any:
        """Draw normally distributed numbers within two standard deviations."""
        return truncated_normal(shape, mean, stddev, dtype, self._own, name)

    def uniform(
        self, shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = "float32", name: str | None = None
    ) -> Any:
        """Draw uniformly distributed numbers below ``maxval``."""
        return uniform(shape, minval, maxval, dtype, self._own, name)


_global: list[Generator] = []


def get_global_generator() -> Generator:
    """Return the generator of the process, which the first call makes."""
    if not _global:
        _global.append(Generator())
    return _global[0]


def set_global_generator(generator: Generator) -> None:
    """Replace the generator of the process."""
    _global[:] = [generator]


def _drawn(kind: str, draw: Callable[..., Any], shape: Any, options: Any, name: str) -> Any:
    _eager_tensor.begin()
    shape = _plain(shape)
    if not hasattr(shape, "__iter__") or any(not hasattr(each, "__index__") or each < 0 for each in shape):
        raise errors.InvalidArgumentError(f"shape must be a vector of sizes, but got {arrays.shown(shape)} [Op:{kind}]")
    sizes = arrays.shape_of(shape)
    given = numpy_ops.seeds.given if executing_eagerly() else _graph.get_default_graph().seed
    numpy_ops.seeds.check(given, options[3])
    if executing_eagerly():
        return computed(draw(sizes, *options), name)
    return _python_ops.drawn(kind, lambda: draw(sizes, *options), options[2], sizes, name)


publish(__name__)
