"""Messages with the interface of Protocol Buffers for setting and reading fields. They cannot be serialized."""

from __future__ import annotations

import operator
from collections.abc import Iterator, MutableMapping, MutableSequence

from ... import errors
from ..._typing import Any


class Scalar:
    """A field that is a number, a bool or a string."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.default: Any = {"bool": False, "string": "", "double": 0.0, "float": 0.0}.get(kind, 0)

    def check(self, value: Any) -> Any:
        """Return the value to store. Raises TypeError or ValueError as Protocol Buffers do."""
        if self.kind == "string":
            return self._text(value)
        if self.kind in ("double", "float"):
            return self._float(value)
        return self._int(value)

    def _text(self, value: Any) -> str:
        if isinstance(value, bytes):
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise errors.InvalidArgumentError(f"{value!r} has type bytes, but isn't valid UTF-8 encoding") from None
        if not isinstance(value, str):
            raise self._wrong(value, "bytes, str")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise errors.InvalidArgumentError(f"{value!r} has a lone surrogate and cannot be encoded") from None
        return value

    def _float(self, value: Any) -> float:
        if isinstance(value, (str, bytes)):
            raise self._wrong(value, "int, float")
        try:
            return float(value)
        except OverflowError:
            raise errors.InvalidArgumentError("Value out of range: the int is too large for a float") from None
        except (TypeError, ValueError):
            raise self._wrong(value, "int, float") from None

    def _int(self, value: Any) -> int | bool:
        if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
            value = bool(value)  # NumPy's own conversion to an index warns
        try:
            number = operator.index(value)
        except TypeError:
            raise self._wrong(value, "bool, int" if self.kind == "bool" else "int") from None
        if self.kind == "bool":
            return bool(number)
        bits = 63 if self.kind == "int64" else 31
        if not -(1 << bits) <= number < 1 << bits:
            shown = number if number.bit_length() <= 128 else f"a number of {number.bit_length()} bits"
            raise errors.InvalidArgumentError(f"Value out of range: {shown}")
        return number

    def _wrong(self, value: Any, wanted: str) -> errors.InvalidTypeError:
        shown = repr(value)
        shown = shown if len(shown) <= 100 else shown[:100] + "..."
        return errors.InvalidTypeError(f"{shown} has type {type(value).__name__}, but expected one of: {wanted}")


class Sub:
    """A field that is a message."""

    def __init__(self, message: type[Message]) -> None:
        self.message = message


class Repeated:
    """A field that is a list of scalars or messages."""

    def __init__(self, element: Scalar | Sub) -> None:
        self.element = element


class Mapping:
    """A field that maps strings to scalars."""

    def __init__(self, value: Scalar) -> None:
        self.value = value


Field = Scalar | Sub | Repeated | Mapping


class ScalarList(MutableSequence):  # type: ignore[type-arg]
    """A repeated field of scalars."""

    def __init__(self, kind: Scalar) -> None:
        self._kind = kind
        self._values: list[Any] = []

    def __getitem__(self, index: Any) -> Any:
        return self._values[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._values[index] = [self._kind.check(v) for v in value] if isinstance(index, slice) else self._kind.check(value)

    def __delitem__(self, index: Any) -> None:
        del self._values[index]

    def __len__(self) -> int:
        return len(self._values)

    def insert(self, index: int, value: Any) -> None:
        """Insert a value before ``index``."""
        self._values.insert(index, self._kind.check(value))

    def extend(self, values: Any) -> None:
        """Append all values, or none if one is invalid."""
        self._values += [self._kind.check(v) for v in values]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (ScalarList, list, tuple)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._values)


class MessageList(MutableSequence):  # type: ignore[type-arg]
    """A repeated field of messages."""

    def __init__(self, message: type[Message]) -> None:
        self._message = message
        self._values: list[Message] = []

    def __getitem__(self, index: Any) -> Any:
        return self._values[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        raise errors.InvalidTypeError("'RepeatedCompositeContainer' object does not support item assignment")

    def __delitem__(self, index: Any) -> None:
        del self._values[index]

    def __len__(self) -> int:
        return len(self._values)

    def add(self, **fields: Any) -> Any:
        """Append a new message and return it."""
        self._values.append(self._message(**fields))
        return self._values[-1]

    def insert(self, index: int, value: Any) -> None:
        """Insert a copy of a message before ``index``."""
        self._values.insert(index, copied(self._message, value))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (MessageList, list, tuple)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._values)


class ScalarMap(MutableMapping):  # type: ignore[type-arg]
    """A map field. As in Protocol Buffers, reading a missing key inserts it with the default value."""

    def __init__(self, kind: Scalar) -> None:
        self._kind = kind
        self._values: dict[str, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        return self._values.setdefault(_TEXT.check(key), self._kind.default)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[_TEXT.check(key)] = self._kind.check(value)

    def __delitem__(self, key: Any) -> None:
        del self._values[key]

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or ``default``."""
        return self._values.get(key, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return dict(self) == dict(other) if isinstance(other, (ScalarMap, dict)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._values)


_TEXT = Scalar("string")


class _Signature:
    """Makes ``inspect.signature`` show the fields of a message."""

    def __get__(self, message: Message | None, cls: type[Message]) -> Any:
        import inspect

        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature([inspect.Parameter(name, kind, default=None) for name in cls.FIELDS])


class Message:
    """A message. Subclasses define their fields in ``FIELDS``."""

    FIELDS: dict[str, Field] = {}  # noqa: RUF012
    __signature__ = _Signature()

    __slots__ = ("_set", "_values")

    _values: dict[str, Any]
    _set: set[str]  # the message fields that were set explicitly, even if empty

    def __init__(self, **fields: Any) -> None:
        object.__setattr__(self, "_values", {})
        object.__setattr__(self, "_set", set())
        for name, value in fields.items():
            field = self.FIELDS.get(name)
            if field is None:
                raise errors.InvalidArgumentError(f'Protocol message {type(self).__name__} has no "{name}" field.')
            if value is not None:  # None means unset
                self._fill(name, field, value)

    def _fill(self, name: str, field: Field, value: Any) -> None:
        if isinstance(field, Scalar):
            self._values[name] = field.check(value)
        elif isinstance(field, Sub):
            self._values[name] = copied(field.message, value)
            self._set.add(name)
        elif isinstance(field, Repeated):
            getattr(self, name).extend(_all(list, name, value))
        else:
            getattr(self, name).update(_all(dict, name, value))

    def __getattr__(self, name: str) -> Any:
        field = self.FIELDS.get(name)
        if field is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        if isinstance(field, Scalar):
            return self._values.get(name, field.default)
        if name not in self._values:
            self._values[name] = _empty(field)
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        field = self.FIELDS.get(name)
        if field is None:
            raise AttributeError(f'Assignment not allowed (no field "{name}" in protocol message object).')
        if not isinstance(field, Scalar):
            raise AttributeError(f'Assignment not allowed to message, map, or repeated field "{name}" in protocol message object.')
        self._values[name] = field.check(value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a field cannot be deleted: use ClearField('{name}')")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.FIELDS]

    def HasField(self, field_name: str) -> bool:  # noqa: N802 - Protocol Buffers' name
        """Return whether a message field, or any field in it, was set."""
        field = self.FIELDS.get(field_name)
        if not isinstance(field, Sub):
            raise errors.InvalidArgumentError(
                f"Protocol message {type(self).__name__} has no singular message field {field_name!r}"
            )
        return field_name in self._set or (field_name in self._values and not self._values[field_name]._is_empty())

    def ClearField(self, field_name: str) -> None:  # noqa: N802
        """Reset a field to its default."""
        if field_name not in self.FIELDS:
            raise errors.InvalidArgumentError(f'Protocol message {type(self).__name__} has no "{field_name}" field.')
        self._values.pop(field_name, None)
        self._set.discard(field_name)

    def Clear(self) -> None:  # noqa: N802
        """Reset all fields to their defaults."""
        self._values.clear()
        self._set.clear()

    def CopyFrom(self, other_msg: Any) -> None:  # noqa: N802
        """Become a copy of another message of the same type."""
        if other_msg is not self:
            self._require_same(other_msg)
            self.Clear()
            self.MergeFrom(other_msg)

    def MergeFrom(self, other_msg: Any) -> None:  # noqa: N802
        """Copy the set fields of another message of the same type. Lists are appended."""
        self._require_same(other_msg)
        for name, value in list(other_msg._values.items()):
            field = self.FIELDS[name]
            if isinstance(field, Scalar):
                if value != field.default:
                    self._values[name] = value
            elif isinstance(field, Sub):
                if other_msg.HasField(name):
                    getattr(self, name).MergeFrom(value)
                    self._set.add(name)
            elif isinstance(field, Mapping):
                getattr(self, name).update(value)
            else:
                getattr(self, name).extend(list(value))

    def _require_same(self, other: Any) -> None:
        if type(other) is not type(self):
            own, theirs = type(self).__name__, type(other).__name__
            raise errors.InvalidTypeError(f"Parameter to MergeFrom() must be instance of same class: expected {own} got {theirs}.")

    def _is_empty(self) -> bool:
        return not any(True for _ in self._nondefault_fields())

    def _nondefault_fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the fields whose values differ from their defaults, in the order of ``FIELDS``."""
        for name, field in self.FIELDS.items():
            value = self._values.get(name)
            if isinstance(field, Sub):
                if self.HasField(name):
                    yield name, value
            elif value is not None and (len(value) if not isinstance(field, Scalar) else value != field.default):
                yield name, value

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return list(self._nondefault_fields()) == list(other._nondefault_fields())

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: Any) -> Any:
        return copied(type(self), self)

    def __copy__(self) -> Any:
        return copied(type(self), self)

    def __reduce__(self) -> Any:
        raise errors.InvalidTypeError(f"{type(self).__name__} cannot be pickled: gpuconf's messages do not support serialization")

    def __repr__(self) -> str:
        return "".join(line + "\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for name, value in self._nondefault_fields():
            field = self.FIELDS[name]
            if isinstance(field, Mapping):
                for key in sorted(value):
                    yield from (f"{name} {{", f'  key: "{key}"', f"  value: {_shown(value[key])}", "}")
                continue
            for each in value if isinstance(field, Repeated) else [value]:
                if isinstance(each, Message):
                    yield from (f"{name} {{", *(f"  {line}" for line in each._lines()), "}")
                else:
                    yield f"{name}: {_shown(each)}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if isinstance(value, str) else str(value)


def _all(kind: Any, name: str, value: Any) -> Any:
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise errors.InvalidTypeError(f"{name} must be a {kind.__name__}, but got {type(value).__name__}") from None


def _empty(field: Field) -> Any:
    if isinstance(field, Sub):
        return field.message()
    if isinstance(field, Mapping):
        return ScalarMap(field.value)
    assert isinstance(field, Repeated)
    return MessageList(field.element.message) if isinstance(field.element, Sub) else ScalarList(field.element)


def copied(message: type[Message], value: Any) -> Message:
    """Return a new message from a message of the same type or a dict of fields."""
    if isinstance(value, dict):
        return message(**value)
    if not isinstance(value, message):
        raise errors.InvalidTypeError(
            f"Parameter must be a {message.__name__} or a dict, but got {type(value).__name__}: {value!r}"
        )
    fresh = message()
    fresh.MergeFrom(value)
    return fresh
