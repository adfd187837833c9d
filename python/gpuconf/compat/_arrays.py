# SPDX-License-Identifier: Apache-2.0
"""Arrays of TensorFlow's element types: those of the core, and others, such as int64 and strings, that only NumPy has.

Strings are bytes in an array of objects, as in TensorFlow.
"""

from __future__ import annotations

from .. import errors
from .._core.native import refuse_in_child
from .._typing import Any
from ..tensors import arrays
from ._dtypes import DType, as_dtype, by_number

# The types that the core does not have, by TensorFlow's name, with NumPy's.
_OTHERS = {
    **{name: name for name in ("float16", "int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64")},
    **{name: name for name in ("complex64", "complex128")},
    "string": "object",
}


def is_core(name: str) -> bool:
    """Whether the core has an element type."""
    return name in arrays.DTYPES


def type_name(dtype: Any) -> str:
    """Return TensorFlow's name of an element type. Raises TypeError for an unknown one."""
    dtype = by_number(dtype)
    dtype = dtype.dtype if type(dtype).__module__ == "numpy" and hasattr(dtype, "shape") else dtype  # an array's type
    name = dtype.name if isinstance(dtype, DType) else getattr(dtype, "name", None) or dtype
    if isinstance(dtype, type) and dtype.__module__ == "numpy":
        name = dtype.__name__
    if isinstance(name, str):
        name = {"half": "float16", "object": "string"}.get(name, name)
        if name in _OTHERS:
            return str(name)
    return str(arrays.dtype_of(dtype).name)


def name_of(array: Any) -> str:
    """Return TensorFlow's name of the type of an array."""
    return "string" if array.dtype.kind == "O" else str(array.dtype.name)


def zero(dtype: Any, number: int = 0) -> Any:
    """Return a number in an element type; an empty string for strings."""
    name = type_name(dtype)
    return arrays.numpy().asarray(b"" if name == "string" else number, as_dtype(name).dtype)


def array_of(value: Any, dtype: Any = None) -> Any:
    """Convert a value to an array, as ``tensors.arrays.array_of`` does, also of the types that the core does not have.

    Without ``dtype``, strings become bytes, and ints that int32 does not hold become int64, as in TensorFlow.
    """
    name = None if dtype is None else type_name(dtype)
    if name is None or is_core(name):
        try:
            return arrays.array_of(value, name)
        except (errors.InvalidTypeError, errors.InvalidArgumentError):
            other = _other(value, None) if name is None else None
            if other is not None:
                return other
            raise
    refuse_in_child()
    other = _other(value, name)
    if other is None:
        if name == "string" and type(value).__module__ == "numpy":
            kind = type(value.item(0)).__name__
            raise _invalid(f"Failed to convert a NumPy array to a Tensor (Unsupported object type {kind}).")
        if arrays.numpy().asarray(value).dtype.kind == "O":
            arrays.array_of(value)  # raises for what can become no tensor
        raise errors.InvalidTypeError(f"Cannot convert {arrays.shown(value)} to EagerTensor of dtype {name}")
    return other


def _invalid(text: str) -> Exception:
    return errors.checked_in_python(errors.InvalidArgumentError(text))


def _other(value: Any, wanted: str | None) -> Any:
    """Return an array of one of the other types; None for a value that is not of them."""
    np = arrays.numpy()
    typed = arrays.check_readable(value)
    array = _strings(value, np) if not typed or isinstance(value, np.generic) else None
    if array is None:
        array = arrays.converted(value, np)
        if array.dtype.kind in "US" and not typed:
            raise _invalid("Can't convert Python sequence with mixed types to Tensor.")
        if array.dtype.kind in "US":
            array = array.astype(object)
    whole = array.dtype.kind == "O" and all(type(each) is int for each in array.flat)
    if not typed and (whole or array.dtype == "uint64") and array.size:
        raise _invalid("Can't convert Python sequence with out-of-range integer to Tensor.")
    if wanted == "string" and not array.size:
        return np.empty(array.shape, object)
    if array.dtype.kind == "O":
        if wanted not in (None, "string") or not all(isinstance(each, (str, bytes)) for each in array.flat):
            return None
        encoded = np.empty(array.shape, object)
        encoded.flat = [each.encode() if isinstance(each, str) else each for each in array.flat]
        return encoded
    if wanted is None:
        wanted = array.dtype.name
    if wanted not in _OTHERS or wanted == "string":
        return None
    target = np.dtype(wanted)
    unnatural = target.kind in "iu" and array.dtype.kind not in "iub"
    if not typed and array.size and (unnatural or (target.kind == "f" and array.dtype.kind not in "iuf")):
        return None
    with np.errstate(all="ignore"):
        return np.asarray(array, dtype=target, order="C")


def _strings(value: Any, np: Any) -> Any:
    """Return strings as an array of objects, None for other values: NumPy would drop zeros at their ends."""
    first = value
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    if not isinstance(first, (str, bytes)):
        return None
    try:
        return np.array(value, dtype=object)
    except ValueError as error:
        raise _invalid(f"Can't convert non-rectangular Python sequence to Tensor: {error}") from None
