# SPDX-License-Identifier: Apache-2.0
"""The grammar of sizes in text: ``1073741824``, ``1GiB``, ``500MB``, ``50%``.

The startup code of ``gpuconf run`` loads this file by its path, in any Python 3.6 or newer, without gpuconf.
So it imports nothing.
"""

_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_DIGITS = "0123456789"  # str.isdecimal and int() accept the digits of all scripts
_MOST = 2**63 - 1  # the largest int that the core accepts


def _meant(text: str) -> str:
    """Return a question for a number whose unit begins as one of ours does: 6G, 6 gigs, 500 megabytes."""
    unit = text.lstrip(_DIGITS + ".")
    number, first = text[: len(text) - len(unit)], unit.strip()[:1].upper()
    if not number.replace(".", "", 1).isdigit() or not unit.strip().isalpha() or first not in "KMGT":
        return ""
    return "; did you mean '" + number + first + "iB'?"


def size_of(text: str, total: object = None) -> int:
    """Return the bytes that a text means. Percentages are of ``total``. Raises ValueError with the end of a message."""
    stripped = text.strip()
    unit = stripped.lstrip(_DIGITS + ".")
    whole, _, fraction = stripped[: len(stripped) - len(unit)].partition(".")
    unit = unit.strip().upper()
    # Some non-ASCII letters, such as the dotless i, have an ASCII capital letter.
    if (
        any(ord(letter) > 127 for letter in text)
        or not whole + fraction
        or "." in fraction
        or not (unit in _UNITS or unit == "%")
    ):
        examples = "'500MB', '6GiB'" if total is None else "'500MB', '6GiB' or '50%'"
        raise ValueError("is not a size: write bytes, " + examples + _meant(stripped))
    if unit == "%" and not isinstance(total, int):
        raise ValueError("is a percentage, but the GPU is not known here; write bytes or '6GiB'")
    # Python does not parse numbers with more than a few thousand digits.
    whole, fraction = whole.lstrip("0")[:30], fraction[:30]
    number = int(whole + fraction or "0")
    scale = 10 ** len(fraction)
    if isinstance(total, int) and unit == "%":
        if not 0 < number <= 100 * scale:
            raise ValueError("is no part of a GPU: it must be more than 0% and at most 100%")
        return int(number * total // (100 * scale))
    if unit in ("", "B") and fraction.strip("0"):
        part = isinstance(total, int) and number <= scale
        hint = f"; did you mean '{100 * number / scale:g}%'?" if part else ""
        raise ValueError("is not a whole number of bytes: write a unit, such as '6GiB'" + hint)
    found = int(number * _UNITS[unit] // scale)
    if found > _MOST:
        raise ValueError("is too large: at most 2**63 - 1 bytes")
    return found
