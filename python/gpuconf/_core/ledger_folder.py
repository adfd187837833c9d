# SPDX-License-Identifier: Apache-2.0
"""Where the ledger is."""

from __future__ import annotations

import os

from . import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "GPUCONF_LEDGER"

# An administrator makes this one for all users with `gpuconf ledger init --shared`.
MACHINE_FOLDER = "/var/lib/gpuconf/ledger"


def default_folder(environ: Mapping[str, str] | None = None) -> str:
    """Return the ledger's folder: the one that is set, else the machine's if there is one, else a private one of this user.

    ``GPUCONF_LEDGER`` sets it, or ``ledger`` in gpuconf.toml.

    A private ledger is in the user's run-time directory, or in ``/tmp`` if there is none. ``TMPDIR`` is not read: batch systems
    give each job its own, and jobs with different ledgers would not see each other's leases.
    """
    environ = os.environ if environ is None else environ
    chosen = settings.value(VARIABLE, environ)
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    if has_ledger(MACHINE_FOLDER):
        return MACHINE_FOLDER
    user = os.geteuid()
    for place in (environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{user}"):
        if os.path.isabs(place) and _is_own(place, user):
            return os.path.join(place, "gpuconf-ledger")
    return f"/tmp/gpuconf-ledger-{user}"


def _is_own(place: str, user: int) -> bool:
    """Whether a folder belongs to this user. After ``su``, XDG_RUNTIME_DIR is still that of the other user."""
    try:
        return os.stat(place).st_uid == user
    except OSError:
        return False


def has_ledger(folder: str) -> bool:
    """Whether a folder is a ledger."""
    return os.path.exists(os.path.join(folder, "ledger"))
