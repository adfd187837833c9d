# SPDX-License-Identifier: Apache-2.0
"""Messages with the interface of Protocol Buffers, which are made from a table of their fields, ``messages.proto``.

A message field holds a message from the moment it is read. Until something is set in it, that message is absent: its
``_parent`` is the message around it, which the first change makes it a part of.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from .._missing import closest
from .._typing import Any
from ._fields import (
    Container,
    Enum,
    Field,
    MessageMapContainer,
    RepeatedCompositeContainer,
    RepeatedScalarContainer,
    ScalarMapContainer,
)


class Descriptor:
    """A message: its name and its fields."""

    def __init__(self, message: type[Message]) -> None:
        self._concrete_class = message
        self.name = message.__name__
        self.full_name = f"tensorflow.{message.__qualname__}"
        self.fields = list(message.FIELDS.values())
        self.fields_by_name = dict(message.FIELDS)
        self.fields_by_number = {field.number: field for field in self.fields}
        inner = vars(message).items()
        self.enum_types_by_name = {name: value for name, value in inner if isinstance(value, Enum)}
        self.nested_types_by_name = {name: Descriptor(value) for name, value in inner if hasattr(value, "FIELDS")}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descriptor) and self._concrete_class is other._concrete_class

    def __hash__(self) -> int:
        return hash(self._concrete_class)

    def __repr__(self) -> str:
        return f"<Descriptor {self.full_name}>"


class _OfClass:
    """An attribute of a message class that is made when it is read."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __get__(self, message: Message | None, cls: type[Message]) -> Any:
        return self._make(cls)


def _signature(cls: type[Message]) -> Any:
    """Return what ``inspect.signature`` shows: the fields."""
    import inspect

    return inspect.Signature([inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None) for n in cls.FIELDS])


class Message:
    """A message. :func:`messages_of` makes its subclasses."""

    FIELDS: dict[str, Field] = {}  # noqa: RUF012 - as declared
    DESCRIPTOR = _OfClass(Descriptor)
    _BY_NUMBER: tuple[Field, ...] = ()
    __signature__: _OfClass = _OfClass(_signature)

    __slots__ = ("_parent", "_values")

    _values: dict[str, Any]  # scalars, messages and containers
    _parent: tuple[Message, Field] | None  # while the message is absent from it

    def __init_subclass__(cls) -> None:
        if cls.__bases__ != (Message,):
            raise TypeError(f"A Message class can only inherit from Message, not {cls.__bases__}")

    @classmethod
    def nested(cls, name: str, doc: str) -> type[Message]:
        """Make a message that is declared in this one."""
        body = {
            "__doc__": doc,
            "__module__": cls.__module__,
            "__qualname__": f"{cls.__qualname__}.{name}",
            "__slots__": (),
        }
        made = type(name, (Message,), body)
        setattr(cls, name, made)
        return made

    @classmethod
    def give_fields(cls, rows: Iterable[tuple[str, int, str, str | None]], types: dict[str, Any]) -> None:
        """Give the class its fields: name, number, type, oneof. ``types`` are the messages and enums by their names."""
        cls.FIELDS = {}
        for name, number, kind, oneof in rows:
            cls.FIELDS[name] = Field(cls, name, number, kind, oneof, types)
            setattr(cls, f"{name.upper()}_FIELD_NUMBER", number)
        cls._BY_NUMBER = tuple(sorted(cls.FIELDS.values(), key=lambda field: field.number))

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        object.__setattr__(self, "_values", {})
        object.__setattr__(self, "_parent", None)
        if arguments:
            raise TypeError("No positional arguments allowed")
        for name, value in fields.items():
            field = self._field(name)
            if value is not None:  # None means unset
                self._fill(field, value)

    def _fill(self, field: Field, value: Any) -> None:
        """Set a field from an argument of the constructor."""
        if field.message is None:
            if field.key is not None:
                self._value(field).update(value)
            elif field.is_repeated:
                self._value(field).extend(value)
            else:
                self._set(field, value)
        elif field.key is not None:
            for key in _elements(field, value):
                entry = self._value(field).get_or_create(key)  # checks the key
                try:
                    each = value[key]
                except TypeError as error:
                    raise TypeError(str(error)) from None
                entry.CopyFrom(_made(field, each) if isinstance(each, dict) else each)
        elif field.is_repeated:
            elements = _elements(field, value)
            self._value(field).extend([_made(field, each) for each in elements])
        else:
            self._value(field).MergeFrom(_made(field, value))

    def _field(self, name: Any) -> Field:
        if isinstance(name, bytes):
            name = name.decode(errors="replace")
        if not isinstance(name, str):
            raise ValueError(f"Expected a field name, but got non-string argument {name!r}.")
        if name not in self.FIELDS:
            raise ValueError(self._no_field(name))
        return self.FIELDS[name]

    def _no_field(self, name: str) -> str:
        """Return the text of an error, with a question for a name that a message inside has, or that is close."""
        if name in self._oneofs():
            return f"Expected a field name, but got oneof name {name}."
        inside = [
            f"{each.name}.{name}" for each in self.FIELDS.values() if each.message and name in each.message.FIELDS
        ]
        close = next(iter(inside), "") or closest(name, self.FIELDS)
        meant = close and f' Did you mean "{close}"?'
        return f'Protocol message {type(self).__name__} has no "{name}" field.{meant}'

    def _value(self, field: Field) -> Any:
        """Return a field's value. A missing message, list or map is created, absent or empty."""
        if field.message is None and not field.is_repeated:
            return self._values.get(field.name, field.default)
        if field.name not in self._values:
            owner = None if self._parent is None else self
            made: Any
            if field.key is not None:
                made = (ScalarMapContainer if field.message is None else MessageMapContainer)(field, owner)
            elif field.is_repeated:
                made = (RepeatedScalarContainer if field.message is None else RepeatedCompositeContainer)(field, owner)
            else:
                made = field.message()
                object.__setattr__(made, "_parent", (self, field))
            self._values[field.name] = made
        return self._values[field.name]

    def _set(self, field: Field, value: Any) -> None:
        value = field.check(value)
        self.SetInParent()
        self._leave_oneof(field)
        if field.oneof is None and field.is_default(value):
            self._values.pop(field.name, None)
        else:
            self._values[field.name] = value

    def _leave_oneof(self, chosen: Field) -> None:
        """Clear the other members of a field's oneof."""
        for field in self.FIELDS.values() if chosen.oneof is not None else ():
            if field.oneof == chosen.oneof and field is not chosen and self._has(field):
                self._drop(field)

    def _drop(self, field: Field) -> None:
        """Remove a field's value. A message, list or map lives on by itself."""
        value = self._values.pop(field.name, None)
        if isinstance(value, Message | Container):
            value._detach()

    def _detach(self) -> None:
        object.__setattr__(self, "_parent", None)

    def _is_part(self) -> bool:
        return self._parent is None

    def _has(self, field: Field) -> bool:
        value = self._values.get(field.name)
        if field.is_repeated:
            return bool(value)
        return value is not None and (field.message is None or value._parent is None)

    def __getattr__(self, name: str) -> Any:
        if name not in self.FIELDS:
            raise AttributeError(self._no_field(name))
        return self._value(self.FIELDS[name])

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.FIELDS:
            raise AttributeError(self._no_field(name))
        field = self.FIELDS[name]
        if field.message is None and not field.is_repeated:
            self._set(field, value)
            return
        kind, remedy = "message", f"use {name}.CopyFrom(...), or set its fields"
        if field.is_repeated:
            method = "extend" if field.key is None else "update"
            kind, remedy = "map, or repeated", f"change its elements in place, as with {name}.{method}(...)"
        raise AttributeError(
            f'Assignment not allowed to {kind} field "{name}" in protocol message object. Instead, {remedy}.'
        )

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
            raise ValueError(f"Expected a oneof name, but got field name {self._field(name).name}.")
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
            return
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
            if field.is_repeated or field.message is not None:
                self._value(field).MergeFrom(value)
            else:
                self._set(field, value)

    def _require_same(self, method: str, other: Any) -> None:
        if type(other) is not type(self):
            text = f"Parameter to {method}() must be instance of same class: expected {type(self)} got {type(other)}."
            raise TypeError(text)

    def ListFields(self) -> list[tuple[Field, Any]]:  # noqa: N802
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

    def SerializeToString(self, **options: Any) -> bytes:  # noqa: N802
        """Return the message in its wire format. Raises MissingPackageError without protobuf."""
        from ._wire import class_of, transfer

        theirs = class_of(type(self))()
        transfer(self, theirs, type(self))
        serialized: bytes = theirs.SerializeToString(**options)
        return serialized

    SerializePartialToString = SerializeToString

    def ByteSize(self) -> int:  # noqa: N802
        """Return the length of the wire format. Raises MissingPackageError without protobuf."""
        return len(self.SerializeToString())

    def MergeFromString(self, serialized: bytes) -> int:  # noqa: N802
        """Set what is set in a message in its wire format, without unknown fields, and return the length of that.

        Raises protobuf's DecodeError for anything else, and MissingPackageError without protobuf.
        """
        from ._wire import class_of, transfer

        theirs = class_of(type(self)).FromString(serialized)
        self.SetInParent()
        transfer(theirs, self, type(self))
        return len(serialized)

    def ParseFromString(self, serialized: bytes) -> int:  # noqa: N802
        """Become a message in its wire format. Raises the same errors."""
        made = type(self).FromString(serialized)
        self.CopyFrom(made)
        return len(serialized)

    @classmethod
    def FromString(cls, text: bytes) -> Any:  # noqa: N802
        """Return a message in its wire format. Raises the same errors."""
        made = cls()
        made.MergeFromString(text)
        return made

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
        plain = {
            field.name: dict(value) if field.key is not None else list(value) if field.is_repeated else value
            for field, value in self.ListFields()
        }
        return _rebuilt, (type(self), plain)

    def __repr__(self) -> str:
        return "".join(line + "\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        """Yield the lines of the text format. The entries of a map are ordered by their keys."""
        for field, value in self.ListFields():
            if field.key is None:
                for each in list(value) if field.is_repeated else [value]:
                    yield from _shown(field.name, field, each)
                continue
            for key in sorted(value):
                yield f"{field.name} {{"
                yield f"  key: {field.key.shown(key)}"
                yield from ("  " + line for line in _shown("value", field, value[key]))
                yield "}"


def _shown(name: str, field: Field, value: Any) -> Iterator[str]:
    if field.message is None:
        yield f"{name}: {field.shown(value)}"
        return
    yield f"{name} {{"
    yield from ("  " + line for line in value._lines())
    yield "}"


def _same(a: Any, b: Any) -> bool:
    """Whether two values are equal. Unlike in Python, NaN equals NaN."""
    if isinstance(a, (RepeatedScalarContainer, RepeatedCompositeContainer)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Container):
        return len(a) == len(b) and all(key in b and _same(a._values[key], b[key]) for key in a)
    return bool(a == b or (a != a and b != b))


def _elements(field: Field, value: Any) -> list[Any]:
    try:
        return list(value)
    except TypeError:
        raise TypeError(f"Argument for field {field.full_name} is not iterable") from None


def _made(field: Field, value: Any) -> Any:
    """Return a message from an argument of a constructor: a message of the field's type, or a dict of its fields."""
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise ValueError(f"Expected a field name, but got non-string argument {name!r}.")
        return field.message(**value)
    if type(value) is not field.message:
        raise TypeError(
            "Parameter to initialize message field must be dict or instance of same class: expected "
            f"{field.message} got {type(value)}."
        )
    return value


def _rebuilt(message: type[Message], fields: dict[str, Any]) -> Message:
    """Load a pickle."""
    return message(**fields)


def messages_of(module: str, file: str) -> dict[str, Any]:
    """Return the messages and enums of a file in the language of Protocol Buffers, as classes of a module.

    The comment before a message is its docstring.
    """
    types: dict[str, Any] = {}
    rows: dict[str, list[tuple[str, int, str, str | None]]] = {}
    open_blocks: list[tuple[str, str]] = []  # innermost last: the word that opens it, and the full name
    members: dict[str, int] = {}  # of the enum that is open
    comment: list[str] = []
    with open(os.path.join(os.path.dirname(__file__), file), encoding="utf-8") as lines:
        for line in map(str.strip, lines):
            word, _, rest = line.partition(" ")
            if word == "//":
                comment.append(rest)
                continue
            block, outer = open_blocks[-1] if open_blocks else ("", "")
            if line.endswith("{"):
                name = rest.removesuffix(" {")
                full = f"{outer}.{name}" if outer and word != "oneof" else name
                open_blocks.append((word, full))
                if word == "message":
                    rows[full], doc = [], "\n".join(comment) or "Stored but has no effect."
                    body = {"__doc__": doc, "__module__": module, "__slots__": ()}
                    types[full] = types[outer].nested(name, doc) if outer else type(name, (Message,), body)
                members = {}
            elif line == "}":
                open_blocks.pop()
                if block == "enum":
                    types[outer] = Enum(f"tensorflow.{outer}", members)
                    above, _, name = outer.rpartition(".")
                    for label, value in {name: types[outer], **members}.items() if above else ():
                        setattr(types[above], label, value)
            elif block:
                declaration, _, number = line.removesuffix(";").rpartition(" = ")
                if block == "enum":
                    members[declaration] = int(number)
                else:
                    kind, _, name = declaration.rpartition(" ")
                    oneof, owner = (outer, open_blocks[-2][1]) if block == "oneof" else (None, outer)
                    rows[owner].append((name, int(number), kind, oneof))
            comment = []
    for full, fields in rows.items():
        types[full].give_fields(fields, types)
    return types
