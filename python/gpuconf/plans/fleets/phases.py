# SPDX-License-Identifier: Apache-2.0
"""Pack jobs whose needs change over time: jobs with staggered peaks share a card.

All jobs start together. Time is divided into slots, and a job needs the most that it has in use during a slot. In each
slot, the needs of a card's jobs must not exceed its memory. Jobs are placed one after the other, by two orders and two
choices of
a card.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import product

from ... import errors
from ..._core import texts
from ..._typing import Any
from .packing import lower_bound
from .recorded_jobs import Need, attempt

Progress = Callable[[int], None]  # how many are done
How = tuple[tuple[str, ...], bool]  # the policies, and whether with phases

_CONNECTING = 10  # seconds

# Where every core has a worker, Go's garbage collection has no core to itself. Collecting a quarter as often takes some
# tens of MB, and saves a fifth of the processor time.
_GOGC = "400"


def replay(traces: Sequence[Any], how: How, dask: Any, progress: Progress) -> list[Need | str]:
    """Return for each trace what it needs, or why it cannot be read."""
    found: list[Need | str] = [""] * len(traces)
    for done, (number, need) in enumerate(_here(traces, how) if dask is None else _with_dask(traces, how, dask), 1):
        found[number] = need
        progress(done)
    return found


def _here(traces: Sequence[Any], how: How) -> Iterator[tuple[int, Need | str]]:
    for number, trace in enumerate(traces):
        yield number, attempt(trace, *how)


def _with_dask(traces: Sequence[Any], how: How, dask: Any) -> Iterator[tuple[int, Need | str]]:
    """Submit one task for each trace. Dask itself runs the tasks of a worker that dies again on another one."""
    for trace in traces:
        if not isinstance(trace, (str, os.PathLike)):
            raise errors.InvalidTypeError(
                f"with dask= every trace must be a file that the workers can read, but got {trace!r}"
            )
    try:
        import distributed
    except ImportError as missing:
        raise texts.missing("dask= needs", "Dask", "dask", missing) from None
    with ExitStack() as stack:
        client = _client(distributed, dask, stack)
        paths = [os.path.abspath(trace) for trace in traces]
        futures = client.map(_attempt, paths, how=how, pure=False)
        numbers = {future.key: number for number, future in enumerate(futures)}
        for future in distributed.as_completed(futures, loop=client.loop):
            error = future.exception()
            yield numbers[future.key], future.result() if error is None else f"the replay failed: {error}"
            future.release()


def _attempt(path: str, how: How) -> Need | str:
    return attempt(path, *how)


def _client(distributed: Any, dask: Any, stack: ExitStack) -> Any:
    """Return a client of a running cluster, or of a local one with that many processes, which ends with the stack."""
    if isinstance(dask, distributed.Client):
        return dask
    if isinstance(dask, int) and not isinstance(dask, bool) and dask > 0:
        env = {"GOGC": os.environ.get("GOGC", _GOGC)}
        quiet = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
        cluster = distributed.LocalCluster(n_workers=dask, threads_per_worker=1, processes=True, env=env, **quiet)
        dask = stack.enter_context(cluster)
    elif not isinstance(dask, str):
        raise errors.InvalidTypeError(
            "dask must be the address of a scheduler, a number of processes, or a Client, but got "
            f"{type(dask).__name__}: {dask!r}"
        )
    try:
        return stack.enter_context(distributed.Client(dask, timeout=_CONNECTING, set_as_default=False))
    except (OSError, ValueError) as error:
        raise errors.UnavailableError(f"cannot connect to Dask's scheduler at {dask!r}: {error}") from None


SLOTS = 48


def curves(needs: Sequence[Need], reserve: int, unit: int) -> list[list[int]]:
    """Return what each job needs in each slot, in units, rounded up. A job that has ended needs nothing."""
    longest = max((need.curve[-1][0] for need in needs if need.curve), default=0.0) or 1.0
    rows = []
    for need in needs:
        slots = [0] * SLOTS
        began = 0.0
        for end, nbytes in need.curve or ((0.0, need.limit),):
            first, last = (min(int(time / longest * SLOTS), SLOTS - 1) for time in (began, end))
            units = -(-(min(nbytes, need.limit) + reserve) // unit)
            for slot in range(first, last + 1):
                slots[slot] = max(slots[slot], units)
            began = end
        rows.append(slots)
    return rows


def pack(needs: Sequence[Sequence[int]], parts: Sequence[int], cards: Sequence[int]) -> tuple[list[list[int]], int]:
    """Return the jobs on each card, and a lower bound. ``cards`` are the capacities, the largest first."""
    try:
        import numpy as np
    except ImportError as error:
        raise texts.missing("phases need", "NumPy", "fleet", error) from None
    wanted = np.array(needs, dtype=np.int64).reshape(len(needs), SLOTS)
    orders = (np.argsort(-wanted.max(axis=1), kind="stable"), np.argsort(-wanted.sum(axis=1), kind="stable"))
    found = [_placed(np, wanted, parts, cards, order, closest) for order, closest in product(orders, (False, True))]
    per_slot = ([int(size) for size, n in zip(slot, parts, strict=True) for _ in range(n) if size] for slot in wanted.T)
    bound = max((lower_bound(sizes, cards) for sizes in per_slot if sizes), default=0)
    placed = [sum(map(len, jobs)) for jobs in found]
    used = [sum(map(bool, jobs)) for jobs in found]
    return found[min(range(len(found)), key=lambda i: (-placed[i], used[i]))], bound


def _placed(
    np: Any, wanted: Any, parts: Sequence[int], cards: Sequence[int], order: Any, closest: bool
) -> list[list[int]]:
    """Place each job on the first card that has room or, of those in use, the one whose free memory over time is most
    like it.
    """
    rooms = np.repeat(np.array(cards, dtype=np.int64)[:, None], SLOTS, axis=1)
    contents: list[list[int]] = [[] for _ in cards]
    used = 0  # cards from here on are empty
    for job in order.tolist():
        seen = min(used + parts[job], len(cards))
        fitting = np.flatnonzero((rooms[:seen] >= wanted[job]).all(axis=1))
        if closest:
            likeness = (rooms[fitting] * wanted[job]).sum(axis=1) / np.linalg.norm(
                rooms[fitting].astype(float), axis=1
            ).clip(1)
            fitting = fitting[np.lexsort((-likeness, fitting >= used))]
        if len(fitting) < parts[job]:
            continue
        for card in fitting[: parts[job]].tolist():
            contents[card].append(job)
            rooms[card] -= wanted[job]
            used = max(used, card + 1)
    return contents
