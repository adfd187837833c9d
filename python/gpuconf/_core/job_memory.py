# SPDX-License-Identifier: Apache-2.0
"""How messages and tables show the memory of a job."""

from __future__ import annotations

from .humanbytes import human_bytes


def job_memory_text(limit: int, pools: int, outside: int, free: int) -> str:
    """Return the parts of a job's limit on a GPU, given in bytes."""
    parts = f"pools {human_bytes(pools)} + outside {human_bytes(outside)} + free {human_bytes(free)}"
    return f"limit {human_bytes(limit)} = {parts}"
