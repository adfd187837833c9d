# SPDX-License-Identifier: Apache-2.0
"""Results of functions: byte counts and tables as text, the characters of drawings, and base classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .._typing import Any, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar, TypeVar

    from typing_extensions import Self, dataclass_transform

    T = TypeVar("T")
else:
    from .._typing import named_tuple


# Text tables.


def columns(rows: Sequence[tuple[str, ...]], left: int) -> list[str]:
    """Return lines with aligned columns: the first ``left`` are left-aligned, the others right-aligned."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def counted(number: int, one: str, more: str = "") -> str:
    """Return a number of things: "1 block", "2 blocks", or "2 entries" if ``more`` says so."""
    return f"{number} {one if number == 1 else more or one + 's'}"


# Characters for drawings: blocks and shades, or ASCII if a stream's encoding lacks these.


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


# Human-readable byte counts, as TensorFlow prints them.


def human_bytes(count: int) -> str:
    """Return three to four digits and a binary unit.

    >>> human_bytes(1023), human_bytes(1536), human_bytes(85899345920)
    ('1023B', '1.5KiB', '80.00GiB')
    """
    if count < 0:
        return "-" + human_bytes(-count)
    if count < 1024:
        return f"{count}B"
    units = "KMGTPE"
    unit = 0
    while count >= 1 << 20 and unit < len(units) - 1:
        count //= 1024
        unit += 1
    return f"{count / 1024:.{1 if unit == 0 else 2}f}{units[unit]}iB"


def human_limit(count: int) -> str:
    """Return what ``human_bytes`` does, rounded up: under a limit of this text, a program that needs ``count`` bytes
    fits.

    >>> human_bytes((4 << 30) + 1), human_limit((4 << 30) + 1), human_limit(4 << 30)
    ('4.00GiB', '4.01GiB', '4.00GiB')
    """
    if count < 1 << 20:
        return human_bytes(count)
    unit = min((count.bit_length() - 1) // 10, 6)
    hundredths = -(-count * 100 >> 10 * unit)
    return f"{hundredths // 100}.{hundredths % 100:02}{'KMGTPE'[unit - 1]}iB"


def job_memory_text(limit: int, pools: int, outside: int, free: int) -> str:
    """Return the parts of a job's limit on a GPU, given in bytes.

    While lent memory is returned the limit is less than what the job still has:

    >>> job_memory_text(2 << 30, 3 << 30, 0, 0)
    'limit 2.00GiB < pools 3.00GiB + outside 0B + free 0B'
    """
    parts = f"pools {human_bytes(pools)} + outside {human_bytes(outside)} + free {human_bytes(free)}"
    return f"limit {human_bytes(limit)} {'<' if limit < pools + outside else '='} {parts}"


class Fields:
    """The methods of tables, also of those that are no named tuples but have ``_fields``."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for ``json.dumps``: nested tables become dictionaries, and tuples become
        lists.
        """
        return {name: _plain(getattr(self, name)) for name in self._fields}  # type: ignore[attr-defined]


if TYPE_CHECKING:

    @dataclass_transform(frozen_default=True)
    class _OfFields(type):
        pass

    class Table(Fields, tuple[Any, ...], metaclass=_OfFields):
        """A named tuple with ``to_dict``: each class below it lists its fields, as below ``typing.NamedTuple``."""

        __slots__ = ()

        _fields: ClassVar[tuple[str, ...]]

        def _replace(self, **fields: Any) -> Self: ...
        def _asdict(self) -> dict[str, Any]: ...
else:
    Table = named_tuple("Table", Fields)


def _plain(value: Any) -> Any:
    if isinstance(value, Fields):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return list(map(_plain, value))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


class Printed:
    """A mixin for results that IPython and notebooks show as ``print`` does."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        # IPython asks a class for this method and for __repr__ before it asks the next class of its bases.
        cls._repr_pretty_ = cls._repr_pretty_  # type: ignore[method-assign]

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        printer.text(str(self))


# Classes whose instances are created by functions, not by calling the class.


class Made(type):
    """The metaclass of such a class.

    Calling the class raises an error that names the functions (``_made_by``); they call ``make``.

    Instances constructed from arbitrary arguments would fail later, in methods that cannot report the cause.
    """

    _made_by: str

    def __call__(cls, *_: Any, **__: Any) -> Any:
        from .. import errors  # only here: commands that print a table and start a program need none of them

        raise errors.InvalidTypeError(f"{cls.__name__} objects cannot be created directly: {cls._made_by}")


def make(cls: type[T], *arguments: Any) -> T:
    """Create an instance of such a class."""
    made: T = type.__call__(cls, *arguments)
    return made
