# SPDX-License-Identifier: Apache-2.0
"""The memory of all tasks and actors."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time

import ray

from .. import errors
from .._typing import Any
from ..cluster.cards import need
from ..cluster.rows import ClusterMemory, ProcessRow, report

NAMESPACE = b"gpuconf"
PREFIX = b"memory:"
_EVERY_S = 1.0
_AT_LEAST_S = 5.0  # also unchanged rows, so that a reader knows that the process lives
STALE_S = 15.0

_name = ""
_thread: threading.Thread | None = None
_stop = threading.Event()


def store() -> Any:
    """Return Ray's module for the key-value store. Raises UnavailableError for a version of Ray without it."""
    from ray.experimental import internal_kv

    for function in ("_internal_kv_put", "_internal_kv_get", "_internal_kv_list", "_internal_kv_del"):
        need("Ray", internal_kv, function, "gpuconf.ray.memory")
    return internal_kv


def begin(name: str) -> None:
    """Publish this process's rows from now on, as those of a task or an actor."""
    global _name, _thread
    _name = f"{name} ({os.getpid()})"
    if _thread is None or not _thread.is_alive():
        _stop.clear()
        _thread = threading.Thread(target=_run, name="gpuconf.ray", daemon=True)
        _thread.start()


def end() -> None:
    """Withdraw the rows: the task is over."""
    _stop.set()
    with contextlib.suppress(Exception):  # Ray is shutting down, and the rows go stale
        store()._internal_kv_del(_key(), namespace=NAMESPACE)


def _key() -> bytes:
    return PREFIX + f"{ray.get_runtime_context().get_node_id()}:{os.getpid()}".encode()


def _run() -> None:
    try:
        kv, key, address = store(), _key(), ray.util.get_node_ip_address()
        before, when = None, 0.0
        while True:
            rows = (_name, report())
            if rows != before or time.monotonic() - when > _AT_LEAST_S:
                value = {"name": _name, "address": f"{address}:{os.getpid()}", "time": time.time(), "rows": rows[1]}
                kv._internal_kv_put(key, json.dumps(value).encode(), overwrite=True, namespace=NAMESPACE)
                before, when = rows, time.monotonic()
            if _stop.wait(_EVERY_S):
                return
    except Exception:  # of Ray: it is shutting down, or has no such store. Accounting must not fail a task
        return


def memory() -> ClusterMemory:
    """Return the memory in use by the tasks and actors of :func:`remote` and :func:`options`, by process, card, library
    and tag.

    ``print`` shows it as a table. A process publishes its rows once a second; an idle actor has one row without a
    library. The rows of a process that was killed disappear after 15 seconds.

    Raises FailedPreconditionError before ``ray.init``, and UnavailableError for a version of Ray without a key-value
    store.
    """
    if not ray.is_initialized():
        raise errors.FailedPreconditionError("Ray is not initialized: call ray.init() first")
    kv = store()
    rows: list[ProcessRow] = []
    for key in kv._internal_kv_list(PREFIX, namespace=NAMESPACE):
        value = kv._internal_kv_get(key, namespace=NAMESPACE)
        if value is None:
            continue  # withdrawn meanwhile
        found = json.loads(value)
        age = time.time() - found["time"]
        if age > 4 * STALE_S:
            kv._internal_kv_del(key, namespace=NAMESPACE)
        if age <= STALE_S:
            rows += (ProcessRow.of(found["name"], found["address"], row) for row in found["rows"])
    return ClusterMemory(rows)
