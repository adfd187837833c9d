# SPDX-License-Identifier: Apache-2.0
"""The parts of Dask that are not in its documentation. A version of Dask without one of them is refused with its name."""

from __future__ import annotations

import distributed

from .. import errors
from .._typing import Any


def need(owner: object, attribute: str, what: str) -> Any:
    """Return an attribute of one of Dask's objects, or raise UnavailableError that names it and what needs it."""
    try:
        return getattr(owner, attribute)
    except AttributeError:
        kind = owner.__name__ if isinstance(owner, type) else type(owner).__name__
        raise errors.UnavailableError(
            f"{what} needs {kind}.{attribute}, which Dask {distributed.__version__} does not have: "
            "pip install -U 'gpuconf[dask]', or report the version"
        ) from None
