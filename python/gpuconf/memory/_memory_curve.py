# SPDX-License-Identifier: Apache-2.0
"""The next batch size to try, from what the earlier tries have measured. Plain numbers; nothing here runs anything."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._typing import NamedTuple


class Use(NamedTuple):
    """How one run of a function used one logical GPU. Sizes are in bytes."""

    room: int  # what the run could use: the limit less the memory in use before it
    peak: int  # the most that the run had in use. For a run that ran out of memory: at that point
    refused: int  # the size of the allocation that failed; 0 for a run that fit, or if it is unknown
    count: int  # type: ignore[assignment]  # the number of allocations
    total: int  # the sum of their sizes


class Run(NamedTuple):
    """A run with a batch size."""

    batch_size: int
    fits: bool
    uses: tuple[Use, ...]  # one for each logical GPU; empty where nothing could be measured
    # whether a library takes memory from the pool in large segments, so that peaks are not in proportion to what the
    # run needs
    coarse: bool


# Multiplying by this until it fits is the search that this one must not exceed in tries.
_STEP = 0.9
# How far a prediction from coarse peaks may be off.
_COARSE = 0.85
# The fraction of a predicted size that is tried: memory may grow in steps, blocks are rounded up, and free memory is
# fragmented.
_MARGIN = 0.95
# The fractions of an upper bound that are tried first and then, while nothing is known about a whole run.
_PROBES = (1 / 4, 1 / 8)
# The same for a function that must not run again after a run that fit.
_BLIND = (1 / 2, 1 / 8)
# From this fraction of the allocations of a whole run on, those that a failed run has made tell something about the
# others.
_TELLING = 0.5
# By how much a prediction must exceed a size that fits to be worth another run.
WORTHWHILE = 1.1


def next_size(runs: Sequence[Run], again: bool) -> tuple[int, str]:
    """Return the size for the next run, and why. 0 ends the search: the largest size that fit, if any, is its result.

    ``again`` is whether to run again after a run that fit, if a larger size promises enough.
    """
    fitting = [run for run in runs if run.fits]
    if not fitting:
        return _after_failures(runs, _PROBES if again else _BLIND) if runs[-1].batch_size > 1 else (0, "")
    found, most = _predicted(runs) if again and len(runs) == 2 else (0, 0)
    if found < fitting[0].batch_size * WORTHWHILE:
        return 0, ""
    if most >= int(runs[0].batch_size * _STEP * (_COARSE if runs[0].coarse else 1)):
        return 0, ""  # one more run could be more than the search that multiplies by 0.9 takes
    return found, "the measured peaks predict that it fits"


def predict(runs: Sequence[Run]) -> int | None:
    """Return the largest size that the measured runs predict to fit, below the smallest that failed.

    None without measurements.
    """
    return _predicted(runs)[0] or None


def _predicted(runs: Sequence[Run]) -> tuple[int, int]:
    """Return two sizes from the measured runs: one that should fit, and the largest that may.

    Zeros without measurements.

    One run fit, with its true peak, and one ran out of memory on the way. What the second would have needed follows
    from its allocations up to then: on average they were larger than those of the first by some factor, and so is the
    peak.
    """
    fitting = sorted((run for run in runs if run.fits and any(use.peak > 0 for use in run.uses)), key=_size)
    failed = min((run for run in runs if not run.fits and run.uses), key=_size, default=None)
    if not fitting or failed is None:
        return 0, 0
    best = fitting[-1]
    estimate = most = failed.batch_size - 1
    for gpu, use in enumerate(best.uses):
        if use.peak <= 0 or gpu >= len(failed.uses):
            continue
        if len(fitting) > 1 and fitting[0].batch_size < best.batch_size:
            size = _line((fitting[0].batch_size, fitting[0].uses[gpu].peak), (best.batch_size, use.peak), use.room)
        else:
            need = _need(failed.uses[gpu], use)
            size = _between((best.batch_size, use.peak), (failed.batch_size, need), use.room)
            most = min(most, int(size))
            # The constant part of a run often comes first, so that the factor of the part that was run is too small.
            careful = min(size, best.batch_size * use.room / use.peak)  # as if nothing were constant
            progress = _progress(failed.uses[gpu], use)
            size = size if progress == 1 else careful if progress < _TELLING else math.sqrt(size * careful)
        estimate = min(estimate, max(int(size * _MARGIN), best.batch_size))
    return estimate, most


def _size(run: Run) -> int:
    return int(run.batch_size)


def _need(failed: Use, whole: Use) -> float:
    """Return what a run that failed would have needed at its peak, by the factor between the allocations of both
    runs.
    """
    least: float = failed.peak + failed.refused
    tried = failed.count + bool(failed.refused)
    if not whole.total or not tried:
        return least
    factor: float = (failed.total + failed.refused) / tried / (whole.total / whole.count)
    needed: float = whole.peak * factor
    return max(least, needed)


def _progress(failed: Use, whole: Use) -> float:
    """Return how much of the allocations of a whole run a failed run has made, at most 1."""
    return min(1.0, (failed.count + bool(failed.refused)) / whole.count) if whole.count else 0.0


def _between(low: tuple[float, float], high: tuple[float, float], room: float) -> float:
    """Return the size at which the memory reaches ``room``, between two points (size, bytes) on either side of it.

    If the memory grows at least as fast as the size, a power of the size connects the points, else a line.
    """
    (n, p), (m, q) = low, high
    if q <= p or m <= n:
        return m
    if q / p > m / n:
        return float(n * (room / p) ** (math.log(m / n) / math.log(q / p)))
    return _line(low, high, room)


def _line(low: tuple[float, float], high: tuple[float, float], room: float) -> float:
    (n, p), (m, q) = low, high
    return m if q <= p else n + (room - p) * (m - n) / (q - p)


def _after_failures(failed: Sequence[Run], fractions: tuple[float, float]) -> tuple[int, str]:
    """Return a size after runs that all ran out of memory."""
    last = failed[-1]
    first = len(failed) == 1
    most = last.batch_size * (_STEP if first else 1 / 2)  # memory may grow in steps, so the second time by a larger one
    known = [use for use in last.uses if use.refused]
    if not known:
        return max(1, last.batch_size // 2), "half of it, because nothing was measured"
    bounds = [_bound(last.batch_size, use, fractions[0 if first else 1]) for use in known]
    size = min(size for size, _ in bounds)
    why = "the allocation that failed was that much too large"
    if any(blind for _, blind in bounds):
        why = "to measure a whole run"
    return max(1, int(min(most, size * _MARGIN))), why


def _bound(size: int, use: Use, fraction: float) -> tuple[float, bool]:
    """Return a size from the allocation that failed, and whether it is blind: a fraction, because more allocations may
    follow.
    """
    most = size * use.room / (use.peak + use.refused)  # if all that was in use grows with the size
    if use.count == 0:
        return most, False
    if use.count == 1 and use.refused > 2 * use.peak:  # a constant, and what grows with the size
        return max(size * (use.room - use.peak) / use.refused, most * fraction), False
    return most * fraction, True
