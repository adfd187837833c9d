# SPDX-License-Identifier: Apache-2.0
"""``python -m gpuconf``: the command ``gpuconf``."""

from __future__ import annotations

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
