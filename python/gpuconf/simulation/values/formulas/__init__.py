# SPDX-License-Identifier: Apache-2.0
"""How the CPU computes operators that it has no kernel for."""

from __future__ import annotations

from ...._typing import Any
from .table import FORMULAS, REFUSED, REFUSED_SPACES


def formula_of(name: str) -> Any:
    """Return the function that computes an operator on CPU tensors, or None.

    Its first argument is a dispatch key set.
    """
    return FORMULAS.get(name)


def refusal_of(name: str) -> str:
    """Return what to do instead of an operator that is not computed, or ""."""
    return REFUSED.get(name) or REFUSED_SPACES.get(name.partition("::")[0], "")
