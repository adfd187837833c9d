# SPDX-License-Identifier: Apache-2.0
"""Operations that add nodes to a graph. Those of ``gpuconf`` run eagerly instead."""

from __future__ import annotations

from ..._core.block import Block
from ..._core.native import refuse_in_child
from ..._typing import Any
from ...tensors import arrays
from ...tensors.operations import listed
from ...tensors.tensor import Tensor as EagerTensor
from ...tensors.tensor import name_of as _text_of
from .._arrays import type_name
from .._names import publish
from ._both import either, in_2
from ._graph import Operation, Tensor, fit, get_default_graph, graph_array, node, operands
from ._mode import runs_eagerly


@either
def constant(
    value: Any, dtype: Any = None, shape: Any = None, name: str = "Const", verify_shape: bool = False
) -> Tensor:
    """Add a constant to the default graph.

    Without ``dtype``, Python floats become float32 and ints int32; arrays keep their type. ``shape`` is filled in
    row-major order, and the last element is repeated if there are too few. With ``verify_shape``, ``shape`` must equal
    the value's shape.

    Raises TypeError for types other than float32, float64, int32 and bool, and if ``verify_shape`` fails; ValueError
    for too many elements or numbers out of range.

    >>> constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[2, 3], name="a")
    <tf.Tensor 'a:0' shape=(2, 3) dtype=float32>
    """
    graph = get_default_graph()  # TensorFlow makes it first, whatever fails
    dtype = type_name(dtype) if dtype else dtype
    if value is None:
        raise ValueError("None values not supported.")
    if dtype is not None and not dtype:  # which TensorFlow takes for none at first
        raise AttributeError(f"{type(dtype).__name__!r} object has no attribute 'is_integer'")
    if hasattr(value, "_value"):  # a variable of a graph
        raise NotImplementedError("numpy() is only available when eager execution is enabled.")
    if isinstance(value, Tensor):
        wanted = "any non-tensor type" if dtype is None else type_name(dtype)
        raise TypeError(f"Expected {wanted}, but got {value} of type 'SymbolicTensor'.")
    array = graph_array(EagerTensor.numpy(value) if isinstance(value, EagerTensor) else value, dtype)
    sizes = array.shape if shape is None else arrays.shape_of(shape)
    if verify_shape and sizes != array.shape:
        raise TypeError(f"Expected Tensor's shape: {sizes}, got {array.shape}.")
    return graph.constant(array, sizes, name_of(name))


@either
def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """Add a tensor whose value each run takes from its ``feed_dict``.

    ``shape`` is a sequence of sizes, with None for a size that may differ from run to run, or a single size; without
    ``shape`` any shape can be fed. A run that needs the tensor and does not feed it raises ValueError.

    Raises TypeError for types other than float32, float64, int32 and bool and for sizes that are not integers, and
    ValueError for negative sizes.

    >>> import gpuconf.compat.v1 as tf
    >>> x = tf.placeholder(tf.float32, [None, 2])
    >>> tf.matmul(x, [[1.0], [1.0]], name="sums")
    <tf.Tensor 'sums:0' shape=(None, 1) dtype=float32>
    >>> tf.Session().run(x + 1.0, feed_dict={x: [[1.0, 2.0]]})
    array([[2., 3.]], dtype=float32)
    """
    refuse_in_child()  # before NumPy is imported
    if dtype is None:
        raise TypeError("Expected DataType for argument 'dtype' not None.")
    sizes = None if shape is None else arrays.partial_shape_of(shape)
    return get_default_graph().placeholder(type_name(dtype), sizes, name_of(name))


@either
def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:  # noqa: A002
    """Add a tensor whose value each run takes from its ``feed_dict``, else from ``input``.

    Raises ValueError if the shape of ``input`` does not fit ``shape``.

    >>> import gpuconf.compat.v1 as tf
    >>> x = tf.placeholder_with_default([1.0], shape=[None])
    >>> tf.Session().run([x + 1.0, x], {x: [2.0, 3.0]})[0]
    array([3., 4.], dtype=float32)
    """
    sizes = None if shape is None else arrays.partial_shape_of(shape)
    name, (default,) = operands(["input"], (input,), name_of(name) or "PlaceholderWithDefault")
    if not fit(sizes, default._shape):
        raise ValueError(f"Shapes {default._shape} and {sizes} are not compatible")
    return default.graph.in_python("PlaceholderWithDefault", (default,), lambda _, a: a, default._dtype, sizes, name)


@either
def no_op(name: str | None = None) -> Operation:
    """Add an operation that does nothing, for control dependencies."""
    return get_default_graph().operation("NoOp", (), 0, name_of(name))


@either
def local_variables_initializer() -> Operation:
    """Add an operation that does nothing: gpuconf has no variables to initialize."""
    return no_op("init")


@either
def tables_initializer(name: str = "init_all_tables") -> Operation:
    """Add an operation that does nothing: gpuconf has no tables to initialize."""
    return no_op(name)


@either
def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, name: str | None = None) -> Tensor:
    """Add the product of two matrices, each optionally transposed first.

    Raises ValueError for operands that are not matrices or whose shapes do not match, and TypeError for different
    types.

    >>> matmul([[1.0, 2.0]], [[3.0], [4.0]])
    <tf.Tensor 'MatMul:0' shape=(1, 1) dtype=float32>
    """
    return node("MatMul", (a, b), (1 if transpose_a else 0) | (2 if transpose_b else 0), name_of(name))


@either
def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Add the sum of two tensors, with NumPy's broadcasting.

    Raises ValueError or TypeError if shapes or types do not match.
    """
    return node("Add", (x, y), 0, name_of(name))


@either
def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """Add the sum of a list of tensors.

    Raises ValueError for an empty list or different shapes, TypeError for different types.
    """
    return node("AddN", listed(inputs), 0, name_of(name))


@either
def identity(input: Any, name: str | None = None) -> Tensor:  # noqa: A002 - TensorFlow's name
    """Add a copy of a tensor, on the device of the current scope."""
    return node("Identity", (input,), 0, name_of(name))


@either
def group(*inputs: Any, name: str | None = None) -> Operation:
    """Add an operation that does nothing, and runs after others."""
    flat = [each for one in inputs for each in (one if isinstance(one, (list, tuple)) else [one])]
    graph = get_default_graph()
    with graph.control_dependencies([getattr(each, "_value", each) for each in flat]):
        return graph.operation("NoOp", (), 0, name or "group_deps")


class name_scope(Block):  # noqa: N801 - TensorFlow's name
    """Put a name before those of the operations that a ``with`` block adds; see ``Graph.name_scope``.

    Without ``name``, ``default_name`` counts. Entering it raises ValueError if both are None and there are ``values``.

    >>> import gpuconf.compat.v1 as tf
    >>> with tf.name_scope("layer") as scope:
    ...     scope
    'layer/'
    """

    def __init__(self, name: Any, default_name: Any = None, values: Any = None, skip_on_eager: bool = True) -> None:
        del skip_on_eager
        if not isinstance(default_name, (str, type(None))):
            kind = type(default_name)
            raise TypeError(
                f"`default_name` type ({kind}) is not a string type. You likely meant to pass this into the `values` "
                "kwarg."
            )
        self._name = default_name if name is None else name
        self._refused = self._name is None and values is not None
        self._entered: list[Any] = []

    @property
    def name(self) -> Any:
        """The requested name."""
        return self._name

    def __enter__(self) -> str:
        if self._refused:
            raise ValueError("At least one of name (None) and default_name (None) must be provided.")
        if runs_eagerly():
            self._entered.append(in_2("name_scope")(self._name or ""))
        else:
            self._entered.append(get_default_graph().name_scope(self._name))
        entered: str = self._entered[-1].__enter__()
        return entered

    def _leave(self, *error: Any) -> None:
        self._entered.pop().__exit__(*error)


def name_of(name: Any) -> str:
    """Return a name argument (a str, bytes in UTF-8, or None) as text."""
    if isinstance(name, bytes):
        try:
            name = name.decode()
        except UnicodeDecodeError as error:
            raise ValueError(str(error)) from None
    return _text_of(name)


publish(__name__)
