# SPDX-License-Identifier: Apache-2.0
"""Replay many traces, one after the other or on the workers of a Dask cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from ... import errors
from ..._core import extras
from ..._typing import Any
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
        raise extras.missing("dask= needs", "Dask", "dask", missing) from None
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
        cluster = distributed.LocalCluster(
            n_workers=dask,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
            env={"GOGC": os.environ.get("GOGC", _GOGC)},
        )
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
