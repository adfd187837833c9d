# SPDX-License-Identifier: Apache-2.0
"""The parts of Ray that are not in its documentation. A version of Ray without one of them is refused with its name."""

from __future__ import annotations

import ray

from .. import errors
from .._typing import Any


def need(owner: object, attribute: str, what: str) -> Any:
    """Return an attribute of one of Ray's objects, or raise UnavailableError that names it and what needs it."""
    try:
        return getattr(owner, attribute)
    except AttributeError:
        kind = owner.__name__ if isinstance(owner, type) else type(owner).__name__
        raise errors.UnavailableError(
            f"{what} needs {kind}.{attribute}, which Ray {ray.__version__} does not have: "
            "pip install -U 'gpuconf[ray]', or report the version"
        ) from None
