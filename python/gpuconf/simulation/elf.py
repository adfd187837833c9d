# SPDX-License-Identifier: Apache-2.0
"""Reads what a 64-bit shared library needs, and makes an empty one with a name.

Little-endian, as x86-64 and arm64 are.
"""

from __future__ import annotations

import mmap
import struct
from array import array

_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_DT_NEEDED, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 1, 5, 6, 10, 11, 14
_SHT_DYNSYM = 11


def needs(path: str) -> tuple[list[str], set[str]]:
    """Return the libraries that a library names as needed, and the symbols that it imports.

    Raises ValueError for another file.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return _needs(data)
        except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not a 64-bit ELF library: {error}") from None


def _needs(data: mmap.mmap) -> tuple[list[str], set[str]]:
    if data[:6] != b"\x7fELF\x02\x01":
        raise IndexError("it has another header")
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]
    libraries: list[str] = []
    symbols: set[str] = set()
    for _, kind, _, _, offset, length, link, _, _, _ in sections:
        if kind not in (_SHT_DYNSYM, 6):
            continue
        texts = sections[link][4]
        content = data[offset : offset + length]
        if kind == 6:
            entries = struct.iter_unpack("<qQ", content)
            libraries += [_text(data, texts + value) for tag, value in entries if tag == _DT_NEEDED]
        else:
            # An entry begins with its name in 4 bytes, and has its section in the 7th and 8th of 24. PyTorch has
            # 100,000 of them.
            names, places = array("I", content)[::6], array("H", content)[3::12]
            symbols.update(_text(data, texts + name) for name, place in zip(names, places, strict=True) if not place)
    return libraries, symbols


def _text(data: mmap.mmap, at: int) -> str:
    return data[at : data.find(b"\0", at)].decode()


def empty(name: str, needed: str, machine: int) -> bytes:
    """Return a library that has only a name and one needed library, so that the loader takes it for the one of that
    name.
    """
    texts = b"\0" + name.encode() + b"\0" + needed.encode() + b"\0"
    strings = 64 + 3 * 56
    symbols = (strings + len(texts) + 7) & ~7
    dynamic = symbols + 24
    tags = (
        (_DT_SONAME, 1), (_DT_NEEDED, 2 + len(name.encode())), (_DT_STRTAB, strings), (_DT_SYMTAB, symbols),
        (_DT_STRSZ, len(texts)), (_DT_SYMENT, 24), (0, 0),
    )  # fmt: skip
    end = dynamic + 16 * len(tags)
    header = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, 3, 64, 0, 0)
    )
    segments = b"".join(
        struct.pack("<IIQQQQQQ", kind, 6, offset, offset, offset, size, size, align)
        for kind, offset, size, align in (
            (_LOAD, 0, end, 0x10000),
            (_DYNAMIC, dynamic, end - dynamic, 8),
            (_STACK, 0, 0, 16),  # without it, the loader makes stacks executable
        )
    )
    body = texts + bytes(dynamic - strings - len(texts))
    return header + segments + body + b"".join(struct.pack("<QQ", *tag) for tag in tags)
