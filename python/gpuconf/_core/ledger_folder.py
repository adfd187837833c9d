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
    """Return the ledger's folder: the one that is set, else the machine's if there is one, else a private one of this
    user.

    ``GPUCONF_LEDGER`` sets it, or ``ledger`` in gpuconf.toml.

    A private ledger is in ``/var/tmp``, which outlives the login and is the same for cron and ssh. The user's run-time
    directory and ``/dev/shm`` may be emptied at logout, and a home may be on a network file system. ``TMPDIR`` is not
    read: batch systems give each job its own, and jobs with different ledgers would not see each other's leases.
    """
    environ = os.environ if environ is None else environ
    chosen = settings.value(VARIABLE, environ)
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    if has_ledger(MACHINE_FOLDER):
        return MACHINE_FOLDER
    place = "/var/tmp" if os.path.isdir("/var/tmp") else "/tmp"
    return f"{place}/gpuconf-{os.geteuid()}"


def has_ledger(folder: str) -> bool:
    """Whether a folder is a ledger."""
    return os.path.exists(os.path.join(folder, "ledger"))
