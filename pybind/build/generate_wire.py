# SPDX-License-Identifier: Apache-2.0
"""The Python side of package pybind/wire: named tuples with the names, comments and order of Go's structs.

pybind/build/generate.py writes them. Each part of pybind/wire/messages.go becomes a module of
python/gpuconf/_core/generated, with the messages of other packages that belong to it.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "pybind" / "wire" / "messages.go"
TARGET = ROOT / "python" / "gpuconf" / "_core" / "generated"
COLUMNS = 120

LEDGER = ROOT / "gocore" / "lease" / "ledger"
ALSO = {  # by module
    "details": [ROOT / "gocore" / "machine" / "blas" / "library_cgo.go"],
    "fleet": [ROOT / "gocore" / "machine" / "models" / "spec_cgo.go"],
    "ledger": [
        *(LEDGER / name for name in ("process.go", "record.go", "rows.go", "claim.go", "parked.go", "turns.go")),
        LEDGER.with_name("turns") / "plan.go",
    ],
    "stats": [
        ROOT / "gocore" / "machine" / "gpu" / "driver.go",
        ROOT / "gocore" / "pool" / "bfc" / "stats.go",
        ROOT / "gocore" / "devices" / "devmgr" / "memoryinfo.go",
    ],
}

PART = re.compile(r"(?m)^// Messages of _core/generated/(\w+)\.py\.$")
STRUCT = re.compile(r"(?ms)^((?:// [^\n]*\n)+)type (\w+) struct \{\n(.*?)^\}\n")
FIELD = re.compile(r'^\t\w+\s+(\S+)\s+`py:"(\w+|-)"(?: default:"(\w*)")?`(?:\s*// (.*))?$')
EMBEDDED = re.compile(r"^\t(?:\w+\.)?(\w+)(?:\s*// .*)?$")
NUMBERS = {"int": "int", "int64": "int", "uint32": "int", "uint64": "int", "float64": "float", "Duration": "int"}
SCALARS = {**NUMBERS, "Policy": "int", "Phase": "int", "string": "str", "bool": "bool"}
SCALARS.update(dict.fromkeys(("ID", "State", "Library", "Tag"), "str"))  # by their method String
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
    """A struct of which a field, at least, crosses."""

    name: str
    text: str
    fields: list[Field]
    embedded: bool = False  # then it is no message of its own
    sent: bool = False  # Python writes it, and never reads it


def messages(source: str) -> list[Message]:
    """The messages of a module's source. Anything that this script does not know ends it."""
    known: dict[str, Message] = {}
    for comment, name, body in STRUCT.findall(source):
        if '`py:"' in body:
            known[name] = Message(name, _text(comment, name), _fields(body, name, known))
    for message in reversed(known.values()):  # what is used by others stands above them
        users = [
            user for user in known.values() if any(message.name in re.split(r"\W", field.kind) for field in user.fields)
        ]
        message.sent = all(user.sent for user in users) if users else message.name.endswith("Request")
    return [message for message in known.values() if not message.embedded]


def _text(comment: str, name: str) -> str:
    """Return a docstring's text: Go's comment without its first words."""
    text = " ".join(line.removeprefix("// ") for line in comment.splitlines())
    head, verb, rest = text.partition(" is " if text.startswith(f"{name} is ") else " are ")
    if head != name or not verb:
        raise SystemExit(f"the comment of {name} must begin with '{name} is' or '{name} are'")
    return rest[0].upper() + rest[1:]


def _fields(body: str, message: str, known: dict[str, Message]) -> list[Field]:
    fields, above = [], ""
    for line in body.splitlines():
        if line.startswith("\t// "):
            above = f"{above} {line[4:]}".strip()
            continue
        if embedded := EMBEDDED.match(line):
            known[embedded[1]].embedded = True
            fields += known[embedded[1]].fields
            continue
        parts = FIELD.match(line)
        if not parts:
            raise SystemExit(f"{message} has a line that is no field of a message: {line!r}")
        kind, name, default, beside = parts.groups()
        comment, above = above or beside, ""
        if not comment:
            raise SystemExit(f"{message}.{name} has no comment")
        if name != "-":
            fields.append(Field(name, re.sub(r"\b\w+\.", "", kind), default, comment))
    return fields


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
    raise SystemExit(f"no Python type for {kind}")


def _read(kind: str, value: str) -> str:
    """Return the code that makes a field of what JSON has; the value itself where that is the same."""
    if kind.startswith("*"):
        inner = _read(kind[1:], value)
        return value if inner == value else f"{value} and {inner}"
    if kind.startswith("["):
        item = kind[kind.index("]") + 1 :]
        return f"tuple({value})" if item in SCALARS else f"tuple(map({item}._read, {value}))"
    return value if kind in SCALARS or kind.startswith("map[") else f"{kind}._read({value})"


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
    text = message.text if message.text.endswith(".") else f"{message.text}."
    lines = [f"class {message.name}(Table):"]
    if len(text) + 10 <= COLUMNS:
        lines.append(f'    """{text}"""')
    else:
        first, _, rest = text.partition(". ")
        lines += [f'    """{first}.', ""] if rest else ['    """']
        lines += [*textwrap.wrap(rest or text, COLUMNS, initial_indent="    ", subsequent_indent="    "), '    """']
    lines.append("")
    for field in message.fields:
        lines += _field(field)
    if message.sent:
        return lines
    lines += ["", "    @classmethod", f"    def _read(cls, row: Any) -> {message.name}:"]
    for number, field in enumerate(message.fields):
        value = f"row[{number}]"
        if (read := _read(field.kind, value)) != value:
            lines.append(f"        {value} = {read}")
    return [*lines, "        return cls(*row)"]


def module(name: str, source: str) -> str:
    """The Python module of a part."""
    also = ALSO.get(name, [])
    paths = [SOURCE, *also] if source else also
    sources = " and ".join(dict.fromkeys(str(path.parent.relative_to(ROOT)) for path in paths))
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        f'"""Messages from {sources}.\n\nWritten by pybind/build/generate.py; DO NOT EDIT.\n"""'
        if len(sources) > 40
        else f'"""Messages from {sources}. Written by pybind/build/generate.py; DO NOT EDIT."""',
        "",
        "from __future__ import annotations",
        "",
        "from ..._typing import Any",
        "from ..table import Table",
    ]
    for message in messages("".join([*(path.read_text() for path in also), source])):
        lines += ["", "", *_class(message)]
    return "\n".join([*lines, ""])


def generate() -> dict[Path, str]:
    """The modules, by path."""
    _, *parts = PART.split(SOURCE.read_text())
    package = '# SPDX-License-Identifier: Apache-2.0\n"""What crosses the border to Go: see pybind/wire/wire.go."""\n'
    sources = {**dict.fromkeys(ALSO, ""), **dict(zip(parts[::2], parts[1::2], strict=True))}
    modules = {TARGET / f"{name}.py": module(name, source) for name, source in sources.items()}
    return {TARGET / "__init__.py": package, **modules}
