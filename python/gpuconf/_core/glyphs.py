# SPDX-License-Identifier: Apache-2.0
"""Characters for drawings: blocks and shades, or ASCII if a stream's encoding lacks these."""

from __future__ import annotations

from collections.abc import Callable

from .._typing import NamedTuple


class Glyphs(NamedTuple):
    """The characters for a full, a partly used and a free cell, and for the ends of a bar."""

    full: str
    part: str
    free: str
    left: str
    right: str


BLOCKS = Glyphs("█", "▒", "·", "▕", "▏")
ASCII = Glyphs("#", "+", ".", "|", "|")


def glyphs_of(stream: object) -> Glyphs:
    """Return the characters that a stream can write.

    A stream without an encoding, such as ``io.StringIO``, can write all.
    """
    encoding = getattr(stream, "encoding", None)
    if not isinstance(encoding, str):
        return BLOCKS
    try:
        "".join(BLOCKS).encode(encoding)
    except (UnicodeError, LookupError):
        return ASCII
    return BLOCKS


_SHADES = str.maketrans("█▓▒░·", "#=+-.")


def writable(stream: object) -> Callable[[str], str]:
    """Return a function that replaces the shades of a bar by ASCII if a stream's encoding lacks them."""
    return str if glyphs_of(stream) is BLOCKS else lambda text: text.translate(_SHADES)
