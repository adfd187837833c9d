"""Write the stubs of ``gpuconf.compat``, for type checkers: ``make generate``, and ``--check`` compares only.

``_proto.pyi`` has the messages of ``messages.proto``, and each public module of ``names.txt`` has one, too.
"""

import importlib
import re
import sys
from pathlib import Path

from gpuconf.compat import _names, _proto
from gpuconf.compat._fields import Enum, Field
from gpuconf.compat._message import Message

COMPAT = Path(__file__).parents[2] / "python" / "gpuconf" / "compat"

_HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""The messages' fields for type checkers, from messages.proto by tests_py/oracle/message_stubs.py."""

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


def message_stub() -> str:
    """Return the text of the stub of all messages."""
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


def module_stub(module: str) -> str:
    """Return the text of the stub of a public module: where its names are from."""
    imports, assignments = [], []
    for name, (source, original) in sorted(_names.rows[module].items()):
        value = getattr(importlib.import_module(source), original)
        if isinstance(value, type) and source.startswith("gpuconf.compat._") and not is_written(value, source):
            base = value.__bases__[0].__name__
            imports.append(f"from {source} import {base} as {base}")
            assignments.append(f"class {name}({base}): ...")
            continue
        # A checker takes "a as b" in a stub for a private import.
        imports.append(f"from {source} import {original} as {original if name == original else f'_{original}'}")
        assignments += [f"{name} = _{original}"] if name != original else []
    for other in below(module):
        name, (package, _, original) = other.rpartition(".")[2], _names.aliases.get(other, other).rpartition(".")
        imports.append(f"from {package} import {original} as {name if name == original else f'_{original}'}")
        assignments += [f"{name} = _{original}"] if name != original else []
    if any(other not in _names.rows for other in _names.others[module]):  # Abseil's
        imports.append("from typing import Any")
        assignments += ["", "def __getattr__(name: str) -> Any: ..."]
    head = "# Generated from names.txt by tests_py/oracle/message_stubs.py.\n\n"
    return head + "\n".join([*dict.fromkeys(imports), "", *assignments]).rstrip() + "\n"


def is_written(value: type, source: str) -> bool:
    """Whether a class is in the code of a module, or in a stub. Others are made of a table."""
    path = Path(importlib.import_module(source).__file__ or "")
    return source == _proto.__name__ or re.search(rf"^class {value.__name__}\b", path.read_text(), re.M) is not None


def below(module: str) -> list[str]:
    """Return the modules in a module that have a stub."""
    names = [*_names.aliases, *(name for name in _names.rows if has_stub(name))]
    return [name for name in names if name.rpartition(".")[0] == module]


def has_stub(module: str) -> bool:
    """Checkers know this module. TensorFlow's private ones have names of others, and gpuconf's code imports none."""
    return bool(_names.rows[module]) or any(has_stub(name) for name in _names.rows if name.rpartition(".")[0] == module)


def stubs() -> dict[Path, str]:
    """Return the texts of all stubs."""
    texts = {COMPAT / "_proto.pyi": message_stub()}
    for module in filter(has_stub, _names.rows):
        path = COMPAT.joinpath(*module.split(".")[2:])
        texts[path / "__init__.pyi" if below(module) else path.with_suffix(".pyi")] = module_stub(module)
    return texts


def main(arguments: list[str]) -> None:
    """Write the stubs, or compare them."""
    texts = stubs()
    there = {path: path.read_text() for path in COMPAT.rglob("*.pyi")}
    if "--check" in arguments:
        if there != texts:
            wrong = [str(path) for path in sorted(there.keys() | texts.keys()) if there.get(path) != texts.get(path)]
            sys.exit(f"out of date: {wrong}: run make generate")
        return
    for path in there.keys() - texts.keys():
        path.unlink()
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
