# SPDX-License-Identifier: Apache-2.0
"""``gpuconf diff``."""

from __future__ import annotations

import os

from .._core.files import replacing
from ..errors import MissingPackageError
from ..memory import load_trace
from ..plans.pages import report
from ..plans.programs import needs
from ..plans.recordings import difference
from . import console
from .console import DIFFERS, OK, CheckingUsage, Progress, UsageError
from .output import print_json
from .parser import Options

_MOST = 20  # lines of a program, for each GPU


def _refuse_unlike(names: list[str], cards: list[str]) -> None:
    """Refuse recordings of rehearsals on cards on which PyTorch uses other kernels, with other temporary memory."""
    if len(set(cards)) > 1 and all(cards) and len(needs.alike(needs.parse(",".join(cards)))) > 1:
        raise UsageError(
            f"{names[0]} was recorded on {cards[0]} and {names[1]} on {cards[1]}, where PyTorch uses other kernels: "
            "record both with the same --gpu"
        )


def _plotly(path: str) -> str:
    """Return plotly's library for a page, "" without it: the page then has tables only."""
    try:
        return report.plotly_script(path)
    except MissingPackageError:
        return ""


def diff(options: Options) -> int:
    """Run the command."""
    if (options.new is None) == (options.between is None):
        raise UsageError("name two recordings, or one and two moments in it: --between T1 T2")
    names = [name for name in (options.old, options.new) if name is not None]
    for name in names:
        there = options.html is not None and os.path.exists(options.html) and os.path.exists(name)
        if there and os.path.samefile(options.html, name):
            raise UsageError(f"--html would replace the trace {name!r}")
    library = ""
    if options.html is not None:
        with CheckingUsage("--html: "):
            library = _plotly(options.html)
    with Progress("gpuconf diff") as progress:
        progress.show("reading the traces")
        traces = [load_trace(name) for name in names]
        _refuse_unlike(names, [trace._settings.get("card", "") for trace in traces])
        of_one = options.between is not None
        differences = difference.between(traces[0], *options.between) if of_one else difference.difference(*traces)
    for each in differences:
        if each.moments is not None and max(each.moments) < max(options.between):
            console.complain(f"gpuconf diff: the recording of GPU:{each.gpu} ends after {max(each.moments):.3g} s")
    if options.between is not None:
        names = [f"{options.old} after {difference.decimal(seconds)} s" for seconds in options.between]
    if options.html is not None:
        drawn = traces if options.between is None and library else []
        # File names may be undecodable.
        with replacing(options.html, encoding="utf-8", errors="backslashreplace") as file:
            file.write(difference.page(differences, (names[0], names[1]), drawn, library if drawn else ""))
    if options.json:
        print_json({"old": options.old, "new": options.new, "gpus": [each.to_dict() for each in differences]})
    else:
        print(*difference.lines(differences, _MOST), sep="\n")
    return DIFFERS if any(each.bytes_grown > 0 for each in differences) else OK
