# SPDX-License-Identifier: Apache-2.0
"""Options of ``gpuconf run`` that stand after the program's name: they are the program's, which is often not what was
meant.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import console

_OPTIONS = ("--memory", "--gpus", "--growth", "--simulate", "--guard", "--as-tensorflow")
_ENOUGH = 1 << 20  # bytes of a script

# Words of scripts that read their arguments, or that call a module which may.
_READS = (b"argv", b"parse", b"main", b"absl", b"click", b"fire", b"hydra", b"typer", b"tyro")


def note_late_options(words: Sequence[str]) -> None:
    """Say that an option of gpuconf's goes to Python or to a script that cannot mean it.

    Other programs have options of these names: ``docker run --gpus all``. So may a script, and it is silent about those
    that show any sign of reading their arguments.
    """
    places = [place for place, word in enumerate(words) if word.partition("=")[0] in _OPTIONS]
    if not places or {"-c", "-m"} & set(words[: places[0]]):
        return
    late = words[places[0]].partition("=")[0]
    from ..jobs.descendants import is_python

    script = next((word for word in words[1:] if word.endswith(".py")), "")
    before = words[1 : words.index(script)] if script else words[1:]
    if is_python(words[0]) and (any(word.startswith(late) for word in before) or not _may_read(script, late)):
        console.complain(
            f"gpuconf run: {late} is passed to {words[0]}: gpuconf's own options come before the program's name"
        )


def _may_read(script: str, option: str) -> bool:
    try:
        with open(script, "rb") as file:
            text = file.read(_ENOUGH)
    except OSError:
        return True
    return any(word in text for word in (*_READS, option.strip("-").replace("-", "_").encode(), option.encode()))
