# SPDX-License-Identifier: Apache-2.0
"""``tf.DType``: the element types by TensorFlow's names. Tensors can have float32, float64, int32 and bool only."""

from __future__ import annotations

from collections.abc import Hashable

from .._typing import Any
from ._names import publish

# By name: TensorFlow's number, NumPy's name, and the kind.
_KNOWN = {
    "float16": (19, "float16", "f"),
    "float32": (1, "float32", "f"),
    "float64": (2, "float64", "f"),
    "bfloat16": (14, "", "f"),
    "int8": (6, "int8", "i"),
    "int16": (5, "int16", "i"),
    "int32": (3, "int32", "i"),
    "int64": (9, "int64", "i"),
    "uint8": (4, "uint8", "u"),
    "uint16": (17, "uint16", "u"),
    "uint32": (22, "uint32", "u"),
    "uint64": (23, "uint64", "u"),
    "bool": (10, "bool", "b"),
    "complex64": (8, "complex64", "c"),
    "complex128": (18, "complex128", "c"),
    "string": (7, "object", "O"),
}
ALIASES = {"half": "float16", "float": "float32", "double": "float64"}
_BY_NUMBER: dict[Hashable, str] = {number: name for name, (number, *_) in _KNOWN.items()}
NAMES = (*_KNOWN, "half", "double")


def _is(kinds: str, text: str) -> Any:
    """Return a property: whether a type is of one of these kinds."""

    def is_of_kind(self: DType) -> bool:
        return self.kind in kinds

    return property(is_of_kind, doc=f"Whether it is {text}.")


class DType:
    """An element type. It equals its name and NumPy's type."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        name = ALIASES.get(name, name)
        if name not in _KNOWN:
            raise TypeError(f"Cannot convert the argument `type_value`: {name!r} to a TensorFlow DType.")
        self._name = name

    @property
    def name(self) -> str:
        """The name, such as ``"float32"``."""
        return self._name

    @property
    def as_datatype_enum(self) -> int:
        """TensorFlow's number of the type."""
        return _KNOWN[self._name][0]

    @property
    def dtype(self) -> Any:
        """NumPy's dtype. NumPy accepts every object that has this attribute as a dtype."""
        from ..tensors import arrays

        text = _KNOWN[self._name][1]
        if not text:
            raise TypeError(f"NumPy does not have {self._name}")
        return arrays.numpy().dtype(text)

    @property
    def as_numpy_dtype(self) -> Any:
        """NumPy's type, such as ``numpy.float32``."""
        return self.dtype.type

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return 2 if self._name == "bfloat16" else 1 if self._name == "string" else int(self.dtype.itemsize)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.size

    @property
    def kind(self) -> str:
        """NumPy's letter for the kind of type, such as ``"f"``."""
        return _KNOWN[self._name][2]

    is_floating = _is("f", "a (non-quantized, real) floating point type")
    is_integer = _is("iu", "a (non-quantized) integer type")
    is_bool = _is("b", "a boolean type")
    is_complex = _is("c", "a complex floating point type")
    is_unsigned = _is("u", "an unsigned integer type")

    @property
    def base_dtype(self) -> DType:
        """The type itself: gpuconf has no references."""
        return self

    @property
    def min(self) -> Any:
        """The smallest number of the type."""
        return self._limits().min

    @property
    def max(self) -> Any:
        """The largest number of the type."""
        return self._limits().max

    def _limits(self) -> Any:
        from ..tensors import arrays

        np = arrays.numpy()
        return np.finfo(self.dtype) if self.is_floating else np.iinfo(self.dtype)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self._name == other._name
        try:
            return other is not None and self._name == as_dtype(other)._name
        except (TypeError, ValueError):
            return False

    def __hash__(self) -> int:
        return hash(self._name)

    def __int__(self) -> int:
        return self.as_datatype_enum

    def __repr__(self) -> str:
        return f"tf.{self._name}"

    def __str__(self) -> str:
        return f"<dtype: '{self._name}'>"

    def __reduce__(self) -> Any:
        return as_dtype, (self._name,)


_made: dict[str, DType] = {}


def by_number(value: Any) -> Any:
    """Return the name of a type for TensorFlow's number of it, and the type of an array; another value as it is.

    Raises TypeError for a tensor or a variable, which is no type although it has one.
    """
    if hasattr(value, "dtype") and type(value).__module__.startswith("gpuconf") and not isinstance(value, DType):
        from ..tensors import arrays

        text = f"Cannot convert the argument `type_value`: {arrays.shown(value)} to a TensorFlow DType."
        raise TypeError(text)
    if type(value).__module__ == "numpy" and not isinstance(value, Hashable):
        return value.dtype  # of an array
    return "string" if value is object else _BY_NUMBER.get(value, value) if isinstance(value, Hashable) else value


def as_dtype(type_value: Any) -> DType:
    """Return the type for a name, a NumPy type, or a type of gpuconf. Raises TypeError for anything else.

    >>> as_dtype("float").is_floating
    True
    """
    if isinstance(type_value, DType):
        return type_value
    type_value = by_number(type_value)
    if type_value is float:
        type_value = "float32"
    elif isinstance(type_value, type) and type_value in (int, bool):
        type_value = {int: "int32", bool: "bool"}[type_value]
    if not isinstance(type_value, str):
        from ..tensors import arrays

        try:
            type_value = arrays.numpy().dtype(type_value).name
        except TypeError:
            raise TypeError(
                f"Cannot convert the argument `type_value`: {arrays.shown(type_value)} to a TensorFlow DType."
            ) from None
    name = ALIASES.get(type_value, type_value)
    if name not in _made:
        _made[name] = DType(name)
    return _made[name]


def __getattr__(name: str) -> DType:
    """Return a type by its name in TensorFlow, such as ``float32``."""
    if name in NAMES:
        return as_dtype(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


publish(__name__)
