# SPDX-License-Identifier: Apache-2.0
"""Keyword arguments that a function does not have: what was probably meant. Python names only the wrong one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import errors


def refuse_unknown(
    function: str, unknown: Mapping[str, object], known: Sequence[str], meant: Mapping[str, str]
) -> None:
    """Raise InvalidTypeError for the first keyword that a function does not know.

    ``meant`` has words of other tools.
    """
    for name in unknown:
        import difflib

        near = meant.get(name) or next(iter(difflib.get_close_matches(name, known, 1)), None)
        hint = f". Did you mean {near!r}?" if near else f": it has {', '.join(known[:-1])} and {known[-1]}"
        raise errors.InvalidTypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")
