"""Where operations run, told on standard error: on ``sys.stderr``, so that notebooks and pytest see it."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from .._core.native import core


def write(lines: Iterable[str]) -> None:
    """Write lines in one go, so that those of several threads don't mix."""
    text = "".join(f"{line}\n" for line in lines)
    if not text or sys.stderr is None:
        return
    try:
        encoding = getattr(sys.stderr, "encoding", None)
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding) if encoding else text)
        sys.stderr.flush()
    except (OSError, ValueError, LookupError):
        pass  # a stream that is closed or full: what the lines tell of is done, and must not be lost with them


def tell() -> None:
    """Write what eager operations have left to tell, and log their warnings."""
    text = core.pybind_DrainPlacementLog()
    import json

    from .._core.notices import publish

    write(json.loads(text))
    publish()
