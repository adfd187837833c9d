# SPDX-License-Identifier: Apache-2.0
"""Descriptions of messages and fields as Protocol Buffers have them: ``ConfigProto.DESCRIPTOR``, ``ListFields()``."""

from __future__ import annotations

from ..._typing import Any
from .enum import Enum
from .scalars import Scalar

# Protocol Buffers' numbers: type, and type in C++.
_TYPES = {
    "double": (1, 5),
    "float": (2, 6),
    "int64": (3, 2),
    "uint64": (4, 4),
    "int32": (5, 1),
    "fixed64": (6, 4),
    "bool": (8, 7),
    "string": (9, 9),
    "message": (11, 10),
    "bytes": (12, 9),
    "uint32": (13, 3),
    "enum": (14, 8),
}


class FieldDescriptor:
    """A field of a message: its name, number and type."""

    def __init__(self, owner: type, index: int, name: str, number: int, oneof: str | None = None) -> None:
        self.owner = owner
        self.index = index
        self.name = name
        self.number = number
        self.oneof = oneof
        self.is_repeated = False  # a list or a map
        self.scalar: Scalar | None = None  # the type, or that of the elements or the map's values
        self.message: type[Any] | None = None  # instead of a scalar
        self.key: Scalar | None = None  # of a map

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
        return self._types[0]

    @property
    def cpp_type(self) -> int:
        """The type in C++, as a number."""
        return self._types[1]

    @property
    def _types(self) -> tuple[int, int]:
        return _TYPES["message" if self.scalar is None or self.key is not None else self.scalar.kind]

    @property
    def default_value(self) -> Any:
        """The default of a scalar, [] for a list or map, None for a message."""
        if self.is_repeated:
            return []
        return None if self.scalar is None else self.scalar.default

    @property
    def has_presence(self) -> bool:
        """Whether ``HasField`` works: for messages and members of a oneof."""
        return not self.is_repeated and (self.message is not None or self.oneof is not None)

    @property
    def is_required(self) -> bool:
        """False: no field is required."""
        return False

    @property
    def enum_type(self) -> Enum | None:
        """The enum, if the field has one."""
        return None if self.scalar is None or self.key is not None else self.scalar.enum

    @property
    def containing_type(self) -> Descriptor:
        """The message that has the field."""
        return Descriptor(self.owner)

    @property
    def message_type(self) -> Descriptor | None:
        """The message that the field holds. For a map, that of its entries."""
        if self.key is not None:
            return Descriptor(getattr(self.owner, entry_name(self.name)))
        return None if self.message is None else Descriptor(self.message)

    @property
    def json_name(self) -> str:
        """The name in JSON, such as ``"gpuOptions"``."""
        first, *others = self.name.split("_")
        return first + "".join(other.capitalize() for other in others)

    camelcase_name = json_name

    def __repr__(self) -> str:
        return f"<FieldDescriptor {self.full_name}>"


def entry_name(field: str) -> str:
    """Return the name of the message of a map's entries: ``"DeviceCountEntry"``."""
    return "".join(part.capitalize() for part in field.split("_")) + "Entry"


class Descriptor:
    """A message: its name and its fields."""

    def __init__(self, message: type[Any]) -> None:
        self._concrete_class = message

    @property
    def name(self) -> str:
        """The name."""
        return self._concrete_class.__name__

    @property
    def full_name(self) -> str:
        """The name with package and enclosing messages."""
        return f"tensorflow.{self._concrete_class.__qualname__}"

    @property
    def fields(self) -> list[FieldDescriptor]:
        """The fields as they were declared."""
        return list(self._concrete_class.FIELDS.values())

    @property
    def fields_by_name(self) -> dict[str, FieldDescriptor]:
        """The fields by their names."""
        return dict(self._concrete_class.FIELDS)

    @property
    def fields_by_number(self) -> dict[int, FieldDescriptor]:
        """The fields by their numbers."""
        return {field.number: field for field in self.fields}

    @property
    def nested_types_by_name(self) -> dict[str, Descriptor]:
        """The messages that are declared in this one."""
        return {n: Descriptor(v) for n, v in vars(self._concrete_class).items() if hasattr(v, "FIELDS")}

    @property
    def enum_types_by_name(self) -> dict[str, Enum]:
        """The enums that are declared in this message."""
        return {n: v for n, v in vars(self._concrete_class).items() if isinstance(v, Enum)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descriptor) and self._concrete_class is other._concrete_class

    def __hash__(self) -> int:
        return hash(self._concrete_class)

    def __repr__(self) -> str:
        return f"<Descriptor {self.full_name}>"
