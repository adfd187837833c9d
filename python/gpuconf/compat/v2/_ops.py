# SPDX-License-Identifier: Apache-2.0
"""Operations and scopes that run eagerly, or build graphs where TensorFlow does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import update_wrapper

from ... import errors
from ..._core import scope
from ..._core.built_in_errors import raise_built_in_class
from ..._core.fork import module_lock
from ..._typing import Any
from ...tensors import arrays
from ...tensors import operations as eager
from ...tensors.tensor import Tensor as EagerTensor
from .. import _numpy_ops as numpy_ops
from .._logging import get_logger
from .._names import publish
from ..v1 import _graph, _python_ops
from ..v1 import _ops as _graph_ops
from ..v1 import _ops as graph
from ..v1._mode import executing_eagerly, set_random_seed
from . import _eager_tensor
from ._eager_tensor import computed, shown
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
            get_logger().info("gpuconf runs tf.function's Python functions as they are: it traces and compiles nothing")


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
    return (
        shown(eager.constant(value, dtype, shape, name))
        if executing_eagerly()
        else graph.constant(value, dtype, shape, name)
    )


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, name: str | None = None) -> Any:
    """Multiply two matrices, see ``gpuconf.matmul``."""
    a, b = tensor_of(a), tensor_of(b)
    if executing_eagerly():
        return shown(eager.matmul(a, b, transpose_a, transpose_b, name))
    return graph.matmul(a, b, transpose_a, transpose_b, name)


def add(x: Any, y: Any, name: str | None = None) -> Any:
    """Add two tensors, see ``gpuconf.add``."""
    x, y = tensor_of(x), tensor_of(y)
    return shown(eager.add(x, y, name)) if executing_eagerly() else graph.add(x, y, name)


def add_n(inputs: Any, name: str | None = None) -> Any:
    """Add the tensors of a list, see ``gpuconf.add_n``."""
    if isinstance(inputs, (list, tuple)):
        inputs = list(map(tensor_of, inputs))
    return shown(eager.add_n(inputs, name)) if executing_eagerly() else graph.add_n(inputs, name)


def identity(input: Any, name: str | None = None) -> Any:  # noqa: A002 - TensorFlow's name
    """Return a tensor with the same contents, see ``gpuconf.identity``."""
    input = tensor_of(input)  # noqa: A001
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


def _axis(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Convert a tensor to another type. Raises TypeError for types other than float32, float64, int32 and bool."""
    x = tensor_of(x)
    wanted = arrays.dtype_of(dtype).name
    if executing_eagerly():
        return _eager_tensor.computed(_eager_tensor.of(x).astype(wanted), name or "Cast")
    return _python_ops.cast(x, wanted, name)


def convert_to_tensor(value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None) -> Any:
    """Return a value as a tensor; a tensor as it is."""
    del dtype_hint
    value = tensor_of(value)
    if isinstance(value, (EagerTensor, _graph.Tensor)) and (
        dtype is None or value.dtype == arrays.dtype_of(dtype).name
    ):
        return value
    return constant(value, dtype, None, name or "Const")


def zeros(shape: Any, dtype: Any = "float32", name: str | None = None) -> Any:
    """Return a tensor of zeros.

    >>> print(zeros([2]))
    tf.Tensor([0. 0.], shape=(2,), dtype=float32)
    """
    return constant(arrays.dtype_of(dtype).type(0), None, _sizes(shape), name or "zeros")


def ones(shape: Any, dtype: Any = "float32", name: str | None = None) -> Any:
    """Return a tensor of ones."""
    return constant(arrays.dtype_of(dtype).type(1), None, _sizes(shape), name or "ones")


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
    return constant(arrays.numpy().eye(num_rows, num_columns, dtype=arrays.dtype_of(dtype)), name=name or "eye")


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
        return constant(arrays.array_of(tensor).reshape(sizes), name=name or "Reshape")
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
    array = EagerTensor.numpy(value)
    np = arrays.numpy()
    return str(
        np.array2string(array, formatter={"float_kind": lambda number: f"{number:g}", "bool": lambda flag: f"{flag:d}"})
    )


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
