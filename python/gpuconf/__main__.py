# SPDX-License-Identifier: Apache-2.0
"""``python -m gpuconf``, and the command ``gpuconf``."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command and return its exit code."""
    try:
        from .cli.main import main as command  # imported here, so that Ctrl-C during the imports shows no traceback

        return command()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
