# SPDX-License-Identifier: Apache-2.0
"""The few things about ELF files that the guard and simulated GPUs need: what a library imports, exports and needs, and
making and changing small libraries.

Only 64-bit little-endian files, which is what x86-64 and arm64 have.
"""

from __future__ import annotations

import mmap
import os
import struct
from array import array
from collections.abc import Collection, Iterator, Sequence

from .._typing import Any

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_IDENT = b"\x7fELF\x02\x01\x01" + bytes(9)
_MACHINES = {"x86_64": 62, "aarch64": 183}
_DYN, _INTERP, _LOAD, _DYNAMIC_SEGMENT, _STACK = 3, 3, 1, 2, 0x6474E551
_DYNAMIC_SECTION, _DYNSYM = 6, 11
_NEEDED, _HASH, _STRTAB, _SYMTAB, _STRSZ, _SYMENT, _SONAME, _RPATH = 1, 4, 5, 6, 10, 11, 14, 15
_FLAGS_1, _NODELETE = 0x6FFFFFFB, 8
_MOST_NAMES = 1 << 20  # bytes of section names; libraries have a few hundred


def machine() -> int:
    """The number of this machine's architecture in ELF, or 0 for one that is not supported."""
    return _MACHINES.get(os.uname().machine, 0)


def header_fits(path: str) -> bool:
    """Report whether a file is a 64-bit ELF file for this machine."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEADER.size)
    except OSError:
        return False
    return len(head) == _HEADER.size and head[:6] == _IDENT[:6] and _HEADER.unpack(head)[2] == machine()


def _sections(data: bytes | mmap.mmap) -> list[Any]:
    fields = _HEADER.unpack_from(data)
    offset, size, count = fields[6], fields[11], fields[12]
    return [_SECTION.unpack_from(data, offset + i * size) for i in range(count)]


def _defined(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the dynamic symbols that the file defines: name, and place of the entry in the file."""
    sections = _sections(data)
    for section in sections:
        if section[1] != _DYNSYM:
            continue
        offset, size, strings = section[4], section[5], sections[section[6]][4]
        for number, (name, _, _, where, _, _) in enumerate(_SYMBOL.iter_unpack(data[offset : offset + size])):
            if where != 0:
                begin = strings + name
                yield data[begin : data.index(b"\0", begin)], offset + number * _SYMBOL.size


def is_go(path: str) -> bool:
    """Whether a file is a library or program with a Go runtime. A stripped one has the section, too."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:6] != _IDENT[:6]:
                return False
            offset, length = _sections(data)[_HEADER.unpack_from(data)[13]][4:6]
            return b".go.buildinfo\0" in data[offset : offset + min(length, _MOST_NAMES)]
    except (OSError, ValueError, struct.error, IndexError):
        return False


def needs(path: str) -> tuple[list[str], set[str]]:
    """Return the libraries that a library names as needed, and the symbols that it imports.

    Raises ValueError for another file.
    """
    libraries: list[str] = []
    symbols: set[str] = set()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:

        def text(place: int) -> str:
            return data[place : data.find(b"\0", place)].decode()

        try:
            if data[:6] != _IDENT[:6]:
                raise IndexError("it has another header")
            sections = _sections(data)
            for _, kind, _, _, offset, length, link, _, _, _ in sections:
                content = data[offset : offset + length] if kind in (_DYNAMIC_SECTION, _DYNSYM) else b""
                texts = sections[link][4] if content else 0
                if kind == _DYNAMIC_SECTION:
                    entries = _DYNAMIC.iter_unpack(content)
                    libraries += [text(texts + value) for tag, value in entries if tag == _NEEDED]
                elif kind == _DYNSYM:
                    # An entry begins with its name in 4 bytes, and has its section in the 7th and 8th of 24. PyTorch
                    # has 100,000 of them.
                    names, places = array("I", content)[::6], array("H", content)[3::12]
                    symbols.update(text(texts + name) for name, place in zip(names, places, strict=True) if not place)
        except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not a 64-bit ELF library: {error}") from None
    return libraries, symbols


def exports(path: str) -> set[str] | None:
    """The names that a library defines for others; None if the file cannot tell (it has no section headers)."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        return defined(data) or None
    except (OSError, struct.error, IndexError, ValueError):
        return None


def defined(data: bytes) -> set[str]:
    """The names that a library's file defines for others."""
    return {name.decode("ascii", "replace") for name, _ in _defined(data)}


def without(data: bytes, names: Collection[str]) -> bytes:
    """A library's file without some of its exported names: the loader then goes on to the next library."""
    changed = bytearray(data)
    for name, at in _defined(data):
        if name.decode("ascii", "replace") in names:
            first = _SYMBOL.unpack_from(data, at)
            _SYMBOL.pack_into(changed, at, first[0], first[1], first[2], 0, 0, 0)
    return bytes(changed)


def program_facts(path: str) -> tuple[bool, list[str]]:
    """Return whether a program is linked statically, and the folders of its DT_RPATH, which precedes LD_LIBRARY_PATH.

    What is not an ELF file, such as a script, is neither, nor is one whose tables are not as linkers make them.
    """
    if not header_fits(path):
        return False, []
    with open(path, "rb") as file:
        data = file.read()
    try:
        return _facts(data)
    except (struct.error, IndexError, ValueError, OverflowError):
        return False, []


def _facts(data: bytes) -> tuple[bool, list[str]]:
    fields = _HEADER.unpack_from(data)
    segments = [_PROGRAM.unpack_from(data, fields[5] + i * fields[9]) for i in range(fields[10])]
    kinds = {segment[0]: segment for segment in segments}
    if _INTERP not in kinds or _DYNAMIC_SEGMENT not in kinds:
        return True, []
    offset, size = kinds[_DYNAMIC_SEGMENT][2], kinds[_DYNAMIC_SEGMENT][5]
    entries = [_DYNAMIC.unpack_from(data, at) for at in range(offset, offset + size - _DYNAMIC.size + 1, _DYNAMIC.size)]
    strings = next((value for tag, value in entries if tag == _STRTAB), 0)
    strings = next(
        (strings - s[3] + s[2] for s in segments if s[0] == _LOAD and s[3] <= strings < s[3] + s[5]), strings
    )
    paths = [
        os.fsdecode(data[strings + value : data.index(b"\0", strings + value)])
        for tag, value in entries
        if tag == _RPATH
    ]
    return False, [folder for path in paths for folder in path.split(":")]


def library(soname: str, needed: Sequence[str]) -> bytes:
    """An empty shared library that only needs others, in their order, so that the loader takes it for the one of that
    name.

    It stays in the process when it is closed: otherwise the driver below it may stay without it, and be found by its
    name the next time.
    """
    align = 0x10000  # the largest page of either architecture
    strings = b"\0"
    places = []
    for text in (*needed, soname):
        places.append(len(strings))
        strings += os.fsencode(text) + b"\0"
    strings += bytes(-len(strings) % 8)
    table = struct.pack("<IIII", 1, 1, 0, 0)  # DT_HASH: one bucket, for the null symbol
    symbols = _HEADER.size + 4 * _PROGRAM.size
    hashes = symbols + _SYMBOL.size
    texts = hashes + len(table)
    dynamic = texts + len(strings)
    moved = dynamic + align  # the loader writes there, so it has a segment of its own
    entries = [(_NEEDED, place) for place in places[:-1]]
    entries += [(_SONAME, places[-1]), (_HASH, hashes), (_STRTAB, texts), (_SYMTAB, symbols)]
    entries += [(_STRSZ, len(strings)), (_SYMENT, _SYMBOL.size), (_FLAGS_1, _NODELETE), (0, 0)]
    listed = b"".join(_DYNAMIC.pack(*entry) for entry in entries)
    head = _HEADER.pack(_IDENT, _DYN, machine(), 1, 0, _HEADER.size, 0, 0, _HEADER.size, _PROGRAM.size, 4, 64, 0, 0)
    segments = _PROGRAM.pack(_LOAD, 4, 0, 0, 0, dynamic, dynamic, align)
    segments += _PROGRAM.pack(_LOAD, 6, dynamic, moved, moved, len(listed), len(listed), align)
    segments += _PROGRAM.pack(_DYNAMIC_SEGMENT, 6, dynamic, moved, moved, len(listed), len(listed), 8)
    segments += _PROGRAM.pack(_STACK, 6, 0, 0, 0, 0, 0, 16)  # without it, stacks would become executable
    return head + segments + bytes(_SYMBOL.size) + table + strings + listed
