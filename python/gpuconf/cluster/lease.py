# SPDX-License-Identifier: Apache-2.0
"""A process's share, leased from the machine's ledger: processes of other clusters and users share the cards with
it.
"""

from __future__ import annotations

import os

from .. import errors
from .._core import texts
from .._core.fork import module_lock
from .._typing import Any
from .share import Share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..leases.lease import Lease

_lock = module_lock(globals(), "_lock")
_held: tuple[Share, Lease] | None = None  # guarded by _lock; until the process ends


def checked_timeout(wanted: Any, timeout: Any) -> float | None:
    """Return the seconds to wait for a lease, None for no lease. Raises InvalidTypeError or InvalidArgumentError."""
    if not isinstance(wanted, bool):
        raise errors.InvalidTypeError(f"lease must be True or False, but got {texts.shown(wanted)}")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise errors.InvalidTypeError(f"lease_timeout must be a number of seconds, but got {texts.shown(timeout)}")
    if not 0 <= timeout < float("inf"):
        raise errors.InvalidArgumentError(f"lease_timeout must be at least 0 seconds and finite, but got {timeout}")
    return float(timeout) if wanted else None


def take_lease(share: Share, timeout: float, who: str) -> Share:
    """Lease a share's memory on one of the GPUs that this process sees, and return the share in bytes.

    The lease lasts as long as the process. Raises DeadlineExceededError after ``timeout`` seconds, and
    FailedPreconditionError if the process has leased another share.
    """
    global _held
    from ..leases.lease import lease

    with _lock:
        if _held is not None:
            before, holding = _held
            if before != share:
                raise errors.FailedPreconditionError(
                    f"{who}: this process has a lease already, {holding!r}: restart it to change that"
                )
            return share._replace(memory=holding.memory)
        if share.simulate is not None:
            os.environ["GPUCONF_SIMULATE"] = share.simulate
        try:
            holding = lease(share.memory, timeout=timeout, name=who).__enter__()
        except errors.GpuconfError as error:
            raise type(error)(f"{who}: {error.message}") from error
        _held = share, holding
        return share._replace(memory=holding.memory)
