# SPDX-License-Identifier: Apache-2.0
"""The Python side of package pybind/wire: named tuples with the names, comments and order of its structs.

pybind/generate.py writes them. A file of pybind/wire becomes a module of python/gpuconf/_core/wire.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "wire"
TARGET = HERE.parent / "python" / "gpuconf" / "_core" / "wire"
COLUMNS = 132

STRUCT = re.compile(r"(?ms)^((?:// [^\n]*\n)+)type (\w+) struct \{\n(.*?)^\}\n")
FIELD = re.compile(r'^\t\w+\s+(\S+)\s+`py:"(\w+)"(?: default:"(\w*)")?`(?:\s*// (.*))?$')
NUMBERS = {"int": "int", "int64": "int", "uint32": "int", "uint64": "int", "float64": "float"}
SCALARS = {**NUMBERS, "string": "str", "bool": "bool"}
OF_TUPLE = ("count", "index")  # tuple's own methods, which such a field hides


@dataclass
class Field:
    """A field of a message."""

    name: str
    kind: str  # Go's type
    default: str | None
    comment: str


@dataclass
class Message:
    """A struct of package wire."""

    name: str
    text: str
    fields: list[Field]


def messages(path: Path) -> list[Message]:
    """The structs of a file of package wire. Anything that this script does not know ends it."""
    return [Message(name, _text(comment, name), _fields(body, name)) for comment, name, body in STRUCT.findall(path.read_text())]


def _text(comment: str, name: str) -> str:
    """What a docstring says: Go's comment without its first words."""
    text = " ".join(line.removeprefix("// ") for line in comment.splitlines())
    head, verb, rest = text.partition(" is " if text.startswith(f"{name} is ") else " are ")
    if head != name or not verb:
        raise SystemExit(f"pybind/wire: the comment of {name} must begin with '{name} is' or '{name} are'")
    return rest[0].upper() + rest[1:]


def _fields(body: str, message: str) -> list[Field]:
    found, above = [], ""
    for line in body.splitlines():
        if line.startswith("\t// "):
            above = f"{above} {line[4:]}".strip()
            continue
        parts = FIELD.match(line)
        if not parts:
            raise SystemExit(f"pybind/wire: {message} has a line that is no field: {line!r}")
        kind, name, default, beside = parts.groups()
        comment = above or beside
        if not comment:
            raise SystemExit(f"pybind/wire: {message}.{name} has no comment")
        found.append(Field(name, kind, default, comment))
        above = ""
    return found


def _type(kind: str) -> str:
    """Python's name of a type of Go's."""
    if kind in SCALARS:
        return SCALARS[kind]
    if kind.startswith("*"):
        return f"{_type(kind[1:])} | None"
    if kind.startswith("[]"):
        return f"tuple[{_type(kind[2:])}, ...]"
    if kind.startswith("[2]"):
        return f"tuple[{_type(kind[3:])}, {_type(kind[3:])}]"
    if kind.startswith("map[string]"):
        return f"dict[str, {_type(kind[11:])}]"
    if kind.isidentifier():
        return kind
    raise SystemExit(f"pybind/wire: no Python type for {kind}")


def _read(kind: str, value: str) -> str:
    """How Python makes a field of what JSON has; the value itself where that is the same."""
    if kind.startswith("*"):
        inner = _read(kind[1:], value)
        return value if inner == value else f"{value} and {inner}"
    if kind.startswith("["):
        item = kind[kind.index("]") + 1 :]
        return f"tuple({value})" if item in SCALARS else f"tuple(map({item}._read, {value}))"
    return f"{kind}._read({value})" if kind[0].isupper() else value


def _default(field: Field) -> str:
    if field.default is None:
        return ""
    return f" = {field.default}" if field.kind in NUMBERS else f' = "{field.default}"'


def _field(field: Field) -> list[str]:
    """A field with its comment: beside it where there is room."""
    hides = "  # type: ignore[assignment]  # hides tuple's" if field.name in OF_TUPLE else ""
    line = f"    {field.name}: {_type(field.kind)}{_default(field)}{hides}"
    comment = field.comment.rstrip(".")
    if not hides and len(line) + 4 + len(comment) <= COLUMNS:
        return [f"{line}  # {comment}"]
    return [*textwrap.wrap(comment, COLUMNS, initial_indent="    # ", subsequent_indent="    # "), line]


def _class(message: Message) -> list[str]:
    lines = [f"class _{message.name}(NamedTuple):"]
    for field in message.fields:
        lines += _field(field)
    text = message.text if message.text.endswith(".") else f"{message.text}."
    one = f'    """{text}"""'
    lines += ["", "", f"class {message.name}(Table, _{message.name}):"]
    if len(one) <= COLUMNS:
        lines.append(one)
    else:
        first, _, rest = text.partition(". ")
        lines += [f'    """{first}.', ""] if rest else ['    """']
        lines += [*textwrap.wrap(rest or text, COLUMNS, initial_indent="    ", subsequent_indent="    "), '    """']
    lines += ["", "    __slots__ = ()"]
    if message.name.endswith("Request"):  # Python writes it, and never reads it
        return lines
    lines += ["", "    @classmethod", f"    def _read(cls, row: Any) -> {message.name}:"]
    for number, field in enumerate(message.fields):
        value = f"row[{number}]"
        if (read := _read(field.kind, value)) != value:
            lines.append(f"        {value} = {read}")
    return [*lines, "        return cls(*row)"]


def module(path: Path) -> str:
    """The Python module of a file."""
    found = messages(path)
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        f'"""What Go says, from pybind/wire/{path.name}. Written by pybind/generate.py; DO NOT EDIT."""',
        "",
        "from __future__ import annotations",
        "",
        "from ..._typing import Any, NamedTuple",
        "from ..table import Table",
    ]
    for message in found:
        lines += ["", "", *_class(message)]
    return "\n".join([*lines, ""])


def generate() -> dict[Path, str]:
    """The modules, by path."""
    sources = [path for path in sorted(SOURCE.glob("*.go")) if path.name != "wire.go"]
    package = '# SPDX-License-Identifier: Apache-2.0\n"""What crosses the border to Go: see pybind/wire/wire.go."""\n'
    return {TARGET / "__init__.py": package, **{TARGET / f"{path.stem}.py": module(path) for path in sources}}
