# SPDX-License-Identifier: Apache-2.0
"""Fields, enums, lists and maps of messages, with the interface of Protocol Buffers: see ``_message``."""

from __future__ import annotations

import copy
import math
import operator
import struct
from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSequence

from .. import errors
from .._typing import Any

# By the name of a type: Protocol Buffers' number of it, the default, and the values that it takes.
_KINDS: dict[str, tuple[int, Any, str]] = {
    "double": (1, 0.0, "a number"),
    "float": (2, 0.0, "a number"),
    "int64": (3, 0, "an int64"),
    "uint64": (4, 0, "a uint64"),
    "int32": (5, 0, "an int32"),
    "fixed64": (6, 0, "a fixed64"),
    "bool": (8, False, "a bool"),
    "string": (9, "", "a str, or bytes in UTF-8"),
    "message": (11, None, "a message"),
    "bytes": (12, b"", "bytes"),
    "uint32": (13, 0, "a uint32"),
    "enum": (14, 0, "a value of the enum"),
}
_BITS = {"int32": 32, "int64": 64, "enum": 32, "uint32": 32, "uint64": 64, "fixed64": 64}
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}


class Enum:
    """The names and numbers of an enum."""

    def __init__(self, full_name: str, members: dict[str, int]) -> None:
        self._name = full_name.rpartition(".")[2]
        self.full_name = full_name
        self._members = members
        self._names = {number: name for name, number in reversed(members.items())}

    def Name(self, number: int) -> str:  # noqa: N802 - Protocol Buffers' name
        """Return the name of a number. Raises ValueError if it has none, and TypeError if it is not an int."""
        if not isinstance(number, int):
            raise TypeError(f"Enum value for {self._name} must be an int, but got {type(number)} {number!r}.")
        if number not in self._names:
            raise ValueError(f"Enum {self._name} has no name defined for value {number!r}")
        return self._names[number]

    def Value(self, name: str | None) -> int:  # noqa: N802
        """Return the number of a name. Raises ValueError for an unknown one."""
        if not isinstance(name, str) or name not in self._members:
            raise ValueError(f"Enum {self._name} has no value defined for name {name!r}")
        return self._members[name]

    def keys(self) -> list[str]:
        """Return the names."""
        return list(self._members)

    def values(self) -> list[int]:
        """Return the numbers."""
        return list(self._members.values())

    def items(self) -> list[tuple[str, int]]:
        """Return names and numbers."""
        return list(self._members.items())

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("_members", {}):  # which is missing while a copy is made
            return self._members[name]
        raise AttributeError(f"Enum {self.__dict__.get('_name')} has no value defined for name {name!r}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._members]

    def __repr__(self) -> str:
        return f"<Enum {self.full_name}>"


class Field:
    """A field of a message, as ``ListFields`` and ``DESCRIPTOR`` show it: its name, number and type."""

    def __init__(self, owner: type[Any], name: str, number: int, kind: str, oneof: str | None, types: Any) -> None:
        self.owner, self.name, self.number, self.oneof = owner, name, number, oneof
        self.index = len(owner.FIELDS)
        self.is_repeated = kind.startswith(("repeated ", "map<"))  # a list or a map
        self.key: Field | None = None  # of a map. The kind, the enum and the message are then those of its values
        self.entry: Any = None  # the message of a map's entries
        if kind.startswith("map<"):
            key, kind = kind[4:-1].split(", ")
            title = "".join(part.capitalize() for part in name.split("_")) + "Entry"
            self.entry = owner.nested(title, "An entry of a map.")
            self.entry.give_fields([("key", 1, key, None), ("value", 2, kind, None)], types)
            self.key = self.entry.FIELDS["key"]
        found = types.get(kind.removeprefix("repeated "))
        self.enum: Enum | None = found if isinstance(found, Enum) else None
        self.message: Any = found if self.enum is None else None
        self.kind = (
            "enum" if self.enum is not None else "message" if found is not None else kind.removeprefix("repeated ")
        )

    @property
    def where(self) -> str:
        """The message and the field, for error messages."""
        return f"{self.owner.__qualname__}.{self.name}"

    @property
    def full_name(self) -> str:
        """The name with package and message."""
        return f"tensorflow.{self.where}"

    @property
    def type(self) -> int:
        """The type, as a number such as 11 for a message."""
        return _KINDS["message" if self.key is not None else self.kind][0]

    @property
    def default(self) -> Any:
        """The default of a scalar or an enum."""
        return _KINDS[self.kind][1]

    @property
    def default_value(self) -> Any:
        """The default of a scalar, [] for a list or map, None for a message."""
        return [] if self.is_repeated else self.default

    @property
    def has_presence(self) -> bool:
        """Whether ``HasField`` works: for messages and members of a oneof."""
        return not self.is_repeated and (self.message is not None or self.oneof is not None)

    @property
    def enum_type(self) -> Enum | None:
        """The enum, if the field has one."""
        return self.enum if self.key is None else None

    @property
    def containing_type(self) -> Any:
        """The message that has the field."""
        return self.owner.DESCRIPTOR

    @property
    def message_type(self) -> Any:
        """The message that the field holds, or None. For a map, that of its entries."""
        held = self.message if self.key is None else self.entry
        return None if held is None else held.DESCRIPTOR

    def __repr__(self) -> str:
        return f"<FieldDescriptor {self.full_name}>"

    def check(self, value: Any) -> Any:
        """Return the value to store.

        Raises TypeError, ValueError or OverflowError with the text of Protocol Buffers, followed by the field.
        """
        if self.kind in _BITS:
            if isinstance(value, bool):
                raise self._wrong(f"Field {self.full_name}: Expected an int, got a boolean.")
            if self.enum is not None and isinstance(value, str):
                label, members = self._string(value), dict(self.enum.items())
                if label not in members:
                    raise ValueError(f'unknown enum label "{label}" ({self.enum._name} has {", ".join(members)})')
                return members[label]
            number, bits = self._index(value), _BITS[self.kind]
            low = 0 if self.kind in ("uint32", "uint64", "fixed64") else -(1 << bits - 1)
            if not low <= number < low + (1 << bits):
                shown = number if number.bit_length() <= 2000 else f"a number of {number.bit_length()} bits"
                raise ValueError(f"Value out of range: {shown} {self._takes()}")
            return number
        if self.kind == "string":
            return self._string(value)
        if self.kind == "bytes":
            if not isinstance(value, bytes):
                raise self._wrong(f"expected bytes, {type(value).__name__} found")
            return bytes(value)
        if _of_numpy(value, "ndarray"):
            raise self._wrong(f"{value} has type ndarray, but expected one of: {self.kind}")
        if self.kind == "bool":
            number = self._index(value)
            if not -(1 << 63) <= number < 1 << 63:
                raise OverflowError(f"Python int too large to convert to C long {self._takes()}")
            return bool(number)
        if isinstance(value, (str, bytes, bytearray)):
            raise self._wrong(f"must be real number, not {type(value).__name__}")
        try:
            real = float(value)
        except OverflowError as error:
            raise OverflowError(f"{error} {self._takes()}") from None
        except (TypeError, ValueError):
            raise self._wrong(f"must be real number, not {_name_of(type(value))}") from None
        return real if self.kind == "double" else _to_float32(real)

    def _index(self, value: Any) -> int:
        if _of_numpy(value, "bool", "bool_"):
            value = bool(value)  # NumPy's own conversion to an index warns
        try:
            return operator.index(value)
        except TypeError as error:
            text = f"'{_name_of(type(value))}' object cannot be interpreted as an integer"
            raise self._wrong(str(error) if _of_numpy(value, "ndarray") else text) from None

    def _string(self, value: Any) -> str:
        if not isinstance(value, (str, bytes)):
            raise self._wrong("bad argument type for built-in operation")
        try:
            if isinstance(value, bytes):
                return value.decode()
            value.encode()
        except UnicodeError as error:
            raise ValueError(f"{error} {self._takes()}") from None
        return str(value)

    def _takes(self) -> str:
        return f"({self.where} takes {_KINDS[self.kind][2]})"

    def _wrong(self, text: str) -> TypeError:
        return TypeError(f"{text} {self._takes()}")

    def is_default(self, value: Any) -> bool:
        """Whether a value is stored as absent. -0.0 is not."""
        return value == self.default and not (isinstance(value, float) and math.copysign(1.0, value) < 0)

    def shown(self, value: Any) -> str:
        """Return a value as the text format shows it."""
        if self.enum is not None:
            return self.enum._names.get(value, str(value))
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            same, digits, more = (float, 15, 17) if self.kind == "double" else (_to_float32, 6, 9)
            short = f"{value:.{digits}g}"
            return short if same(float(short)) == value or value != value else f"{value:.{more}g}"
        if not isinstance(value, (str, bytes)):
            return str(value)
        text, last = (value, "\x7f") if isinstance(value, str) else (value.decode("latin-1"), "\xff")
        return '"' + "".join(_escaped(character, last) for character in text) + '"'


def _of_numpy(value: Any, *names: str) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ in names


def _name_of(kind: type) -> str:
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__


def _to_float32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _escaped(character: str, last: str) -> str:
    """Return a character as the text format has it, where those from DEL to ``last`` are numbers."""
    if character in _ESCAPES:
        return _ESCAPES[character]
    return f"\\{ord(character):03o}" if character < " " or "\x7f" <= character <= last else character


class Container:
    """A list or map.

    It knows its message while that is absent from the message around it: a change makes both present.
    """

    __slots__ = ("_field", "_owner", "_part", "_values")

    _empty: Callable[[], Any]

    def __init__(self, field: Field, owner: Any = None) -> None:
        self._field = field
        self._owner = owner
        self._part = False  # of its message, since it was changed
        self._values: Any = self._empty()

    def _is_part(self) -> bool:
        return self._part

    def _detach(self) -> None:
        self._owner = None

    def _changed(self) -> None:
        owner, self._owner, self._part = self._owner, None, True
        if owner is not None:
            owner.SetInParent()

    def _copy(self, value: Any) -> Any:
        """Return a copy of a message that this may hold."""
        if not hasattr(value, "ListFields"):
            shown = repr(value)
            raise TypeError(
                f"Expected a message object, but got {shown if len(shown) <= 100 else shown[:100] + '...'}."
            )
        made = self._field.message()
        made.MergeFrom(value)
        return made

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Container):
            return type(self._values) is type(other._values) and bool(self._values == other._values)
        return self._values == other if isinstance(other, type(self._values)) else NotImplemented

    __hash__: Any = None

    def __repr__(self) -> str:
        return repr(self._values)

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object: convert it to a list or dict first")


class _List(Container, MutableSequence):  # type: ignore[type-arg]
    """The methods of lists of scalars and of lists of messages."""

    __slots__ = ()
    __hash__: Any = None
    _empty = list

    def _checked(self, value: Any) -> Any:
        return self._field.check(value)

    def _place(self, index: Any) -> Any:
        """Return an index or slice that is valid. Raises TypeError or IndexError as Protocol Buffers do."""
        if isinstance(index, slice):
            return index
        try:
            place = operator.index(index)
        except TypeError:
            raise TypeError(f"list indices must be integers, not {type(index).__name__}") from None
        if not -len(self._values) <= place < len(self._values):
            raise IndexError("list index out of range")
        return place

    def __getitem__(self, index: Any) -> Any:
        return self._values[self._place(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        place = self._place(index)
        if not isinstance(place, slice):
            checked = self._checked(value)
        else:
            checked = [self._checked(each) for each in _elements(value)]
            replaced = len(self._values[place])
            if place.step not in (None, 1) and len(checked) != replaced:
                text = f"attempt to assign sequence of {len(checked)} to extended slice of size {replaced}"
                raise ValueError(text)
        self._changed()
        self._values[place] = checked

    def __delitem__(self, index: Any) -> None:
        place = self._place(index)
        self._changed()
        del self._values[place]

    def insert(self, index: int, value: Any) -> None:
        """Insert a value, or a copy of a message, before ``index``."""
        place = _integer(index)
        checked = self._checked(value)
        self._changed()
        self._values.insert(place, checked)

    def append(self, value: Any) -> None:
        """Append a value, or a copy of a message."""
        self.extend([value])

    def extend(self, values: Iterable[Any]) -> None:
        """Append all values, or copies of all messages, or none if one is invalid."""
        elements = _elements(values) if self._field.message is None else list(values)
        checked = [self._checked(value) for value in elements]
        self._changed()
        self._values += checked

    MergeFrom = extend

    def clear(self) -> None:
        """Remove all elements."""
        self._values.clear()

    def pop(self, index: int = -1) -> Any:
        """Remove an element and return it. Raises IndexError if there is none."""
        index = _integer(index)
        if not -len(self._values) <= index < len(self._values):
            raise IndexError(f"list index ({index}) out of range")
        self._changed()
        return self._values.pop(index)

    def reverse(self) -> None:
        """Reverse the order in place."""
        self._changed()
        self._values.reverse()

    def sort(self, *, key: Callable[[Any], Any] | None = None, reverse: bool = False) -> None:
        """Sort in place, as ``list.sort``."""
        ordered = sorted(self._values, key=key, reverse=reverse)
        self._changed()
        self._values[:] = ordered

    def remove(self, value: Any) -> None:
        """Remove the first element that equals ``value``. Raises ValueError if there is none."""
        if value not in self._values:
            raise ValueError("remove(x): x not in container")
        self._changed()
        self._values.remove(value)

    def __deepcopy__(self, memo: Any) -> Any:
        duplicate = type(self)(self._field)
        duplicate._values = copy.deepcopy(self._values, memo)
        return duplicate


class RepeatedScalarContainer(_List):
    """A repeated field of scalars."""

    __slots__ = ()


class RepeatedCompositeContainer(_List):
    """A repeated field of messages."""

    __slots__ = ()
    _checked = Container._copy

    def insert(self, index: int, value: Any) -> None:
        """Insert a copy of a message before ``index``."""
        place, made = _integer(index), self._field.message()
        made.MergeFrom(value)
        self._changed()
        self._values.insert(place, made)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._place(index)
        raise TypeError("does not support assignment: use add(), or CopyFrom() of an element")

    def add(self, *arguments: Any, **fields: Any) -> Any:
        """Append a new message and return it."""
        made = self._field.message(*arguments, **fields)
        self._changed()
        self._values.append(made)
        return made


class _Map(Container, MutableMapping):  # type: ignore[type-arg]
    """The methods of maps to scalars and of maps to messages. Reading a missing key inserts it."""

    __slots__ = ()
    __hash__ = object.__hash__
    _empty = dict

    def _key(self, key: Any) -> Any:
        assert self._field.key is not None
        return self._field.key.check(key)

    def __getitem__(self, key: Any) -> Any:
        key = self._key(key)
        if key not in self._values:
            self._changed()
            self._values[key] = self._field.default if self._field.message is None else self._field.message()
        return self._values[key]

    def __delitem__(self, key: Any) -> None:
        key = self._key(key)
        if key not in self._values:
            raise KeyError("Key not present in map")
        self._changed()
        del self._values[key]

    def __contains__(self, key: object) -> bool:
        return bool(self._values) and self._key(key) in self._values

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or ``default``."""
        return self._values.get(self._key(key), default)

    def clear(self) -> None:
        """Remove all entries."""
        self._changed()
        self._values.clear()

    def update(self, other: Any = (), /, **more: Any) -> None:
        """Set all entries, or none if one is invalid. Messages are refused: see :meth:`MergeFrom`."""
        self._merge({self._key(key): self._checked(value) for key, value in [*_pairs(other), *more.items()]})

    def _checked(self, value: Any) -> Any:
        return self._field.entry.FIELDS["value"].check(value)

    def _merge(self, values: dict[Any, Any]) -> None:
        self._changed()
        self._values.update(values)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._merge({self._key(key): self._checked(value)})

    def GetEntryClass(self) -> Any:  # noqa: N802 - Protocol Buffers' name
        """Return the message of an entry, with the fields ``key`` and ``value``."""
        return self._field.entry

    def MergeFrom(self, other: Any) -> None:  # noqa: N802
        """Set the entries, or copies of the messages, of another map of the same type."""
        if not isinstance(other, type(self)):
            raise AttributeError(f"Merging of {type(other).__name__} is not allowed: use update()")
        self._merge({key: copy.copy(value) for key, value in other._values.items()})


class ScalarMapContainer(_Map):
    """A map to scalars."""

    __slots__ = ()

    def setdefault(self, key: Any, value: Any = None) -> Any:
        """Return the value of a key, and set it first if it is missing. Raises ValueError without a value."""
        if value is None:
            raise ValueError("The value for scalar map setdefault must be set.")
        if key in self:
            return self[key]
        self[key] = value
        return value


class MessageMapContainer(_Map):
    """A map to messages."""

    __slots__ = ()

    def _checked(self, value: Any) -> Any:  # noqa: ARG002
        raise ValueError("Message objects may not be assigned: use map[key].CopyFrom(value)")

    def setdefault(self, key: Any, value: Any = None) -> Any:  # noqa: ARG002
        """Refuse to assign messages; see :meth:`get_or_create`."""
        raise errors.UnimplementedError("Set message map value directly is not supported. Use get_or_create(key).")

    def get_or_create(self, key: Any) -> Any:
        """Return the message of a key, a new one if it is missing."""
        return self[key]


def _pairs(entries: Any) -> list[tuple[Any, Any]]:
    """Return the entries of a mapping, or of an iterable of pairs.

    Raises TypeError or ValueError for any other object.
    """
    try:
        if hasattr(entries, "keys"):
            return [(key, entries[key]) for key in entries.keys()]  # noqa: SIM118 - any mapping, as dict() takes it
        return [(key, value) for key, value in entries]
    except (TypeError, ValueError) as error:
        raise (TypeError if isinstance(error, TypeError) else ValueError)(str(error)) from None


def _elements(values: Any) -> Iterator[Any]:
    try:
        return iter(values)
    except TypeError:
        raise TypeError(f"must assign iterable, but got {type(values).__name__}") from None


def _integer(index: Any) -> int:
    try:
        return operator.index(index)
    except TypeError as error:
        raise TypeError(str(error)) from None
