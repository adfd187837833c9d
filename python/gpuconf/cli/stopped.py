# SPDX-License-Identifier: Apache-2.0
"""Distinguishes a process that was stopped from one that is only slow."""

from __future__ import annotations


def stopped(pid: int) -> bool:
    """Return whether a signal has stopped a process. Raises OSError if there is no such process."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] == b"T"
