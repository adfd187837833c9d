# SPDX-License-Identifier: Apache-2.0
"""Human-readable byte counts, as TensorFlow prints them."""

from __future__ import annotations


def human_bytes(count: int) -> str:
    """Return three to four digits and a binary unit.

    >>> human_bytes(1023), human_bytes(1536), human_bytes(85899345920)
    ('1023B', '1.5KiB', '80.00GiB')
    """
    if count < 0:
        return "-" + human_bytes(-count)
    if count < 1024:
        return f"{count}B"
    units = "KMGTPE"
    unit = 0
    while count >= 1 << 20 and unit < len(units) - 1:
        count //= 1024
        unit += 1
    return f"{count / 1024:.{1 if unit == 0 else 2}f}{units[unit]}iB"


def human_limit(count: int) -> str:
    """Return what ``human_bytes`` does, rounded up: under a limit of this text, a program that needs ``count`` bytes
    fits.

    >>> human_bytes((4 << 30) + 1), human_limit((4 << 30) + 1), human_limit(4 << 30)
    ('4.00GiB', '4.01GiB', '4.00GiB')
    """
    if count < 1 << 20:
        return human_bytes(count)
    unit = min((count.bit_length() - 1) // 10, 6)
    hundredths = -(-count * 100 >> 10 * unit)
    return f"{hundredths // 100}.{hundredths % 100:02}{'KMGTPE'[unit - 1]}iB"


def job_memory_text(limit: int, pools: int, outside: int, free: int) -> str:
    """Return the parts of a job's limit on a GPU, given in bytes."""
    parts = f"pools {human_bytes(pools)} + outside {human_bytes(outside)} + free {human_bytes(free)}"
    return f"limit {human_bytes(limit)} = {parts}"
