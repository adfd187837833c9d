# SPDX-License-Identifier: Apache-2.0
"""``python -m gpuconf``, and the command ``gpuconf``."""

from __future__ import annotations

import os
import sys

from ._typing import NoReturn


def main() -> int:
    """Run the command and return its exit code."""
    try:
        from ._core import when_loaded
        from .cli.main import main as command  # imported here, so that Ctrl-C during the imports shows no traceback

        when_loaded.clear()  # a command imports what it needs: all of gpuconf would take longer than the rest of its start

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
