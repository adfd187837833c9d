# SPDX-License-Identifier: Apache-2.0
"""Whether functions run eagerly. In gpuconf they always do; the switch is only stored."""

from __future__ import annotations

_eagerly = False


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Store the switch. Has no effect: gpuconf has no traced functions and always runs eagerly."""
    global _eagerly
    _eagerly = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Return the value that ``run_functions_eagerly`` set, by default ``False``.

    >>> functions_run_eagerly()
    False
    """
    return _eagerly


experimental_run_functions_eagerly = run_functions_eagerly
experimental_functions_run_eagerly = functions_run_eagerly
