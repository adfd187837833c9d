# SPDX-License-Identifier: Apache-2.0
"""The log of device placement, written to ``sys.stderr`` so that notebooks and pytest capture it."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from .._core.message import loads
from .._core.native import core


def write(lines: Iterable[str]) -> None:
    """Write lines in one call, so that lines of different threads do not interleave."""
    text = "".join(f"{line}\n" for line in lines)
    if not text or sys.stderr is None:
        return
    try:
        encoding = getattr(sys.stderr, "encoding", None)
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding) if encoding else text)
        sys.stderr.flush()
    except (OSError, ValueError, LookupError):
        pass  # the stream is closed or full: the operations have run, and their results must not be lost


def write_pending() -> None:
    """Write the queued placements of eager operations, and log their warnings."""
    text = core.pybind_DrainPlacementLog()
    from .._core.notices import publish

    write(loads(text))
    publish()
