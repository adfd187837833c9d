# SPDX-License-Identifier: Apache-2.0
"""A report of a trace as one HTML page."""

from __future__ import annotations

import os

from ... import errors
from ..._core import texts
from ..._core.files import replacing
from ..._typing import Any
from ...memory._record import Recording
from ...memory._trace import Trace, load_trace
from ..recordings.replay import Plan, find
from .history import by_event, histories
from .program import OfProgram


def report(
    trace: Trace | Recording | str | os.PathLike[str],
    path: str | os.PathLike[str],
    limit: int | str | None = None,
    gpu: str | None = None,
) -> None:
    """Write a report of a trace: one HTML page that contains all it needs and can be opened without a network.

    For each logical GPU it shows memory in use over time by library and tag, the least limit that the job needs under
    each policy of :func:`gpuconf.plan`, the call sites that hold the most at the peak, and a map of the memory at the
    peak with its fragmentation. Pointing at a block shows its size, library, tag and call site. Call sites are in the
    recordings of ``record(stacks=True)`` and in PyTorch's snapshots.

    ``trace`` is a Trace, a stopped Recording, or a file for :func:`load_trace`; ``path`` is the file to write.
    ``limit`` and ``gpu`` are as for :func:`gpuconf.plan`. Time is divided into at most 1000 intervals. Each shows the
    moments of its least and of its greatest memory in use, so peaks are exact. The map joins neighboring blocks that
    are too small to draw.

    Requires plotly (``gpuconf[report]``); raises MissingPackageError without it. Raises ValueError for an invalid
    trace, limit or GPU, and OSError as ``open`` does.
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise errors.InvalidTypeError(f"path must be the page to write, after the trace, but got {texts.shown(path)}")
    plotly_script(path)  # if it is missing, the rest would be in vain
    trace = trace if isinstance(trace, Trace) else trace.trace if isinstance(trace, Recording) else load_trace(trace)
    write(trace, find(trace, limit=limit, gpu=gpu), path)


def write(trace: Trace, found: Plan, path: str | os.PathLike[str], of: OfProgram | None = None) -> None:
    """Write the report of a trace and its plan, or of a rehearsed program."""
    library = plotly_script(path)
    from . import figures

    text = figures.render(histories(trace, by_event(trace) if of else None), found, library, of)
    # File names may contain undecodable bytes.
    with replacing(path, encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def plotly_script(path: str | os.PathLike[str]) -> str:
    """Return plotly's JavaScript library for a page. Raises MissingPackageError if plotly is not installed."""
    others = (".pdf", ".png", ".svg", ".jpg", ".json", ".py", ".ipynb", ".csv", ".pickle")
    if os.fsdecode(path).lower().endswith(others):
        raise errors.InvalidArgumentError(
            f"{os.fsdecode(path)!r} would be a page in HTML: write a name such as page.html"
        )
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise texts.missing("the report needs", "plotly", "report", error) from None
    library: Any = get_plotlyjs()
    return str(library)
