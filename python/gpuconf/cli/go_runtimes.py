# SPDX-License-Identifier: Apache-2.0
"""Libraries that contain a Go runtime. Go supports one of them in a process."""

from __future__ import annotations

import struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_MOST = 1 << 20  # bytes of section names; libraries have a few hundred
_SECTION = b".go.buildinfo\0"


def is_go(path: str) -> bool:
    """Whether a file is a library or program with a Go runtime. A stripped one has the section, too."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEADER.size)
            if len(head) < _HEADER.size or head[:6] != b"\x7fELF\x02\x01":
                return False
            fields = _HEADER.unpack(head)
            sections, size, names = fields[6], fields[11], fields[13]
            file.seek(sections + names * size)
            _, _, _, _, offset, length = struct.unpack("<IIQQQQ", file.read(40))
            file.seek(offset)
            return _SECTION in file.read(min(length, _MOST))
    except (OSError, struct.error):
        return False


def of_process(pid: int) -> list[str]:
    """Return the mapped files of a process with a Go runtime; none if its maps may not be read."""
    try:
        with open(f"/proc/{pid}/maps", errors="replace") as file:
            mapped = {line.split(None, 5)[5].rstrip("\n") for line in file if " r-xp " in line and "/" in line}
    except OSError:
        return []
    return sorted(path for path in mapped if is_go(path))
