# SPDX-License-Identifier: Apache-2.0
"""Messages with the interface of Protocol Buffers. They cannot be serialized.

A message field holds a message from the moment it is read. Until something is set in it, that message is absent: its
``_parent`` is the message around it, which the first change makes it a part of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ... import errors
from ..._typing import Any, NoReturn
from .containers import (
    Container,
    MessageMapContainer,
    RepeatedCompositeContainer,
    RepeatedScalarContainer,
    ScalarMapContainer,
)
from .descriptors import Descriptor, FieldDescriptor, entry_name
from .enum import Enum
from .scalars import Scalar

_Value = Any  # a scalar, a Message, or one of the containers


class _Signature:
    """Makes ``inspect.signature`` show the fields of a message."""

    def __get__(self, message: Message | None, cls: type[Message]) -> Any:
        import inspect

        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature([inspect.Parameter(name, kind, default=None) for name in cls.FIELDS])


class _Described:
    """``DESCRIPTOR`` of a message."""

    def __get__(self, message: Message | None, cls: type[Message]) -> Descriptor:
        return Descriptor(cls)


class Message:
    """A message. :func:`define` gives its subclasses their fields."""

    FIELDS: dict[str, FieldDescriptor] = {}  # noqa: RUF012 - as declared
    DESCRIPTOR = _Described()
    _BY_NUMBER: tuple[FieldDescriptor, ...] = ()
    __signature__: _Signature = _Signature()

    __slots__ = ("_parent", "_values")

    _values: dict[str, _Value]
    _parent: tuple[Message, FieldDescriptor] | None  # while the message is absent from it

    def __init_subclass__(cls) -> None:
        if cls.__bases__ != (Message,):
            raise TypeError(f"A Message class can only inherit from Message, not {cls.__bases__}")

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        object.__setattr__(self, "_values", {})
        object.__setattr__(self, "_parent", None)
        if arguments:
            raise TypeError("No positional arguments allowed")
        for name, value in fields.items():
            field = self._field(name)
            if value is not None:  # None means unset
                self._fill(field, value)

    def _fill(self, field: FieldDescriptor, value: Any) -> None:
        """Set a field from an argument of the constructor."""
        if field.key is not None and field.message is not None:
            for key in _elements(field, value):
                entry = self._value(field).get_or_create(key)  # checks the key
                try:
                    each = value[key]
                except TypeError as error:
                    raise TypeError(str(error)) from None
                entry.CopyFrom(_made(field.message, each) if isinstance(each, dict) else each)
        elif field.key is not None:
            self._value(field).update(value)
        elif field.message is None:
            if field.is_repeated:
                self._value(field).extend(value)
            else:
                self._set(field, value)
        elif field.is_repeated:
            elements = _elements(field, value)
            self._value(field).extend([_made(field.message, each) for each in elements])
        else:
            self._value(field).MergeFrom(_made(field.message, value))

    def _field(self, name: Any) -> FieldDescriptor:
        if isinstance(name, bytes):
            name = name.decode(errors="replace")
        if not isinstance(name, str):
            raise ValueError(f"Expected a field name, but got non-string argument {name!r}.")
        field = self.FIELDS.get(name)
        if field is None:
            raise ValueError(self._no_field(name))
        return field

    def _no_field(self, name: str) -> str:
        if name in self._oneofs():
            return f"Expected a field name, but got oneof name {name}."
        return f'Protocol message {type(self).__name__} has no "{name}" field.{self._meant(name)}'

    def _meant(self, name: str) -> str:
        """Return a question for a name that a message inside has, or that is close to one of this message's.

        "" for others.
        """
        import difflib

        inside = (
            f"{field.name}.{name}" for field in self.FIELDS.values() if field.message and name in field.message.FIELDS
        )
        close = next(inside, None) or next(iter(difflib.get_close_matches(name, self.FIELDS, 1)), None)
        return f' Did you mean "{close}"?' if close else ""

    def _value(self, field: FieldDescriptor) -> _Value:
        """Return a field's value. A missing message, list or map is created, absent or empty."""
        if field.message is None and not field.is_repeated:
            assert field.scalar is not None
            return self._values.get(field.name, field.scalar.default)
        if field.name not in self._values:
            self._values[field.name] = self._empty(field)
        return self._values[field.name]

    def _empty(self, field: FieldDescriptor) -> _Value:
        owner = None if self._parent is None else self
        if field.key is not None:
            return (ScalarMapContainer if field.message is None else MessageMapContainer)(field, owner)
        if field.is_repeated:
            return (RepeatedScalarContainer if field.message is None else RepeatedCompositeContainer)(field, owner)
        assert field.message is not None
        message = field.message()
        object.__setattr__(message, "_parent", (self, field))
        return message

    def _set(self, field: FieldDescriptor, value: Any) -> None:
        assert field.scalar is not None
        value = field.scalar.check(value, field.where)
        self.SetInParent()
        self._leave_oneof(field)
        if field.oneof is None and field.scalar.is_default(value):
            self._values.pop(field.name, None)
        else:
            self._values[field.name] = value

    def _leave_oneof(self, chosen: FieldDescriptor) -> None:
        """Clear the other members of a field's oneof."""
        for field in self.FIELDS.values() if chosen.oneof is not None else ():
            if field.oneof == chosen.oneof and field is not chosen and self._has(field):
                self._drop(field)

    def _drop(self, field: FieldDescriptor) -> None:
        """Remove a field's value. A message, list or map lives on by itself."""
        value = self._values.pop(field.name, None)
        if value is not None and (field.message is not None or field.is_repeated):
            value._detach()

    def _detach(self) -> None:
        object.__setattr__(self, "_parent", None)

    def _is_part(self) -> bool:
        return self._parent is None

    def _has(self, field: FieldDescriptor) -> bool:
        value = self._values.get(field.name)
        if field.is_repeated:
            return bool(value)
        return value is not None and (field.message is None or value._parent is None)

    def __getattr__(self, name: str) -> Any:
        field = self.FIELDS.get(name)
        if field is None:
            raise AttributeError(self._no_field(name))
        return self._value(field)

    def __setattr__(self, name: str, value: Any) -> None:
        field = self.FIELDS.get(name)
        if field is None:
            raise AttributeError(self._no_field(name))
        if field.message is not None or field.is_repeated:
            kind = "map, or repeated" if field.is_repeated else "message"
            remedy = (
                f"change its elements in place, as with {name}.{'update' if field.key is not None else 'extend'}(...)"
            )
            remedy = remedy if field.is_repeated else f"use {name}.CopyFrom(...), or set its fields"
            raise AttributeError(
                f'Assignment not allowed to {kind} field "{name}" in protocol message object. Instead, {remedy}.'
            )
        self._set(field, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Cannot delete field attribute: use ClearField('{name}')")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.FIELDS]

    def __contains__(self, name: object) -> bool:
        return self.HasField(name)

    def HasField(self, field_name: Any) -> bool:  # noqa: N802 - Protocol Buffers' names
        """Return whether a message field, or any field in it, was set; for a oneof or a member of one, whether it is
        set.

        Raises ValueError for an unknown field, and for lists, maps and other scalars, which have no presence.
        """
        if field_name in self._oneofs():
            return self.WhichOneof(field_name) is not None
        field = self._field(field_name)
        if not field.has_presence:
            raise ValueError(f"Field {field.full_name} does not have presence.")
        return self._has(field)

    def WhichOneof(self, oneof_group: Any) -> str | None:  # noqa: N802
        """Return which field of a oneof is set, or None. Raises ValueError if there is no such oneof."""
        name = oneof_group.decode(errors="replace") if isinstance(oneof_group, bytes) else oneof_group
        if name not in self._oneofs():
            found = self._field(name)
            raise ValueError(f"Expected a oneof name, but got field name {found.name}.")
        return next((field.name for field in self.FIELDS.values() if field.oneof == name and self._has(field)), None)

    def _oneofs(self) -> list[str]:
        return [field.oneof for field in self.FIELDS.values() if field.oneof is not None]

    def ClearField(self, field_name: Any) -> None:  # noqa: N802
        """Reset a field, or the field that is set of a oneof, to its default. Raises ValueError for an unknown name."""
        if field_name in self._oneofs():
            field_name = self.WhichOneof(field_name)
            if field_name is None:
                return
        field = self._field(field_name)
        self.SetInParent()
        self._drop(field)

    def Clear(self) -> None:  # noqa: N802
        """Reset all fields to their defaults."""
        self.SetInParent()
        for field in self.FIELDS.values():
            self._drop(field)

    def SetInParent(self) -> None:  # noqa: N802
        """Mark the message as present in the message around it, even if it is empty."""
        if self._parent is not None:
            parent, field = self._parent
            self._detach()
            parent.SetInParent()
            parent._leave_oneof(field)

    def CopyFrom(self, other_msg: Any) -> None:  # noqa: N802
        """Become a copy of another message of the same type. Raises TypeError for any other object."""
        self._require_same("CopyFrom", other_msg)
        if other_msg is self:
            return
        if not other_msg._is_part():  # nothing of it is set
            self.Clear()
        else:
            self.SetInParent()
            for field in self.FIELDS.values():
                value = self._values.get(field.name)
                # Who holds an absent one keeps a part.
                if not isinstance(value, Message | Container) or value._is_part():
                    self._drop(field)
            self.MergeFrom(other_msg)

    def MergeFrom(self, other_msg: Any) -> None:  # noqa: N802
        """Set what is set in another message of the same type: scalars replace, messages merge, lists are appended.

        Raises TypeError for any other object.
        """
        self._require_same("MergeFrom", other_msg)
        if other_msg is self:
            return
        self.SetInParent()
        for field, value in other_msg.ListFields():
            if field.key is not None or field.is_repeated or field.message is not None:
                self._value(field).MergeFrom(value)
            else:
                self._set(field, value)

    def _require_same(self, method: str, other: Any) -> None:
        if type(other) is not type(self):
            text = f"Parameter to {method}() must be instance of same class: expected {type(self)} got {type(other)}."
            raise TypeError(text)

    def ListFields(self) -> list[tuple[FieldDescriptor, Any]]:  # noqa: N802
        """Return the fields that are set, ordered by their numbers, with their values."""
        return [(field, self._values[field.name]) for field in self._BY_NUMBER if self._has(field)]

    def IsInitialized(self) -> bool:  # noqa: N802
        """Return True: no field is required."""
        return True

    def FindInitializationErrors(self) -> list[str]:  # noqa: N802
        """Return []: no field is required."""
        return []

    def DiscardUnknownFields(self) -> None:  # noqa: N802
        """Do nothing: there are no unknown fields."""

    def _no_wire_format(self, *_: Any, **__: Any) -> NoReturn:
        raise errors.UnimplementedError(
            f"gpuconf's {type(self).__name__} has no wire format. Use pickle, or ListFields(); with TensorFlow "
            "installed, set the "
            "same fields of its own message"
        )

    ByteSize = _no_wire_format
    SerializeToString = _no_wire_format
    SerializePartialToString = _no_wire_format
    ParseFromString = _no_wire_format
    MergeFromString = _no_wire_format

    @classmethod
    def FromString(cls, _text: bytes) -> NoReturn:  # noqa: N802
        """Not supported; see ``SerializeToString``."""
        cls()._no_wire_format()
        raise AssertionError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message) or type(other) is not type(self):
            return NotImplemented
        ours, theirs = self.ListFields(), other.ListFields()
        return len(ours) == len(theirs) and all(
            a[0] is b[0] and _same(a[1], b[1]) for a, b in zip(ours, theirs, strict=True)
        )

    __hash__: None = None  # type: ignore[assignment]

    def __copy__(self) -> Any:
        duplicate = type(self)()
        duplicate.MergeFrom(self)
        return duplicate

    def __deepcopy__(self, _memo: Any) -> Any:
        return self.__copy__()

    def __reduce__(self) -> Any:
        return _rebuilt, (type(self), self._plain())

    def _plain(self) -> dict[str, Any]:
        """Return the fields that are set as arguments of the constructor."""
        plain: dict[str, Any] = {}
        for field, value in self.ListFields():
            if field.key is not None:
                plain[field.name] = dict(value)
            else:
                plain[field.name] = list(value) if field.is_repeated else value
        return plain

    def __repr__(self) -> str:
        return "".join(line + "\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        """Yield the lines of the text format. The entries of a map are ordered by their keys."""
        for field, value in self.ListFields():
            if field.key is not None:
                for key in sorted(value):
                    yield f"{field.name} {{"
                    yield f"  key: {field.key.shown(key)}"
                    yield from ("  " + line for line in _shown("value", field, value[key]))
                    yield "}"
                continue
            for each in list(value) if field.is_repeated else [value]:
                yield from _shown(field.name, field, each)


def _shown(name: str, field: FieldDescriptor, value: Any) -> Iterator[str]:
    if field.scalar is not None:
        yield f"{name}: {field.scalar.shown(value)}"
        return
    yield f"{name} {{"
    yield from ("  " + line for line in value._lines())
    yield "}"


def _same(a: Any, b: Any) -> bool:
    """Whether two values are equal. Unlike in Python, NaN equals NaN."""
    if isinstance(a, (RepeatedScalarContainer, RepeatedCompositeContainer)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, (ScalarMapContainer, MessageMapContainer)):
        return len(a) == len(b) and all(key in b and _same(a[key], b[key]) for key in a)
    return bool(a == b or (a != a and b != b))


def _elements(field: FieldDescriptor, value: Any) -> list[Any]:
    try:
        return list(value)
    except TypeError:
        raise TypeError(f"Argument for field {field.full_name} is not iterable") from None


def _made(message: type[Message], value: Any) -> Message:
    """Return a message from an argument of a constructor: a message of that type, or a dict of its fields."""
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise ValueError(f"Expected a field name, but got non-string argument {name!r}.")
        return message(**value)
    if type(value) is not message:
        raise TypeError(
            f"Parameter to initialize message field must be dict or instance of same class: expected {message} got "
            f"{type(value)}."
        )
    return value


def _rebuilt(message: type[Message], fields: dict[str, Any]) -> Message:
    """Load a pickle."""
    return message(**fields)


def define(
    messages: Mapping[str, str], enums: Mapping[str, str], classes: Mapping[str, type[Message]]
) -> dict[str, Any]:
    """Give messages the fields and enums of a table, and return all of them by their names.

    ``classes`` are those of the messages that have a class already. The others get one, of the module of the first of
    these.
    """
    types: dict[str, Any] = dict(classes)
    module = next(iter(classes.values())).__module__
    for name in messages:
        if name not in types:
            types[name] = _subclass(name, module, "Stored but has no effect.")
        _nest(types, name)
    for name, text in enums.items():
        members = {
            label: int(number) for label, number in (line.split(" = ") for line in text.split("\n") if line.strip())
        }
        members = {label.strip(): number for label, number in members.items()}
        types[name] = Enum(f"tensorflow.{name}", members)
        if _nest(types, name):
            for label, number in members.items():
                setattr(types[name.rpartition(".")[0]], label, number)
    for name, text in messages.items():
        _give_fields(types[name], [line.strip() for line in text.split("\n") if line.strip()], types)
    return types


def _subclass(name: str, module: str, doc: str) -> type[Message]:
    body = {"__doc__": doc, "__module__": module, "__qualname__": name, "__slots__": ()}
    return type(name.rpartition(".")[2], (Message,), body)


def _nest(types: dict[str, Any], name: str) -> bool:
    """Make a message or enum an attribute of the message that declares it."""
    outer, _, inner = name.rpartition(".")
    if outer:
        setattr(types[outer], inner, types[name])
    return bool(outer)


def _give_fields(message: type[Message], lines: list[str], types: Mapping[str, Any]) -> None:
    message.FIELDS = {}
    for line in lines:
        before, _, number = line.partition(" = ")
        oneof, _, declaration = before.rpartition(": ")
        kind, _, name = declaration.rpartition(" ")
        field = FieldDescriptor(message, len(message.FIELDS), name, int(number), oneof.removeprefix("oneof ") or None)
        if kind.startswith("map<"):
            key, kind = kind[4:-1].split(", ")
            field.is_repeated, field.key = True, Scalar(key)
            entry = _subclass(f"{message.__qualname__}.{entry_name(name)}", message.__module__, "An entry of a map.")
            _give_fields(entry, [f"{key} key = 1", f"{kind} value = 2"], types)
            setattr(message, entry_name(name), entry)
        elif kind.startswith("repeated "):
            field.is_repeated, kind = True, kind.removeprefix("repeated ")
        if isinstance(types.get(kind), Enum):
            field.scalar = Scalar("enum", types[kind])
        elif kind in types:
            field.message = types[kind]
        else:
            field.scalar = Scalar(kind)
        message.FIELDS[name] = field
        setattr(message, f"{name.upper()}_FIELD_NUMBER", field.number)
    message._BY_NUMBER = tuple(sorted(message.FIELDS.values(), key=lambda field: field.number))
