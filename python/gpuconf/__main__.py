# SPDX-License-Identifier: Apache-2.0
"""``python -m gpuconf``, and the command ``gpuconf``."""

from __future__ import annotations

import gc
import os
import sys

from ._typing import NoReturn

# How many more objects there are when Python looks for cycles of them. A command's imports make tens of thousands, and
# no cycles.
_UNTIL_COLLECTED = 100_000


def main() -> int:
    """Run the command and return its exit code."""
    gc.set_threshold(_UNTIL_COLLECTED)
    try:
        from ._core import when_loaded
        from .cli.main import main as command  # imported here, so that Ctrl-C during the imports shows no traceback

        # A command imports what it needs: all of gpuconf would take longer than the rest of its start.
        when_loaded.clear()

        code = command()
    except KeyboardInterrupt:
        return 130
    return _end(code)


def _end(code: int) -> NoReturn:
    """End the process. The interpreter's own end would free every object first, which takes as long as its start.

    The command has flushed its streams. Exit handlers run: instrumentation that runs in this process may need them.
    """
    import atexit

    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:  # noqa: SIM105 - contextlib takes time to import, too
            stream.flush()
        except (OSError, ValueError):  # what an exit handler wrote
            pass
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
