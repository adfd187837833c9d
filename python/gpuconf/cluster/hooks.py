# SPDX-License-Identifier: Apache-2.0
"""The parts of Dask and Ray that are not in their documentation.

A version without one of them is refused with its name.
"""

from __future__ import annotations

import sys

from .. import errors
from .._typing import Any

_MODULES = {"Dask": "distributed", "Ray": "ray"}  # by library: the one with its version


def need(library: str, owner: object, attribute: str, what: str) -> Any:
    """Return an attribute of one of a library's objects, or raise UnavailableError that names it and what needs it."""
    try:
        return getattr(owner, attribute)
    except AttributeError:
        kind = owner.__name__ if isinstance(owner, type) else type(owner).__name__
        version = sys.modules[_MODULES[library]].__version__
        raise errors.UnavailableError(
            f"{what} needs {kind}.{attribute}, which {library} {version} does not have: "
            f"pip install -U 'gpuconf[{library.lower()}]', or report the version"
        ) from None
