# SPDX-License-Identifier: Apache-2.0
"""The IPython shell that this process runs in."""

from __future__ import annotations

import sys

from .._typing import Any


def shell() -> Any:
    """Return IPython's shell if this process runs in one, else None. Imports nothing."""
    module = sys.modules.get("IPython.core.interactiveshell")
    cls = getattr(module, "InteractiveShell", None)
    if cls is None or not cls.initialized():
        return None
    return cls.instance()
