# SPDX-License-Identifier: Apache-2.0
"""A process's rows, published for :func:`gpuconf.ray.memory` in the key-value store of Ray's head node.

Ray cannot call into a process that is busy with a task. So each process with a share publishes its rows itself, from a
thread, about once a second while they change.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time

import ray

from .._typing import Any
from ..cluster.hooks import need
from ..cluster.rows import report

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
