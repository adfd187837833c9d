"""Write ``_proto.pyi`` from ``messages.proto``, for type checkers: ``make generate``, and ``--check`` compares only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuconf.compat import _proto
from gpuconf.compat._fields import Enum
from gpuconf.compat._message import Message

if TYPE_CHECKING:
    from gpuconf.compat._fields import Field

STUB = Path(__file__).parents[2] / "python" / "gpuconf" / "compat" / "_proto.pyi"

_HEAD = '''# ruff: noqa: A002, N802 - Protocol Buffers' names
"""The fields of the messages, for type checkers. Generated from messages.proto by tests_py/oracle/message_stubs.py."""

from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence
from typing import Any, ClassVar, Generic, TypeVar

from ._fields import Enum
from ._message import Message

_M = TypeVar("_M", bound=Message)
_K = TypeVar("_K")

class _Messages(MutableSequence[_M], Generic[_M]):
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __delitem__(self, index: Any) -> None: ...
    def __len__(self) -> int: ...
    def insert(self, index: int, value: _M) -> None: ...
    def add(self, **fields: Any) -> _M: ...
    def sort(self, *, key: Any = None, reverse: bool = False) -> None: ...
    def MergeFrom(self, other: Iterable[_M]) -> None: ...

class _Scalars(MutableSequence[_K], Generic[_K]):
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __delitem__(self, index: Any) -> None: ...
    def __len__(self) -> int: ...
    def insert(self, index: int, value: _K) -> None: ...
    def sort(self, *, key: Any = None, reverse: bool = False) -> None: ...
    def MergeFrom(self, other: Iterable[_K]) -> None: ...

class _MessageMap(Mapping[_K, _M], Generic[_K, _M]):
    def __getitem__(self, key: _K) -> _M: ...
    def __delitem__(self, key: _K) -> None: ...
    def __iter__(self) -> Any: ...
    def __len__(self) -> int: ...
    def get_or_create(self, key: _K) -> _M: ...
    def MergeFrom(self, other: _MessageMap[_K, _M]) -> None: ...
'''


def stub() -> str:
    """Return the text of the stub."""
    # Messages of other modules are not among the public names.
    found = {n: v for n, v in vars(_proto).items() if not n.startswith("_") and n not in ("Message", "Enum")}
    messages = {n: v for n, v in found.items() if isinstance(v, type) and issubclass(v, Message)}
    enums = [n for n, v in found.items() if isinstance(v, Enum)]
    aliases = [f"_{name} = {name}" for name in messages]
    lines = [_HEAD, *(f"{name}: Enum" for name in enums)]
    for message in messages.values():
        lines += ["", *_class(message)]
    # A field or nested message may have the name of a message.
    return "\n".join([*lines, "", *aliases, ""])


def _class(message: type[Message]) -> list[str]:
    inner: list[str] = []
    for name, value in vars(message).items():
        if name.endswith("Entry"):
            continue
        if isinstance(value, Enum):
            inner += [f"{name}: ClassVar[Enum]", *(f"{label}: ClassVar[int]" for label in value.keys())]  # noqa: SIM118
        elif isinstance(value, type) and issubclass(value, Message):
            inner += [*_class(value), ""]
    for field in message.FIELDS.values():
        kind = _attribute(field)
        if kind.startswith(("_Messages", "_Scalars", "_MessageMap", "MutableMapping")) or field.message is not None:
            inner += ["@property", f"def {field.name}(self) -> {kind}: ..."]
        else:
            inner.append(f"{field.name}: {kind}")
    inner += ["def __init__(", "    self,", "    *,"]
    inner += [f"    {field.name}: {_argument(field)} | None = None," for field in message.FIELDS.values()]
    inner += [") -> None: ..."]
    return [f"class {message.__name__}(Message):", *(f"    {line}".rstrip() for line in inner)]


def _element(field: Field) -> str:
    if field.message is not None:
        return f"_{field.message.__qualname__}"
    return _python(field.kind)


def _python(kind: str) -> str:
    return {"string": "str", "bytes": "bytes", "bool": "bool", "double": "float", "float": "float"}.get(kind, "int")


def _attribute(field: Field) -> str:
    element = _element(field)
    if field.key is not None:
        container = "MutableMapping" if field.message is None else "_MessageMap"
        return f"{container}[{_python(field.key.kind)}, {element}]"
    if field.is_repeated:
        return f"{'_Scalars' if field.message is None else '_Messages'}[{element}]"
    return element


def _argument(field: Field) -> str:
    element = _element(field)
    if field.message is not None:
        element += " | dict[str, Any]"
    elif element == "str":
        element += " | bytes"
    elif field.enum is not None:
        element += " | str"
    if field.key is not None:
        return f"Mapping[{_python(field.key.kind)}, {element}]"
    return f"Iterable[{element}]" if field.is_repeated else element


def main(arguments: list[str]) -> None:
    """Write the stub, or compare it."""
    text: Any = stub()
    if "--check" in arguments:
        if STUB.read_text() != text:
            sys.exit(f"{STUB} is out of date: run make generate")
    else:
        STUB.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
