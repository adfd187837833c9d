"""The characters of drawings: blocks and shades, or ASCII where a stream's encoding has no others."""

from __future__ import annotations

from collections import namedtuple


class Glyphs(namedtuple("Glyphs", ["full", "part", "free", "left", "right"])):
    """A cell that is in use, one that is partly so, one that is free, and the ends of a bar."""

    __slots__ = ()

    full: str
    part: str
    free: str
    left: str
    right: str


BLOCKS = Glyphs("█", "▒", "·", "▕", "▏")
ASCII = Glyphs("#", "+", ".", "|", "|")


def glyphs_of(stream: object) -> Glyphs:
    """The characters that a stream can write. One that does not say its encoding takes them all, as ``io.StringIO`` does."""
    encoding = getattr(stream, "encoding", None)
    if not isinstance(encoding, str):
        return BLOCKS
    try:
        "".join(BLOCKS).encode(encoding)
    except (UnicodeError, LookupError):
        return ASCII
    return BLOCKS
