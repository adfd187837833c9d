# SPDX-License-Identifier: Apache-2.0
"""How ``gpuconf top`` ends a job: it asks first, and signals the very process that it asked about."""

from __future__ import annotations

import os
import signal

from ..leases.view import Share, view
from .processes import rows_of

_NOT_HERE = {"gone", "zombie", "other container", "host PID"}  # notes of processes without a number of ours


class RefusedError(Exception):
    """The job cannot be ended from here; the text says why."""


class Ending:
    """The process that a job is ended by: the one that leased its memory, or else the one that uses the card.

    ``gpuconf run`` passes the signal on to its program. The process is held by a file descriptor, because its number
    may be another process's by the time of the answer. Raises RefusedError.
    """

    def __init__(self, share: Share) -> None:
        pid = self._pid = share.lease_pid or share.pid
        elsewhere = sorted(_NOT_HERE & set(share.notes))
        if elsewhere:
            raise RefusedError(f"PID {pid} cannot be ended from here: {elsewhere[0]}")
        try:
            self._process = os.pidfd_open(pid)
        except OSError as error:
            raise RefusedError(f"PID {pid} cannot be ended: {error.strerror}") from None
        try:
            # What the screen shows may be a second old. A process that still has its share now is the one held.
            kept = any(one.claim == share.claim and (one.lease_pid or one.pid) == pid for _, one in rows_of(view()))
            if not kept:
                raise RefusedError(f"PID {pid} has ended")
            if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
                raise RefusedError(f"PID {pid} is not yours: only its user can end it here")
        except FileNotFoundError:
            self.close()
            raise RefusedError(f"PID {pid} has ended") from None
        except RefusedError:
            self.close()
            raise
        self.question = f"End {share.name or 'PID'} {pid}, {share.command}? y/n"

    def close(self) -> None:
        """Let the process go."""
        os.close(self._process)

    def answer(self, key: str) -> str:
        """Send SIGTERM if the key is "y". Return what was done, for the screen."""
        try:
            if key not in ("y", "Y"):
                return "nothing was ended"
            signal.pidfd_send_signal(self._process, signal.SIGTERM)
        except OSError as error:
            return f"PID {self._pid}: {error.strerror}"
        finally:
            self.close()
        return f"SIGTERM was sent to PID {self._pid}"
