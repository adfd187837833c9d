# SPDX-License-Identifier: Apache-2.0
"""Runs gpuconf's startup code in a Python that has gpuconf, for a program on simulated GPUs.

``gpuconf_startup.pth`` imports this file. It is outside the package, whose import takes longer.
"""

import sys

_FOLDER = f"{__file__.rpartition('/')[0]}/gpuconf/_startup"

sys.path.insert(0, _FOLDER)
try:
    import gpuconf_startup  # type: ignore[import-not-found]
finally:
    sys.path.remove(_FOLDER)
gpuconf_startup.activate()
