# SPDX-License-Identifier: Apache-2.0
"""Repeated fields and maps of messages, with the interface of Protocol Buffers."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSequence

from ... import errors
from ..._typing import Any
from .descriptors import FieldDescriptor


class Container:
    """A list or map.

    It knows its message while that is absent from the message around it: a change makes both present.
    """

    __slots__ = ("_field", "_owner", "_part", "_values")

    _values: Any

    def __init__(self, field: FieldDescriptor, owner: Any) -> None:
        self._field = field
        self._owner = owner
        self._part = False  # of its message, since it was changed

    def _is_part(self) -> bool:
        return self._part

    def _detach(self) -> None:
        self._owner = None

    def _changed(self) -> None:
        owner, self._owner, self._part = self._owner, None, True
        if owner is not None:
            owner.SetInParent()

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object: convert it to a list or dict first")


class _List(Container, MutableSequence):  # type: ignore[type-arg]
    """What lists of scalars and lists of messages have in common."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    _values: list[Any]

    def __init__(self, field: FieldDescriptor, owner: Any = None) -> None:
        super().__init__(field, owner)
        self._values = []

    def __getitem__(self, index: Any) -> Any:
        return self._values[_place(index, self._values)]

    def __delitem__(self, index: Any) -> None:
        place = _place(index, self._values)
        self._changed()
        del self._values[place]

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

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _List):
            return self._values == other._values
        return self._values == other if isinstance(other, list) else NotImplemented

    def __deepcopy__(self, memo: Any) -> Any:
        duplicate = type(self)(self._field)
        duplicate._values = copy.deepcopy(self._values, memo)
        return duplicate


class RepeatedScalarContainer(_List):
    """A repeated field of scalars."""

    __slots__ = ()

    def _check(self, value: Any) -> Any:
        assert self._field.scalar is not None
        return self._field.scalar.check(value, self._field.where)

    def __setitem__(self, index: Any, value: Any) -> None:
        place = _place(index, self._values)
        if not isinstance(place, slice):
            checked = self._check(value)
        else:
            checked = [self._check(each) for each in _elements(value)]
            replaced = len(self._values[place])
            if place.step not in (None, 1) and len(checked) != replaced:
                text = f"attempt to assign sequence of {len(checked)} to extended slice of size {replaced}"
                raise ValueError(text)
        self._changed()
        self._values[place] = checked

    def insert(self, index: int, value: Any) -> None:
        """Insert a value before ``index``."""
        self._put(_integer(index), [self._check(value)])

    def append(self, value: Any) -> None:
        """Append a value."""
        self._put(len(self._values), [self._check(value)])

    def extend(self, values: Iterable[Any]) -> None:
        """Append all values, or none if one is invalid."""
        self._put(len(self._values), [self._check(value) for value in _elements(values)])

    MergeFrom = extend

    def _put(self, index: int, values: list[Any]) -> None:
        self._changed()
        self._values[index:index] = values


class RepeatedCompositeContainer(_List):
    """A repeated field of messages."""

    __slots__ = ()

    def __setitem__(self, index: Any, value: Any) -> None:
        _place(index, self._values)
        raise TypeError("does not support assignment: use add(), or CopyFrom() of an element")

    def add(self, *arguments: Any, **fields: Any) -> Any:
        """Append a new message and return it."""
        assert self._field.message is not None
        made = self._field.message(*arguments, **fields)
        self._changed()
        self._values.append(made)
        return made

    def insert(self, index: int, value: Any) -> None:
        """Insert a copy of a message before ``index``."""
        assert self._field.message is not None
        index, made = _integer(index), self._field.message()
        made.MergeFrom(value)
        self._changed()
        self._values.insert(index, made)

    def append(self, value: Any) -> None:
        """Append a copy of a message."""
        self.extend([value])

    def extend(self, values: Iterable[Any]) -> None:
        """Append copies of all messages, or of none if one is invalid."""
        try:
            found = list(values)
        except TypeError as error:
            raise TypeError(str(error)) from None
        copies = [self._copy(value) for value in found]
        self._changed()
        self._values += copies

    MergeFrom = extend

    def _copy(self, value: Any) -> Any:
        assert self._field.message is not None
        if not hasattr(value, "ListFields"):
            shown = repr(value)
            shown = shown if len(shown) <= 100 else shown[:100] + "..."
            raise TypeError(f"Expected a message object, but got {shown}.")
        made = self._field.message()
        made.MergeFrom(value)
        return made


class _Map(Container, MutableMapping):  # type: ignore[type-arg]
    """What maps to scalars and maps to messages have in common. Reading a missing key inserts it."""

    __slots__ = ()
    __hash__ = object.__hash__

    _values: dict[Any, Any]

    def __init__(self, field: FieldDescriptor, owner: Any = None) -> None:
        super().__init__(field, owner)
        self._values = {}

    def _key(self, key: Any) -> Any:
        assert self._field.key is not None
        return self._field.key.check(key, f"{self.GetEntryClass().__qualname__}.key")

    def _default(self) -> Any:
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Any:
        key = self._key(key)
        if key not in self._values:
            self._changed()
            self._values[key] = self._default()
        return self._values[key]

    def __delitem__(self, key: Any) -> None:
        key = self._key(key)
        if key not in self._values:
            raise KeyError("Key not present in map")
        self._changed()
        del self._values[key]

    def __contains__(self, key: object) -> bool:
        return bool(self._values) and self._key(key) in self._values

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or ``default``."""
        return self._values.get(self._key(key), default)

    def clear(self) -> None:
        """Remove all entries."""
        self._changed()
        self._values.clear()

    def _merge(self, values: dict[Any, Any]) -> None:
        self._changed()
        self._values.update(values)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Map):
            return self._values == other._values
        return self._values == other if isinstance(other, dict) else NotImplemented

    def GetEntryClass(self) -> Any:  # noqa: N802 - Protocol Buffers' name
        """Return the message of an entry, with the fields ``key`` and ``value``."""
        return self._field.message_type._concrete_class  # type: ignore[union-attr]

    def _same(self, other: Any) -> dict[Any, Any]:
        if not isinstance(other, type(self)):
            raise AttributeError(f"Merging of {type(other).__name__} is not allowed: use update()")
        return other._values


class ScalarMapContainer(_Map):
    """A map to scalars."""

    __slots__ = ()

    def _check(self, value: Any) -> Any:
        assert self._field.scalar is not None
        return self._field.scalar.check(value, f"{self.GetEntryClass().__qualname__}.value")

    def _default(self) -> Any:
        assert self._field.scalar is not None
        return self._field.scalar.default

    def __setitem__(self, key: Any, value: Any) -> None:
        self._merge({self._key(key): self._check(value)})

    def update(self, other: Any = (), /, **more: Any) -> None:
        """Set all entries, or none if one is invalid."""
        self._merge({self._key(k): self._check(v) for k, v in [*pairs(other), *more.items()]})

    def setdefault(self, key: Any, value: Any = None) -> Any:
        """Return the value of a key, and set it first if it is missing. Raises ValueError without a value."""
        if value is None:
            raise ValueError("The value for scalar map setdefault must be set.")
        if key in self:
            return self[key]
        self[key] = value
        return value

    def MergeFrom(self, other: Any) -> None:  # noqa: N802
        """Set the entries of another map of the same type."""
        self.update(self._same(other))


class MessageMapContainer(_Map):
    """A map to messages."""

    __slots__ = ()

    def _default(self) -> Any:
        assert self._field.message is not None
        return self._field.message()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._key(key)
        raise ValueError("Message objects may not be assigned: use map[key].CopyFrom(value)")

    def update(self, other: Any = (), /, **more: Any) -> None:
        """Refuse to assign messages; see :meth:`MergeFrom`."""
        for key, value in [*pairs(other), *more.items()]:
            self[key] = value

    def setdefault(self, key: Any, value: Any = None) -> Any:  # noqa: ARG002
        """Refuse to assign messages; see :meth:`get_or_create`."""
        raise errors.UnimplementedError("Set message map value directly is not supported. Use get_or_create(key).")

    def get_or_create(self, key: Any) -> Any:
        """Return the message of a key, a new one if it is missing."""
        return self[key]

    def MergeFrom(self, other: Any) -> None:  # noqa: N802
        """Set copies of the messages of another map of the same type."""
        self._merge({key: copy.copy(value) for key, value in self._same(other).items()})


def pairs(entries: Any) -> list[tuple[Any, Any]]:
    """Return the entries of a mapping, or of an iterable of pairs.

    Raises TypeError or ValueError for any other object.
    """
    try:
        if hasattr(entries, "keys"):
            return [(key, entries[key]) for key in entries.keys()]  # noqa: SIM118 - any mapping, as dict() takes it
        return [(key, value) for key, value in entries]
    except TypeError as error:
        raise TypeError(str(error)) from None
    except ValueError as error:
        raise ValueError(str(error)) from None


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


def _place(index: Any, values: list[Any]) -> Any:
    """Return an index or slice that is valid. Raises TypeError or IndexError as Protocol Buffers do."""
    if isinstance(index, slice):
        return index
    try:
        place = operator.index(index)
    except TypeError:
        raise TypeError(f"list indices must be integers, not {type(index).__name__}") from None
    if not -len(values) <= place < len(values):
        raise IndexError("list index out of range")
    return place
