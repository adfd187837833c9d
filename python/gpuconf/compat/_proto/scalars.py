# SPDX-License-Identifier: Apache-2.0
"""The scalar types of Protocol Buffers: which values they accept, and how they print."""

from __future__ import annotations

import math
import operator
import struct

from ..._typing import Any
from .enum import Enum

_RANGES = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "enum": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint32": (0, (1 << 32) - 1),
    "uint64": (0, (1 << 64) - 1),
    "fixed64": (0, (1 << 64) - 1),
}
_NAMES = {
    "string": "a str, or bytes in UTF-8",
    "bytes": "bytes",
    "bool": "a bool",
    "double": "a number",
    "float": "a number",
    "uint32": "a uint32",
    "uint64": "a uint64",
    "fixed64": "a fixed64",
}
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}


class Scalar:
    """A scalar type, such as ``"int32"`` or an enum."""

    __slots__ = ("default", "enum", "kind")

    def __init__(self, kind: str, enum: Enum | None = None) -> None:
        self.kind = kind
        self.enum = enum
        self.default: Any = {"bool": False, "string": "", "bytes": b"", "double": 0.0, "float": 0.0}.get(kind, 0)
        if enum is not None:
            self.default = enum.values()[0]

    def check(self, value: Any, where: str) -> Any:
        """Return the value to store in the field ``where``.

        Raises TypeError, ValueError or OverflowError with the text of Protocol Buffers, followed by the field.
        """
        if self.kind in _RANGES:
            return self._integer(value, where)
        if self.kind == "bool":
            return self._bool(value, where)
        if self.kind == "string":
            return self._string(value, where)
        if self.kind == "bytes":
            if not isinstance(value, bytes):
                raise self._wrong(f"expected bytes, {type(value).__name__} found", where)
            return bytes(value)
        return self._real(value, where)

    def is_default(self, value: Any) -> bool:
        """Whether a value is stored as absent. -0.0 is not."""
        return value == self.default and not (isinstance(value, float) and math.copysign(1.0, value) < 0)

    def shown(self, value: Any) -> str:
        """Return a value as the text format shows it."""
        if self.enum is not None:
            return self.enum.shown(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return self._shown_real(value)
        if isinstance(value, bytes):
            return (
                '"' + "".join(f"\\{ord(c):03o}" if c >= "\x80" else _escaped(c) for c in value.decode("latin-1")) + '"'
            )
        return '"' + "".join(map(_escaped, value)) + '"' if isinstance(value, str) else str(value)

    def _integer(self, value: Any, where: str) -> int:
        if isinstance(value, bool):
            raise self._wrong(f"Field tensorflow.{where}: Expected an int, got a boolean.", where)
        if self.enum is not None and isinstance(value, str):
            return self.enum.labelled(self._string(value, where))
        low, high = _RANGES[self.kind]
        number = self._index(value, where)
        if not low <= number <= high:
            shown = number if number.bit_length() <= 2000 else f"a number of {number.bit_length()} bits"
            raise ValueError(f"Value out of range: {shown} ({where} takes {self._name()})")
        return number

    def _bool(self, value: Any, where: str) -> bool:
        if _is_array(value):
            raise self._wrong(f"{value} has type ndarray, but expected one of: bool", where)
        number = self._index(value, where)
        if not -(1 << 63) <= number < 1 << 63:
            raise OverflowError(f"Python int too large to convert to C long ({where} takes a bool)")
        return bool(number)

    def _index(self, value: Any, where: str) -> int:
        if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
            value = bool(value)  # NumPy's own conversion to an index warns
        try:
            return operator.index(value)
        except TypeError as error:
            text = (
                str(error)
                if _is_array(value)
                else f"'{_name_of(type(value))}' object cannot be interpreted as an integer"
            )
            raise self._wrong(text, where) from None

    def _string(self, value: Any, where: str) -> str:
        if not isinstance(value, (str, bytes)):
            raise self._wrong("bad argument type for built-in operation", where)
        try:
            if isinstance(value, bytes):
                return value.decode()
            value.encode()
        except UnicodeError as error:
            raise ValueError(f"{error} ({where} takes {self._name()})") from None
        return str(value)

    def _real(self, value: Any, where: str) -> float:
        if _is_array(value):
            raise self._wrong(f"{value} has type ndarray, but expected one of: {self.kind}", where)
        if isinstance(value, (str, bytes, bytearray)):
            raise self._wrong(f"must be real number, not {type(value).__name__}", where)
        try:
            number = float(value)
        except OverflowError as error:
            raise OverflowError(f"{error} ({where} takes {self._name()})") from None
        except (TypeError, ValueError):
            raise self._wrong(f"must be real number, not {_name_of(type(value))}", where) from None
        return number if self.kind == "double" else _to_float32(number)

    def _shown_real(self, value: float) -> str:
        if self.kind == "double":
            short = f"{value:.15g}"
            return short if float(short) == value or value != value else f"{value:.17g}"
        short = f"{value:.6g}"
        return short if _to_float32(float(short)) == value or value != value else f"{value:.9g}"

    def _name(self) -> str:
        names = {
            "string": "a str, or bytes in UTF-8",
            "double": "a number",
            "float": "a number",
            "bytes": "bytes",
            "bool": "a bool",
        }
        return "a value of the enum" if self.enum is not None else names.get(self.kind, f"an {self.kind}")

    def _wrong(self, text: str, where: str) -> TypeError:
        return TypeError(f"{text} ({where} takes {self._name()})")


def _name_of(kind: type) -> str:
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"


def _to_float32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return f"\\{ord(character):03o}" if character < " " or character == "\x7f" else character
