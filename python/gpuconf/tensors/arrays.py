# SPDX-License-Identifier: Apache-2.0
"""Conversion of values to NumPy arrays that the core can read. Only tensors need NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import islice

from .. import errors
from .._core import interchange, texts
from .._core.native import refuse_in_child
from .._typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    float32: Any
    float64: Any
    int32: Any
else:

    def __getattr__(name: str) -> Any:
        """``float32``, ``float64`` and ``int32`` are NumPy's, and nothing else that a program names needs NumPy."""
        if name not in DTYPES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return numpy().dtype(name)


# The element types that have kernels, by NumPy name.
DTYPES = ("float32", "float64", "int32", "bool")


def _value_error(text: str) -> errors.GpuconfError:
    """Return an error of a check that TensorFlow makes in Python."""
    return errors.checked_in_python(errors.InvalidArgumentError(text))


def numpy() -> Any:
    """Return the NumPy module. Raises MissingPackageError without it."""
    try:
        import numpy
    except ImportError as error:
        raise texts.missing("tensors and sessions need", "NumPy", "numpy", error) from error
    return numpy


# The supported NumPy dtypes, in native byte order, with their names; the dtype's own ``name`` attribute is slow.
_names: dict[Any, str] = {}


def _good(np: Any) -> dict[Any, str]:
    if not _names:
        _names.update({np.dtype(name): name for name in DTYPES})
    return _names


def name_of(array: Any) -> str:
    """Return the dtype name of an array that :func:`array_of` returned."""
    return _good(numpy())[array.dtype]


def dtype_of(dtype: Any) -> Any:
    """Return a supported NumPy dtype, in native byte order. ``float`` is float32, as in TensorFlow."""
    if dtype is float or (isinstance(dtype, str) and dtype == "float"):
        dtype = "float32"
    if isinstance(dtype, (list, tuple, dict)):  # NumPy would read a structure, however deep
        raise errors.InvalidTypeError(f"Cannot convert the argument `type_value`: {shown(dtype)} to a DType")
    try:
        parsed = numpy().dtype(dtype)
    except (TypeError, ValueError, SyntaxError) as error:  # NumPy reads "," as a list of types, using Python's parser
        raise errors.InvalidTypeError(
            f"Cannot convert the argument `type_value`: {shown(dtype)} to a DType: {error}"
        ) from None
    if parsed.name not in DTYPES:
        raise errors.InvalidTypeError(f"unsupported dtype {parsed.name}: gpuconf supports {', '.join(DTYPES)}")
    return parsed.newbyteorder("=")


def array_of(value: Any, dtype: Any = None) -> Any:
    """Convert a value to a C-contiguous array of a supported dtype, in native byte order.

    Without ``dtype``, arrays keep their dtype, and Python floats become float32 and ints int32, as in TensorFlow.
    """
    refuse_in_child()  # the next line may be the first import of NumPy
    np = numpy()
    if dtype is None and type(value) is np.ndarray and value.dtype in _good(np) and value.flags.c_contiguous:
        return _readable(value)
    wanted = None if dtype is None else dtype_of(dtype)
    typed = check_readable(value)
    array = converted(value, np)
    _check_kind(array, value)
    if not typed:
        wanted = _natural(array, value, wanted, np)
    if wanted is None:
        wanted = dtype_of(array.dtype)
    if wanted.kind == "i" and array.dtype.kind in "iuO":
        _check_range(array, wanted, np)
    with np.errstate(all="ignore"):  # a float too large for float32 is inf, as in TensorFlow
        return np.asarray(array, dtype=wanted, order="C")


# NumPy's bound for dimensions (32 before NumPy 2), and TensorFlow's.
_MOST_DIMENSIONS, _MOST_SIZES = 64, 254
# This many elements, or lists, take gigabytes. A list that contains another list several times can claim any number.
_MOST_ELEMENTS, _MOST_LISTS = 1 << 28, 1 << 24


def check_readable(value: Any) -> bool:
    """Reject what NumPy would never finish reading, or would read at an unmapped address.

    Return whether the elements have dtypes.

    A value that is not a list is inspected only if the program supplied its address (see ``foreign``).
    """
    np = numpy()
    leaf = first_leaf(value)
    typed = hasattr(leaf, "dtype") or not isinstance(
        leaf, (bool, int, float, complex, str, bytes, list, tuple, type(None))
    )
    if leaf is value:
        if interchange.made_up(interchange.owner_of(value)):
            converted(value, np)
    elif typed and not isinstance(leaf, np.generic):
        _check_arrays(value, np)
    return typed


def first_leaf(value: Any) -> Any:
    """Return the first element of nested lists that is not a list.

    Raises for lists that NumPy would never finish reading.

    NumPy stops at the first list whose length differs from its neighbors', so checking the first list of each level is
    enough.
    """
    leaf, elements, lists, text = value, 1, 1, "Can't convert non-rectangular Python sequence to Tensor: "
    for _ in range(_MOST_DIMENSIONS + 1):
        if not isinstance(leaf, (list, tuple)) or not leaf:
            break
        lists, elements = elements, elements * len(leaf)
        leaf = leaf[0]
    else:
        raise _value_error(f"{text}it contains itself, or has more than {_MOST_DIMENSIONS} dimensions")
    if elements > _MOST_ELEMENTS or lists > _MOST_LISTS:
        raise _value_error(f"{text}it has {elements} elements in {lists} sequences: pass a NumPy array")
    return leaf


def _check_arrays(value: Any, np: Any) -> None:
    """Check the arrays in nested lists, which NumPy reads immediately."""
    left, seen = [value], set()
    while left:
        each = left.pop()
        if not isinstance(each, (list, tuple)):
            converted(each, np)
        elif id(each) not in seen:
            seen.add(id(each))
            left.extend(each)


def converted(value: Any, np: Any) -> Any:
    """Convert an object to an array whose memory is readable."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        what = (
            "non-rectangular Python sequence"
            if isinstance(value, (list, tuple))
            else f"an object of type {type(value).__name__}"
        )
        raise _value_error(f"Can't convert {what} to Tensor: {error}") from None
    except OverflowError as error:  # an address or a size in an array interface
        raise _value_error(f"Can't convert an object of type {type(value).__name__} to Tensor: {error}") from None
    return _readable(array)


def _readable(array: Any) -> Any:
    owner = interchange.owner_of(array)
    if interchange.made_up(owner):
        if array.dtype.hasobject:  # addresses of objects, which cannot be checked
            raise errors.InvalidTypeError(
                f"Can't convert an object of type {type(owner).__name__} to Tensor: it holds Python objects"
            )
        low, high = _bounds(array)
        interchange.check(owner, low, high - low)
    return array


def _bounds(array: Any) -> tuple[int, int]:
    """Return the address of an array's first byte, and the address after its last byte."""
    low = high = int(array.__array_interface__["data"][0])
    if not array.size:
        return low, low
    for size, stride in zip(array.shape, array.strides, strict=True):
        reach = (size - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high + array.itemsize


def _check_kind(array: Any, value: Any) -> None:
    if array.dtype.kind in "fiub":
        return
    if array.dtype.kind == "O" and all(isinstance(each, int) and not isinstance(each, bool) for each in array.flat):
        return  # ints too large for any NumPy dtype
    text = f"Attempt to convert a value ({shown(value)}) with an unsupported type ({type(value)}) to a Tensor"
    text = f"{text}: gpuconf supports {', '.join(DTYPES)}"
    raise errors.InvalidTypeError(text)


# Kinds of tensors that Python numbers of another kind do not become.
_UNNATURAL = (("i", "f"), ("b", "f"), ("b", "i"))


def _natural(array: Any, value: Any, wanted: Any, np: Any) -> Any:
    """Return the dtype for a value that consists of Python numbers."""
    if wanted is None:
        return np.dtype({"f": "float32", "b": "bool"}.get(array.dtype.kind, "int32"))
    if array.size and (wanted.kind, array.dtype.kind) == ("b", "O"):
        raise _value_error("Can't convert Python sequence with out-of-range integer to Tensor.")
    if array.size and (wanted.kind, array.dtype.kind) in _UNNATURAL:
        raise errors.InvalidTypeError(f"Cannot convert {shown(value)} to a Tensor of dtype {wanted.name}")
    return wanted


def _check_range(array: Any, wanted: Any, np: Any) -> None:
    limits = np.iinfo(wanted)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        raise _value_error(
            f"the values do not fit in {wanted.name}: they range from {shown(array.min())} to {shown(array.max())}"
        )


def shown(value: Any) -> str:
    """Return a value as text for a message, truncated; never raises."""
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        return str(value)
    text = texts.bounded_repr(value)
    return text if len(text) <= 100 else text[:100] + "..."


def shape_of(shape: Any) -> tuple[int, ...]:
    """Convert a shape argument, an int or a sequence of ints."""
    try:
        return (operator.index(shape),)
    except TypeError:
        pass
    try:
        sizes = tuple(operator.index(size) for size in islice(shape, _MOST_SIZES + 1))  # an iterator may be endless
    except TypeError:
        raise errors.InvalidTypeError(f"shape must be an int or a sequence of ints, but got {shown(shape)}") from None
    if len(sizes) > _MOST_SIZES:
        raise errors.InvalidArgumentError(f"shape has more than {_MOST_SIZES} dimensions: {shown(shape)}")
    return sizes


def partial_shape_of(shape: Any) -> tuple[int | None, ...]:
    """Convert a shape argument in which None is a size that is not known."""
    try:
        return (_size(operator.index(shape)),)
    except TypeError:
        pass
    try:
        listed = list(islice(shape, _MOST_SIZES + 1))
    except TypeError:
        raise errors.InvalidTypeError(
            f"Error converting shape to a TensorShape: {shown(shape)} is not a sequence of sizes"
        ) from None
    if any(isinstance(size, bool) for size in listed):
        raise errors.InvalidTypeError(
            f"Error converting {shown(shape)} to a TensorShape: expected an int, got a boolean"
        )
    try:
        sizes = tuple(None if size is None else operator.index(size) for size in listed)
    except TypeError:
        raise errors.InvalidTypeError(
            "Error converting shape to a TensorShape: Dimension value must be integer or None or have an __index__ "
            f"method, but the shape is {shown(shape)}"
        ) from None
    if len(sizes) > _MOST_SIZES:
        raise _value_error(f"shape has more than {_MOST_SIZES} dimensions: {shown(shape)}")
    return tuple(map(_size, sizes))


def _size(size: int | None) -> int | None:
    if size is not None and size < 0:
        raise _value_error(f"Error converting shape to a TensorShape: Dimension {size} must be >= 0.")
    return size


def elements(shape: tuple[int, ...]) -> int:
    """Return the number of elements of a shape."""
    count = 1
    for size in shape:
        count *= size
    return count


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as text for the core."""
    return ",".join(map(str, shape))


def address_of(array: Any) -> int:
    """Return the address of an array's elements. The caller keeps the array alive."""
    return int(array.__array_interface__["data"][0]) if array.nbytes else 0


def empty(shape: tuple[int, ...], dtype: str) -> Any:
    """Return an uninitialized array for a result."""
    try:
        return numpy().empty(shape, dtype)
    except MemoryError as error:
        raise errors.ResourceExhaustedError(
            f"the host is out of memory for a result of shape {shape}: {error}"
        ) from None


# What elementwise operations on arrays have in common, with TensorFlow's errors; comparisons, which NumPy computes.

# By Python's method, without underscores: TensorFlow's name and NumPy's function.
COMPARISONS = {
    "eq": ("Equal", "equal"),
    "ne": ("NotEqual", "not_equal"),
    "lt": ("Less", "less"),
    "le": ("LessEqual", "less_equal"),
    "gt": ("Greater", "greater"),
    "ge": ("GreaterEqual", "greater_equal"),
}
# Those of bools and integers, which TensorFlow names "LogicalAnd" and "BitwiseAnd".
BITS = {"and": ("And", "bitwise_and"), "or": ("Or", "bitwise_or"), "xor": ("Xor", "bitwise_xor")}
_EQUALITY = ("Equal", "NotEqual")
_COMPARE = {kind for kind, _ in COMPARISONS.values()}
_NUMBERS = "float, double, int32"
_INTEGERS = "int8, int16, int32, int64, uint8, uint16, uint32, uint64"


def kind_of(method: str, dtype: str) -> str:
    """Return TensorFlow's name of a comparison, or of ``and``, ``or``, ``xor`` and ``invert``, for an element type."""
    if method in COMPARISONS:
        return COMPARISONS[method][0]
    if method == "invert":
        return "LogicalNot" if dtype == "bool" else "Invert"
    return f"{'Logical' if dtype == 'bool' else 'Bitwise'}{BITS[method][0]}"


def type_of_result(kind: str, dtype: str) -> str:
    """Return the type of a result. Raises InvalidArgumentError for an element type that the operation does not have.

    There is nothing but equality and logic of bools, equality and ``+`` of strings, and logic of bools and integers.
    """
    if kind in _EQUALITY:
        return "bool"
    if kind.startswith("Logical") or kind in ("All", "Any"):
        if dtype == "bool":
            return dtype
        text = f"was expected to be a bool tensor but is a {word(dtype)} tensor"
        raise errors.InvalidArgumentError(f"cannot compute {kind} as input #0(zero-based) {text} [Op:{kind}] name: ")
    bits = kind.startswith("Bitwise") or kind == "Invert"
    if (
        dtype == "bool"
        or (dtype in ("object", "string") and kind != "Add")
        or (bits and dtype.startswith(("float", "complex")))
    ):
        text = f"Value for attr 'T' of {word(dtype)} is not in the list of allowed values:"
        raise errors.InvalidArgumentError(f"{text} {_INTEGERS if bits else _NUMBERS} [Op:{kind}]")
    if kind in _COMPARE:
        return "bool"
    if kind == "RealDiv" and "int" in dtype:
        return "float32" if dtype.endswith(("int8", "int16")) else "float64"
    return dtype


def computed(kind: str, function: Callable[[Any, Any], Any], a: Any, b: Any, name: str | None = None) -> Any:
    """Compute with a function of NumPy's on two arrays. Raises InvalidArgumentError for arrays that do not fit."""
    if a.dtype != b.dtype:
        differ = f"was expected to be a {word(a.dtype.name)} tensor but is a {word(b.dtype.name)} tensor"
        text = f"cannot compute {kind} as input #1(zero-based) {differ}"
        raise errors.InvalidArgumentError(f"{text} [Op:{kind}] name: {name or ''}")
    type_of_result(kind, a.dtype.name)
    try:
        return function(a, b)
    except ValueError:
        shapes = f"{list(a.shape)} vs. {list(b.shape)}"
        raise errors.InvalidArgumentError(f"Incompatible shapes: {shapes} [Op:{kind}] name: {name or ''}") from None


def of_operator(method: str, a: Any, b: Any) -> Any:
    """Compute a comparison, or ``and``, ``or``, ``xor``. Arrays whose shapes do not fit are not equal: one bool."""
    np = numpy()
    kind = kind_of(method, a.dtype.name)
    if kind in _EQUALITY and a.dtype == b.dtype and not _fit(a, b):
        return np.asarray(kind == "NotEqual")
    _, function = COMPARISONS.get(method) or BITS[method]
    return np.asarray(computed(kind, getattr(np, function), a, b))


def _fit(a: Any, b: Any) -> bool:
    try:
        numpy().broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return True


def word(dtype: str) -> str:
    """Return TensorFlow's word for an element type."""
    return {"float16": "half", "float32": "float", "float64": "double", "object": "string"}.get(dtype, dtype)
