"""Whether functions run eagerly: in gpuconf they always do, so the switch is only kept."""

from __future__ import annotations

_eagerly = False


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Keep the switch. gpuconf has no traced functions: everything runs eagerly."""
    global _eagerly
    _eagerly = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Give back what ``run_functions_eagerly`` set; ``False`` at first.

    >>> functions_run_eagerly()
    False
    """
    return _eagerly


experimental_run_functions_eagerly = run_functions_eagerly
experimental_functions_run_eagerly = functions_run_eagerly
