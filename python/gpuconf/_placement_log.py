"""Where operations run, told on standard error: on ``sys.stderr``, so that notebooks and pytest see it."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ._native import core


def write(lines: Iterable[str]) -> None:
    """Write lines in one go, so that those of several threads don't mix."""
    text = "".join(f"{line}\n" for line in lines)
    if text and sys.stderr is not None:
        sys.stderr.write(text)
        sys.stderr.flush()


def tell() -> None:
    """Write what eager operations have left to tell, and log their warnings."""
    text = core.pybind_DrainPlacementLog()
    import json

    from ._notices import publish

    write(json.loads(text))
    publish()
