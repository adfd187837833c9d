# SPDX-License-Identifier: Apache-2.0
"""What needs a package that gpuconf does not depend on says so in one form, and with one class: see :func:`missing`."""

from __future__ import annotations

from .. import errors


def missing(what: str, package: str, extra: str, error: ImportError) -> errors.MissingPackageError:
    """Return the error for a feature whose package cannot be imported: one line that ends with the command that
    installs it.

    ``what`` is the feature, with its verb. If the package is there, but its import fails, the line has the reason, too.
    """
    reason = "" if isinstance(error, ModuleNotFoundError) and error.name and "." not in error.name else f" ({error})"
    found = errors.MissingPackageError(f"{what} {package}{reason}: pip install 'gpuconf[{extra}]'")
    found.name = error.name
    return found
