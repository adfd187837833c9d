# SPDX-License-Identifier: Apache-2.0
"""The wire format of messages: by protobuf, where it is installed, with classes that it makes of gpuconf's fields."""

from __future__ import annotations

import sys

from .. import errors
from .._core.fork import module_lock
from .._typing import Any
from ._fields import Enum

_lock = module_lock(globals(), "_lock")
_pools: list[Any] = []  # protobuf's, once it is made


def class_of(message: Any) -> Any:
    """Return protobuf's class of a message. Raises MissingPackageError without protobuf."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise errors.MissingPackageError(
            f"the wire format of {message.__name__} needs protobuf, which is not installed (pip install protobuf). "
            "Pickle, or ListFields(), need nothing"
        ) from error
    with _lock:
        if not _pools:
            file = descriptor_pb2.FileDescriptorProto(name="gpuconf.proto", package="tensorflow", syntax="proto3")
            _describe(vars(sys.modules[f"{__package__}._proto"]), file.message_type, file.enum_type)
            _pools.append(descriptor_pool.DescriptorPool())
            _pools[0].Add(file)
    return message_factory.GetMessageClass(_pools[0].FindMessageTypeByName(message.DESCRIPTOR.full_name))


def _describe(namespace: Any, messages: Any, enums: Any) -> None:
    """Add the messages and enums of a module or a message to protobuf's lists of them."""
    for name, value in namespace.items():
        if isinstance(value, Enum):
            enum = enums.add(name=name)
            for label, number in value.items():
                enum.value.add(name=label, number=number)
        elif hasattr(value, "FIELDS"):
            described = messages.add(name=name)
            described.options.map_entry = name.endswith("Entry")
            oneofs: list[str] = []
            for field in value.FIELDS.values():
                row = described.field.add(name=field.name, number=field.number, type=field.type)
                row.label = row.LABEL_REPEATED if field.is_repeated else row.LABEL_OPTIONAL
                held = field.message_type or field.enum_type
                if held is not None:
                    row.type_name = f".{held.full_name}"
                if field.oneof is not None:
                    if field.oneof not in oneofs:
                        oneofs.append(field.oneof)
                        described.oneof_decl.add(name=field.oneof)
                    row.oneof_index = oneofs.index(field.oneof)
            _describe(vars(value), described.nested_type, described.enum_type)


def transfer(source: Any, target: Any, message: Any) -> None:
    """Set in a message what is set in another one with its fields. One of them is gpuconf's, one protobuf's."""
    for listed, value in source.ListFields():
        field = message.FIELDS.get(listed.name)
        if field is None:  # of a newer release
            continue
        if field.message is None and not field.is_repeated:
            setattr(target, field.name, value)
            continue
        contents = getattr(target, field.name)
        if field.key is not None:
            for key in value:
                if field.message is None:
                    contents[key] = value[key]
                else:
                    transfer(value[key], contents[key], field.message)
        elif not field.is_repeated:
            contents.SetInParent()
            transfer(value, contents, field.message)
        elif field.message is None:
            contents.extend(value)
        else:
            for each in value:
                transfer(each, contents.add(), field.message)
