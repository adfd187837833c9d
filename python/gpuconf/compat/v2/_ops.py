# SPDX-License-Identifier: Apache-2.0
"""Operations and scopes that run eagerly, or build graphs where TensorFlow does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import reduce, update_wrapper

from ... import errors
from ..._core import message, scope
from ..._core.built_in_errors import raise_built_in_class
from ..._core.fork import module_lock
from ..._typing import Any
from ...tensors import arrays
from ...tensors import operations as eager
from ...tensors.tensor import Tensor as EagerTensor
from .. import _numpy_ops as numpy_ops
from .._arrays import is_core, name_of, type_name, zero
from .._names import publish
from ..v1 import _graph, _python_ops
from ..v1 import _ops as _graph_ops
from ..v1 import _ops as graph
from ..v1._mode import executing_eagerly, set_random_seed
from . import _eager_tensor
from ._eager_tensor import array_of, computed, shown
from ._variable import tensor_of

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
    value = tensor_of(value)
    if not executing_eagerly():
        return graph.constant(value, dtype, shape, name)
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
        if _eager_tensor.is_plain(a) and _eager_tensor.is_plain(b) and _eager_tensor.of_matrices(a, b):
            return shown(eager.matmul(a, b, transpose_a, transpose_b, name))
        left, right = _eager_tensor.of(a, b), _eager_tensor.of(b, a)
        left = left.swapaxes(-1, -2) if transpose_a and left.ndim > 1 else left
        right = right.swapaxes(-1, -2) if transpose_b and right.ndim > 1 else right
        return _eager_tensor.of_arrays("MatMul", left, right, name)
    return graph.matmul(a, b, transpose_a, transpose_b, name)


def add(x: Any, y: Any, name: str | None = None) -> Any:
    """Add two tensors, see ``gpuconf.add``."""
    x, y = tensor_of(x), tensor_of(y)
    if not executing_eagerly():
        return graph.add(x, y, name)
    if not isinstance(x, EagerTensor) and not isinstance(y, EagerTensor):  # the first one's type counts
        x = array_of(x)
        y = array_of(y, name_of(x))
    if _eager_tensor.is_plain(x) and _eager_tensor.is_plain(y):
        return shown(eager.add(x, y, name))
    return _eager_tensor.elementwise("Add", x, y, name)


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
    if executing_eagerly() and not _eager_tensor.is_plain(input):
        return computed(_eager_tensor.of(input), name or "Identity")
    return shown(eager.identity(input, name)) if executing_eagerly() else graph.identity(input, name)


def is_tensor(x: Any) -> bool:
    """Return whether ``x`` is a tensor or a variable."""
    return tensor_of(x) is not x or isinstance(x, Tensor)


def multiply(x: Any, y: Any, name: str | None = None) -> Any:
    """Multiply two tensors, elementwise. Computed with NumPy.

    >>> print(multiply([1.0, 2.0], 3.0))
    tf.Tensor([3. 6.], shape=(2,), dtype=float32)
    """
    return _elementwise("Mul", x, y, name)


def subtract(x: Any, y: Any, name: str | None = None) -> Any:
    """Subtract two tensors, elementwise. Computed with NumPy."""
    return _elementwise("Sub", x, y, name)


def divide(x: Any, y: Any, name: str | None = None) -> Any:
    """Divide two tensors, elementwise. Computed with NumPy."""
    return _elementwise("RealDiv", x, y, name)


def pow(x: Any, y: Any, name: str | None = None) -> Any:  # noqa: A001 - TensorFlow's name
    """Raise a tensor to a power, elementwise. Computed with NumPy."""
    return _elementwise("Pow", x, y, name)


def _elementwise(kind: str, x: Any, y: Any, name: str | None) -> Any:
    x, y = tensor_of(x), tensor_of(y)
    if executing_eagerly():
        return _eager_tensor.elementwise(kind, x, y, name)
    return _python_ops.elementwise(kind, x, y, name)


def _of_one(kind: str, value: Any, name: str | None, **options: Any) -> Any:
    value = tensor_of(value)
    if executing_eagerly():
        return _eager_tensor.computed(numpy_ops.compute(kind, _eager_tensor.of(value), **options), name or kind)
    return _python_ops.of_one(kind, value, name, **options)


def square(x: Any, name: str | None = None) -> Any:
    """Return the squares of the elements. Computed with NumPy."""
    return _of_one("Square", x, name)


def sqrt(x: Any, name: str | None = None) -> Any:
    """Return the square roots of the elements. Computed with NumPy."""
    return _of_one("Sqrt", x, name)


def exp(x: Any, name: str | None = None) -> Any:
    """Return e to the power of the elements. Computed with NumPy."""
    return _of_one("Exp", x, name)


def reduce_sum(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Return the sum of the elements, along ``axis`` or of all. Computed with NumPy."""
    return _of_one("Sum", input_tensor, name, axis=_axis(axis), keepdims=keepdims)


def reduce_mean(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Return the mean of the elements, along ``axis`` or of all. Computed with NumPy."""
    return _of_one("Mean", input_tensor, name, axis=_axis(axis), keepdims=keepdims)


def reduce_max(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Return the largest of the elements, along ``axis`` or of all. Computed with NumPy."""
    return _of_one("Max", input_tensor, name, axis=_axis(axis), keepdims=keepdims)


def _pair(kind: str, name: str, text: str) -> Callable[..., Any]:
    """Return the function of an operation on two values, elementwise."""

    def function(x: Any, y: Any, name: str | None = None) -> Any:
        return _elementwise(kind, x, y, name)

    return _called(function, name, text)


def _single(kind: str, name: str, text: str, dtype: str | None = None) -> Callable[..., Any]:
    """Return the function of an operation on the elements of one value."""

    def function(x: Any, name: str | None = None) -> Any:
        x = tensor_of(x)
        return _of_one(kind, x if isinstance(x, (EagerTensor, _graph.Tensor)) else array_of(x, dtype), name)

    return _called(function, name, text)


def _reduction(kind: str, name: str, text: str, dtype: str | None = None) -> Callable[..., Any]:
    """Return the function of an operation along axes, or on all elements."""

    def function(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
        x = tensor_of(input_tensor)
        x = x if isinstance(x, (EagerTensor, _graph.Tensor)) else array_of(x, dtype)
        return _of_one(kind, x, name, axis=_axis(axis), keepdims=keepdims)

    return _called(function, name, text)


def _called(function: Any, name: str, text: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text} Computed with NumPy."
    return function  # type: ignore[no-any-return]


equal = _pair("Equal", "equal", "Return which elements are equal.")
not_equal = _pair("NotEqual", "not_equal", "Return which elements are not equal.")
less = _pair("Less", "less", "Return where ``x < y``.")
less_equal = _pair("LessEqual", "less_equal", "Return where ``x <= y``.")
greater = _pair("Greater", "greater", "Return where ``x > y``.")
greater_equal = _pair("GreaterEqual", "greater_equal", "Return where ``x >= y``.")
logical_and = _pair("LogicalAnd", "logical_and", "Return where both are true.")
logical_or = _pair("LogicalOr", "logical_or", "Return where one of both is true.")
maximum = _pair("Maximum", "maximum", "Return the larger elements.")
minimum = _pair("Minimum", "minimum", "Return the smaller elements.")
logical_not = _single("LogicalNot", "logical_not", "Return where ``x`` is false.", "bool")
abs = _single("Abs", "abs", "Return the absolute values.")  # noqa: A001 - TensorFlow's name
tanh = _single("Tanh", "tanh", "Return the hyperbolic tangents.")
sigmoid = _single("Sigmoid", "sigmoid", "Return ``1 / (1 + exp(-x))``.")
relu = _single("Relu", "relu", "Return the elements above 0, and 0 for the others.")
softmax = _single("Softmax", "softmax", "Return the elements' shares of the sum of exponents, along the last axis.")
reduce_min = _reduction("Min", "reduce_min", "Return the smallest of the elements, along ``axis`` or of all.")
reduce_all = _reduction("All", "reduce_all", "Return whether all elements are true, along ``axis`` or all.", "bool")
reduce_any = _reduction("Any", "reduce_any", "Return whether an element is true, along ``axis`` or of all.", "bool")


def _arranged(kind: str, values: Any, function: Callable[..., Any], name: str | None, dtype: str | None = None) -> Any:
    """Arrange the elements of values by a function of NumPy's. Raises InvalidArgumentError if they do not fit."""
    values = list(map(tensor_of, values))
    like = next((each for each in values if isinstance(each, (EagerTensor, _graph.Tensor))), None)
    if like is None and len(values) > 1:  # the first one's type counts
        kind_of_first = name_of(array_of(values[0]))
        values = [array_of(each, kind_of_first) for each in values]
    if not executing_eagerly():
        return _python_ops.arranged(kind, values, like, function, name, dtype)
    try:
        return computed(function(*(_eager_tensor.of(each, like) for each in values)), name or kind)
    except (ValueError, IndexError) as error:
        raise errors.InvalidArgumentError(f"{error} [Op:{kind}]") from None


def squeeze(input: Any, axis: Any = None, name: str | None = None) -> Any:  # noqa: A002 - TensorFlow's name
    """Return the elements without dimensions of size 1: those of ``axis``, or all."""
    return _arranged("Squeeze", [input], lambda a: a.squeeze(_axis(axis)), name)


def expand_dims(input: Any, axis: int, name: str | None = None) -> Any:  # noqa: A002 - TensorFlow's name
    """Return the elements with another dimension of size 1."""
    return _arranged("ExpandDims", [input], lambda a: arrays.numpy().expand_dims(a, axis), name)


def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: str = "transpose") -> Any:
    """Return the elements with the dimensions in another order: that of ``perm``, or backwards."""
    del conjugate
    return _arranged("Transpose", [a], lambda array: array.transpose(perm), name)


def concat(values: Any, axis: int, name: str = "concat") -> Any:
    """Return values one after another along a dimension."""
    return _arranged("ConcatV2", values, lambda *a: arrays.numpy().concatenate(a, axis), name)


def stack(values: Any, axis: int = 0, name: str = "stack") -> Any:
    """Return values one after another along a new dimension."""
    return _arranged("Pack", values, lambda *a: arrays.numpy().stack(a, axis), name)


def shape(input: Any, out_type: Any = "int32", name: str | None = None) -> Any:  # noqa: A002 - TensorFlow's name
    """Return the sizes as a tensor."""
    wanted = type_name(out_type)
    return _arranged("Shape", [input], lambda a: arrays.numpy().asarray(a.shape, wanted), name, wanted)


def size(input: Any, out_type: Any = "int32", name: str | None = None) -> Any:  # noqa: A002 - TensorFlow's name
    """Return the number of elements as a tensor."""
    wanted = type_name(out_type)
    return _arranged("Size", [input], lambda a: arrays.numpy().asarray(a.size, wanted), name, wanted)


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
    x = tensor_of(x)
    wanted = type_name(dtype)
    if executing_eagerly():
        return _eager_tensor.computed(numpy_ops.cast(_eager_tensor.of(x), wanted), name or "Cast")
    return _python_ops.cast(x, wanted, name)


def convert_to_tensor(value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None) -> Any:
    """Return a value as a tensor; a tensor as it is."""
    del dtype_hint
    value = tensor_of(value)
    if isinstance(value, (EagerTensor, _graph.Tensor)) and (dtype is None or value.dtype == type_name(dtype)):
        return value
    return constant(value, dtype, None, name or "Const")


def zeros(shape: Any, dtype: Any = "float32", name: str | None = None) -> Any:
    """Return a tensor of zeros.

    >>> print(zeros([2]))
    tf.Tensor([0. 0.], shape=(2,), dtype=float32)
    """
    return constant(zero(dtype), None, _sizes(shape), name or "zeros")


def ones(shape: Any, dtype: Any = "float32", name: str | None = None) -> Any:
    """Return a tensor of ones."""
    return constant(zero(dtype, 1), None, _sizes(shape), name or "ones")


def fill(dims: Any, value: Any, name: str | None = None) -> Any:
    """Return a tensor that holds one number."""
    return constant(value, None, _sizes(dims), name or "Fill")


def zeros_like(input: Any, dtype: Any = None, name: str | None = None) -> Any:  # noqa: A002 - TensorFlow's name
    """Return a tensor of zeros, of the shape and type of another one."""
    like = convert_to_tensor(input)
    return zeros(like.shape, dtype or like.dtype.name, name)


def ones_like(input: Any, dtype: Any = None, name: str | None = None) -> Any:  # noqa: A002 - TensorFlow's name
    """Return a tensor of ones, of the shape and type of another one."""
    like = convert_to_tensor(input)
    return ones(like.shape, dtype or like.dtype.name, name)


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


def _sizes(shape: Any) -> Any:
    return tuple(int(size) for size in shape) if hasattr(shape, "__iter__") else shape


def print_(*inputs: Any, output_stream: Any = None, sep: str = " ", end: str = "\n", **_: Any) -> None:
    """Print values to ``output_stream``, by default ``sys.stderr``, as TensorFlow does. Named ``tf.print``."""
    import sys

    stream = (
        {"": sys.stderr, None: sys.stderr}.get(output_stream, output_stream)
        if not hasattr(output_stream, "write")
        else output_stream
    )
    stream.write(sep.join(map(_printed, inputs)) + end)


def _printed(value: Any) -> str:
    value = tensor_of(value)
    if not isinstance(value, EagerTensor):
        return str(value)
    kinds = {
        "float_kind": lambda number: f"{number:g}",
        "bool": lambda flag: f"{flag:d}",
        "object": lambda text: f'"{text.decode(errors="replace")}"',
    }
    return str(arrays.numpy().array2string(EagerTensor.numpy(value), formatter=kinds))


def device(device_name: Any) -> Any:
    """Choose the device of a ``with`` block, see ``gpuconf.device``; where operations build graphs, ``Graph.device``.

    Raises RuntimeError for a function.
    """
    if callable(device_name):
        raise RuntimeError("tf.device does not support functions.")
    return _Device(scope.device(device_name)) if executing_eagerly() else _graph.get_default_graph().device(device_name)


class _Device:
    """A scope of gpuconf's, which reports a malformed string as TensorFlow does."""

    _ending = staticmethod(sys.is_finalizing)  # see Buffer._ending

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __enter__(self) -> None:
        self._inner.__enter__()

    def __exit__(self, *error: Any) -> Any:
        if self._ending():
            return None
        return self._inner.__exit__(*error)


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
    """Draw normally distributed numbers.

    >>> set_seed(1)
    >>> normal([2, 3]).shape
    TensorShape([2, 3])
    """
    if not executing_eagerly():
        return _graph_ops.random_normal(shape, mean, stddev, dtype, seed, name)
    return computed(numpy_ops.normal(_drawn_shape(shape), mean, stddev, dtype, seed), name or "random_normal")


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", seed: Any = None, name: str | None = None
) -> Any:
    """Draw normally distributed numbers within two standard deviations."""
    if not executing_eagerly():
        return _graph_ops.truncated_normal(shape, mean, stddev, dtype, seed, name)
    return computed(numpy_ops.normal(_drawn_shape(shape), mean, stddev, dtype, seed, True), name or "truncated_normal")


def uniform(
    shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = "float32", seed: Any = None, name: str | None = None
) -> Any:
    """Draw uniformly distributed numbers below ``maxval``, by default from 0 to 1. Integers need ``maxval``."""
    if not executing_eagerly():
        return _graph_ops.random_uniform(shape, minval, maxval, dtype, seed, name)
    return computed(numpy_ops.uniform(_drawn_shape(shape), minval, maxval, dtype, seed), name or "random_uniform")


def _drawn_shape(shape: Any) -> Any:
    return tuple(map(int, shape)) if hasattr(shape, "__iter__") else (int(shape),)


publish(__name__)
