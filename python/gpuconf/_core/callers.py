# SPDX-License-Identifier: Apache-2.0
"""The line of the program that called gpuconf."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType


def calling_frame() -> FrameType:
    """Return the frame outside gpuconf that called into it."""
    # Not made absolute: that fails in a deleted working directory.
    package = os.path.dirname(os.path.dirname(__file__)) + os.sep
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
    return frame


def warn(text: str) -> None:
    """Warn the line that called, of a mistake that is no error: programs without logging must see it, too."""
    import warnings

    frame = calling_frame()
    warnings.warn_explicit(text, UserWarning, frame.f_code.co_filename, frame.f_lineno)
