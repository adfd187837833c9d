# SPDX-License-Identifier: Apache-2.0
"""Eager operations. Those of ``gpuconf.compat.v1`` build graphs instead."""

from __future__ import annotations

from .. import errors
from .._typing import Any
from . import arrays
from .tensor import Tensor, converted, execute, execute_binary, make, name_of, number


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Tensor:
    """Create a tensor from numbers, nested lists or an array.

    The tensor is placed on the device of this thread's scope, or, outside a scope, on the first GPU if there is one.
    Without ``dtype``, Python floats become float32, ints int32 and bools bool; arrays keep their dtype. With ``shape``,
    a single element fills the tensor; otherwise the number of elements must match, and they are stored in row-major
    order.

    Raises TypeError for values other than float32, float64, int32 or bool, and ValueError for a non-rectangular
    sequence or for numbers out of the dtype's range.

    >>> constant([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 2)
    """
    if isinstance(value, Tensor):
        value = value.numpy()
    array = arrays.array_of(value, dtype)
    sizes = array.shape if shape is None else arrays.shape_of(shape)
    if array.size not in (1, arrays.elements(sizes)):
        raise errors.InvalidTypeError(
            f"Eager execution of tf.constant with unsupported shape. The value has {array.size} elements, but got "
            f"`shape` {sizes} with {arrays.elements(sizes)} elements."
        )
    return make("constant", array, sizes, name_of(name))


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, name: str | None = None) -> Tensor:
    """Multiply two matrices, optionally transposing either one first.

    Raises ValueError if the arguments are not matrices, their shapes are incompatible, or their dtypes differ. On a
    real GPU, raises RuntimeError (UnavailableError) if cuBLAS is missing, as do ``add`` and ``add_n``.

    >>> matmul([[1.0, 2.0]], [[3.0], [4.0]]).numpy()
    array([[11.]], dtype=float32)
    """
    x = a if type(a) is Tensor else converted(a, b)
    y = b if type(b) is Tensor else converted(b, a)
    flags = (1 if transpose_a else 0) | (2 if transpose_b else 0)
    try:
        return execute_binary("matmul", "MatMul", x, y, flags, "" if name is None else name_of(name))
    finally:
        del x, y  # otherwise an error's traceback would keep the converted tensors alive


def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Add two tensors, broadcasting as NumPy does.

    Raises ValueError if the shapes are incompatible or the dtypes differ.

    >>> add([1.0, 2.0], 3.0).numpy()
    array([4., 5.], dtype=float32)
    """
    left = x if type(x) is Tensor else converted(x, y)
    right = y if type(y) is Tensor else converted(y, x)
    try:
        return execute_binary("add", "Add", left, right, 0, "" if name is None else name_of(name))
    finally:
        del left, right


def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """Add the tensors of a list, from left to right.

    Raises ValueError for an empty list, or if shapes or dtypes differ.

    >>> add_n([constant(1), constant(2), constant(3)]).numpy()
    array(6, dtype=int32)
    """
    values = listed(inputs)
    tensors = list(map(converted, values, [values[0]] * len(values)))
    try:
        return execute("add_n", "AddN", " ".join(map(str, map(number, tensors))), 0, name_of(name))
    finally:
        del tensors


def identity(input: Any, name: str | None = None) -> Tensor:  # noqa: A002 - TensorFlow's name
    """Return a tensor with the same contents. Inside a device scope, it is in that device's memory.

    >>> with gpuconf.device("GPU:1"):
    ...     identity([1.0]).device
    '/job:localhost/replica:0/task:0/device:GPU:1'
    """
    tensor = converted(input)
    try:
        return execute("identity", "Identity", str(number(tensor)), 0, name_of(name))
    finally:
        del tensor


def listed(inputs: Any) -> list[Any]:
    """Check the argument of add_n."""
    if isinstance(inputs, (list, tuple)) and inputs:
        return list(inputs)
    text = "Inputs must be an iterable of at least one Tensor/IndexedSlices with the same dtype and shape."
    raise errors.checked_in_python(errors.InvalidArgumentError(text))
