# SPDX-License-Identifier: Apache-2.0
"""Operations of a graph that a session computes in Python: arithmetic with NumPy, random numbers, variables.

The core sees such an operation as a placeholder. A session computes those that a run needs, in the order of the graph,
and feeds their values (:func:`complete`). An operation without a result, such as an initializer, is a no-op of the core
with an
action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ... import errors
from ..._core.built_in_errors import raise_built_in_class
from ..._typing import Any
from ...tensors import arrays
from ...tensors import arrays as checked
from .. import _numpy_ops as numpy_ops
from .._arrays import name_of, type_name
from ._graph import (
    WRONG,
    Graph,
    Operation,
    Tensor,
    compute_in_python,
    get_default_graph,
    give_turn,
    graph_array,
    operands,
)

# The operations that TensorFlow's functions name otherwise.
_NAMES = {"RealDiv": "truediv", "FloorDiv": "floordiv", "DivNoNan": "div_no_nan", "LogSumExp": "ReduceLogSumExp"}
_NAMES |= {"ConcatV2": "concat", "Pack": "stack", "Unpack": "unstack", "Split": "split", "Transpose": "transpose"}
_NAMES |= {"ClipByValue": "clip_by_value", "Det": "MatrixDeterminant", "Inv": "MatrixInverse"}

# By operation: from the session and the values of the inputs to the value, or to nothing.
Function = Callable[..., Any]


def add_result(
    kind: str, inputs: Sequence[Tensor], function: Function, dtype: str, shape: Any, name: str | None
) -> Tensor:
    """Add an operation with a result."""
    graph = inputs[0].graph if inputs else get_default_graph()
    return graph.in_python(kind, inputs, function, dtype, shape, name)


def add_action(kind: str, inputs: Sequence[Tensor], function: Function, name: str) -> Operation:
    """Add an operation without a result."""
    graph = inputs[0].graph if inputs else get_default_graph()
    operation = graph.operation("NoOp", (), 0, name)
    operation.type, operation.inputs = kind, tuple(inputs)
    graph.computed[operation] = function
    return operation


def elementwise(kind: str, left: Any, right: Any, name: str | None = None, like: Any = None) -> Tensor:
    """Add an operation on two values, elementwise, with NumPy's broadcasting.

    ``like`` is the tensor whose operator this is. Raises ValueError or TypeError if they do not fit.
    """
    if kind == "RealDiv" and isinstance(right, Tensor):
        like = right
    if kind.startswith("Logical"):
        like = "bool"
    try:
        name, (x, y) = operands("xy", (left, right), name or _NAMES.get(kind, kind), like)
    except (errors.InvalidArgumentError, ValueError):
        if like is None and left is not None and not isinstance(left, Tensor):  # whose type is checked first
            _type_of_result(kind, name_of(graph_array(left, None)))
        raise
    if x._dtype != y._dtype:
        raise TypeError(
            f"Input 'y' of '{kind}' Op has type {y._dtype} that does not match type {x._dtype} of argument 'x'."
        )
    dtype = _type_of_result(kind, x._dtype)
    try:
        shape = numpy_ops.shape_of_result(x._shape, y._shape)
    except ValueError:
        text = (
            f"Dimensions must be equal, but are {list(x._shape or ())} and {list(y._shape or ())} for '{{{{node "
            f"{kind}}}}}'"
        )
        raise ValueError(f"{text} (op: '{kind}')") from None
    return add_result(kind, (x, y), lambda _, a, b: numpy_ops.compute(kind, a, b), dtype, shape, name)


def of_one(kind: str, value: Any, name: str | None = None, like: Any = None, **options: Any) -> Tensor:
    """Add an operation on one value, such as a sum. ``options`` are those of NumPy's function.

    ``like`` is the type of a value without one.
    """
    name, (x,) = operands(["input" if options else "x"], (value,), name or _NAMES.get(kind, kind), like)
    dtype = _type_of_result(kind, x._dtype)
    shape = numpy_ops.shape_of_result(x._shape, **options)
    if kind in ("Softmax", "LogSoftmax"):
        if shape == () == x._shape:
            raise ValueError(f"Shape must be at least rank 1 but is rank 0 for '{{{{node {kind}}}}}'")
        shape = x._shape
    return add_result(kind, (x,), lambda _, a: numpy_ops.compute(kind, a, **options), dtype, shape, name)


def _type_of_result(kind: str, dtype: str) -> str:
    """Return the type of a result. Raises TypeError where an eager operation raises InvalidArgumentError."""
    if kind == "Abs" and dtype.startswith("complex"):
        return {"complex64": "float32", "complex128": "float64"}[dtype]
    try:
        numpy_ops.check_type(kind, dtype)
        return checked.type_of_result(kind, dtype)
    except errors.InvalidArgumentError as error:
        raise TypeError(error.message) from None


def cast(value: Any, dtype: str, name: str | None = None) -> Tensor:
    """Add a conversion to another type."""
    name, (x,) = operands("x", (value,), name or "Cast")
    if x._dtype == dtype:
        return x
    return add_result("Cast", (x,), lambda _, a: numpy_ops.cast(a, dtype), dtype, x._shape, name)


def beyond_the_core(kind: str, inputs: Sequence[Tensor], flags: int, name: str) -> Tensor:
    """Add an operation of the core on types that it does not have, or on batches of matrices."""
    if kind == "Identity":
        return add_result(kind, inputs, lambda _, a: a, inputs[0]._dtype, inputs[0]._shape, name)
    if kind == "MatMul":
        _type_of_result(kind, inputs[0]._dtype)
        a, b = (
            add_result("Transpose", (each,), _turned, each._dtype, _swapped(each._shape), None) if flags & bit else each
            for each, bit in zip(inputs, (1, 2), strict=True)
        )
        known = a._shape is not None and b._shape is not None and None not in (*a._shape, *b._shape)
        shape = numpy_ops.shape_of_product(a._shape, b._shape) if known else None
        return add_result(kind, (a, b), lambda _, *each: numpy_ops.compute(kind, *each), a._dtype, shape, name)
    total = inputs[0]
    for each in inputs[1:]:
        total = elementwise("Add", total, each, name)
    return total


def _turned(_: Any, array: Any) -> Any:
    return array.swapaxes(-1, -2) if array.ndim > 1 else array


def _swapped(shape: Any) -> Any:
    return shape if shape is None or len(shape) < 2 else (*shape[:-2], shape[-1], shape[-2])


def arranged(
    kind: str, values: Any, like: Any, function: Callable[..., Any], name: str | None, dtype: Any, known: bool
) -> Any:
    """Add an operation that arranges the elements of values, or one for each of several results.

    Raises ValueError if they do not fit.
    """
    arguments = [f"values_{number}" for number in range(len(values))] if len(values) > 1 else ["input"]
    name, inputs = operands(arguments, values, name or _NAMES.get(kind, kind), like)
    dtype = dtype or inputs[0]._dtype
    if not known or any(each._shape is None or None in each._shape for each in inputs):
        return add_result(kind, inputs, lambda _, *each: function(*each), dtype, None, name)
    try:
        example = function(*map(_example, inputs))
    except errors.InvalidArgumentError as error:  # from native code, which has Python's errors while it builds a graph
        kind_of_error = errors.InvalidTypeError if "Value for attr" in error.message else errors.InvalidArgumentError
        raise errors.checked_in_python(kind_of_error(error.message)) from None
    if not isinstance(example, list):
        return add_result(kind, inputs, lambda _, *each: function(*each), dtype, arrays.numpy().shape(example), name)
    # The first one has the scope's name, and the core numbers the others.
    names = [name, *[name.rstrip("/")] * len(example)]
    return [
        add_result(kind, inputs, lambda _, *each, part=part: function(*each)[part], dtype, one.shape, names[part])
        for part, one in enumerate(example)
    ]


def _example(tensor: Tensor) -> Any:
    """Return an array of the shape and type of a tensor, of which matrices have an inverse."""
    if tensor._dtype == "string":
        return arrays.numpy().full(tensor._shape, b"", object)
    array = arrays.numpy().zeros(tensor._shape, tensor.dtype.dtype)
    if array.ndim > 1:
        array[...] = arrays.numpy().eye(*array.shape[-2:])
    return array


def _part(tensor: Tensor, key: Any) -> Any:
    try:
        return arranged("StridedSlice", (tensor,), None, lambda a: a[key], "strided_slice", None, known=True)
    except IndexError as error:
        raise ValueError(f"{error} for '{{{{node strided_slice}}}}'") from None


def drawn(kind: str, draw: Callable[[], Any], dtype: Any, shape: Any, name: str | None) -> Tensor:
    """Add random numbers, which each run draws anew."""
    return add_result(kind, (), lambda _: draw(), type_name(dtype), shape, name)


def _needed(wanted: Iterable[Tensor], targets: Iterable[Operation], fed: dict[Tensor, Any]) -> list[Operation]:
    """Return the operations computed in Python that a run executes, in the order of the graph."""
    left = [*(tensor.op for tensor in wanted if tensor not in fed), *targets]
    seen: set[Operation] = set()
    while left:
        operation = left.pop()
        if operation not in seen:
            seen.add(operation)
            left += [each.op for each in operation.inputs if each not in fed]
            left += operation._control_inputs
    return sorted((each for each in seen if each in each.graph.computed), key=lambda each: each._number)


def complete(
    session: Any,
    graph: Graph,
    wanted: Iterable[Tensor],
    targets: Iterable[Operation],
    fed: dict[Tensor, Any],
    step: Any,
) -> dict[Tensor, Any]:
    """Compute what a run needs and the core does not compute. Returns ``fed`` with these values.

    ``step`` fetches tensors by the core: ``step(tensors, operations, feeds)``.
    """
    if not graph.computed:
        return fed
    np = arrays.numpy()
    known = dict(fed)
    for operation in _needed(wanted, targets, fed):
        inputs = [each for each in operation.inputs if each not in known]
        values = {**known, **(step(inputs, [], known) if inputs else {})}
        result = graph.computed[operation](session, *(values[each] for each in operation.inputs))
        if operation.outputs:
            known[operation.outputs[0]] = np.asarray(result, operation.outputs[0].dtype.dtype)
    return known


def _operators() -> None:
    setattr(Tensor, "__getitem__", _part)  # noqa: B010 - as the others are
    for method, kind in numpy_ops.OPERATORS.items():

        def forward(self: Tensor, other: Any, kind: str = kind, name: str = method) -> Any:
            try:
                return elementwise(kind, self, other, name, self)
            except WRONG:
                give_turn(self, other)
                raise

        def reverse(self: Tensor, other: Any, kind: str = kind, name: str = method) -> Any:
            return elementwise(kind, other, self, name, self)

        setattr(Tensor, f"__{method}__", forward)
        setattr(Tensor, f"__r{method}__", reverse)

    for method, (kind, _) in checked.COMPARISONS.items():
        if method in ("eq", "ne"):  # of the objects, as in TensorFlow: a tensor of a graph is a key of a dict
            continue

        def compared(self: Tensor, other: Any, kind: str = kind) -> Any:
            return elementwise(kind, self, other, like=self)

        setattr(Tensor, f"__{method}__", compared)

    for method in checked.BITS:

        def bits(self: Tensor, other: Any, name: str = method) -> Any:
            try:
                return elementwise(checked.kind_of(name, self._dtype), self, other, name, self)
            except WRONG:
                give_turn(self, other)
                if name == "or":  # types have it since Python 3.10, so TensorFlow looks for the value's
                    other.__ror__  # noqa: B018 - raises AttributeError
                raise

        setattr(Tensor, f"__{method}__", bits)
        setattr(Tensor, f"__r{method}__", bits)

    for method, one in {"neg": "Neg", "abs": "Abs", "invert": ""}.items():

        def unary(self: Tensor, kind: str = one) -> Tensor:
            return of_one(kind or checked.kind_of("invert", self._dtype), self)

        setattr(Tensor, f"__{method}__", unary)


_operators()
raise_built_in_class(Tensor)
compute_in_python(beyond_the_core)
