# SPDX-License-Identifier: Apache-2.0
"""What elementwise operations on arrays have in common, with TensorFlow's errors; comparisons, which NumPy computes."""

from __future__ import annotations

from collections.abc import Callable

from .. import errors
from .._typing import Any
from . import arrays

# By Python's method, without underscores: TensorFlow's name and NumPy's function.
COMPARISONS = {
    "eq": ("Equal", "equal"),
    "ne": ("NotEqual", "not_equal"),
    "lt": ("Less", "less"),
    "le": ("LessEqual", "less_equal"),
    "gt": ("Greater", "greater"),
    "ge": ("GreaterEqual", "greater_equal"),
}
_EQUALITY = ("Equal", "NotEqual")
_COMPARE = {kind for kind, _ in COMPARISONS.values()}


def type_of_result(kind: str, dtype: str) -> str:
    """Return the type of a result. Raises InvalidArgumentError for bools, of which there is nothing but equality."""
    if dtype == "bool" and kind not in _EQUALITY:
        text = "Value for attr 'T' of bool is not in the list of allowed values: float, double, int32"
        raise errors.InvalidArgumentError(f"{text} [Op:{kind}]")
    if kind in _COMPARE:
        return "bool"
    return "float64" if kind == "RealDiv" and dtype == "int32" else dtype


def computed(kind: str, function: Callable[[Any, Any], Any], a: Any, b: Any, name: str | None = None) -> Any:
    """Compute with a function of NumPy's on two arrays. Raises InvalidArgumentError for arrays that do not fit."""
    if a.dtype != b.dtype:
        differ = f"was expected to be a {_word(a)} tensor but is a {_word(b)} tensor"
        text = f"cannot compute {kind} as input #1(zero-based) {differ}"
        raise errors.InvalidArgumentError(f"{text} [Op:{kind}] name: {name or ''}")
    type_of_result(kind, a.dtype.name)
    try:
        return function(a, b)
    except ValueError:
        shapes = f"{list(a.shape)} vs. {list(b.shape)}"
        raise errors.InvalidArgumentError(f"Incompatible shapes: {shapes} [Op:{kind}] name: {name or ''}") from None


def compared(method: str, a: Any, b: Any) -> Any:
    """Compare two arrays, elementwise. Arrays whose shapes do not fit are not equal, which is one bool."""
    np = arrays.numpy()
    kind, function = COMPARISONS[method]
    if kind in _EQUALITY and a.dtype == b.dtype and not _fit(a, b):
        return np.asarray(kind == "NotEqual")
    return np.asarray(computed(kind, getattr(np, function), a, b))


def _fit(a: Any, b: Any) -> bool:
    try:
        arrays.numpy().broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return True


def _word(array: Any) -> str:
    name = str(array.dtype.name)
    return {"float32": "float", "float64": "double"}.get(name, name)
