# SPDX-License-Identifier: Apache-2.0
"""The memory of all tasks and actors."""

from __future__ import annotations

import json
import time

import ray

from .. import errors
from ..cluster.rows import ClusterMemory, ProcessRow
from . import _publish


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
    kv = _publish.store()
    rows: list[ProcessRow] = []
    for key in kv._internal_kv_list(_publish.PREFIX, namespace=_publish.NAMESPACE):
        value = kv._internal_kv_get(key, namespace=_publish.NAMESPACE)
        if value is None:
            continue  # withdrawn meanwhile
        found = json.loads(value)
        age = time.time() - found["time"]
        if age > 4 * _publish.STALE_S:
            kv._internal_kv_del(key, namespace=_publish.NAMESPACE)
        if age <= _publish.STALE_S:
            rows += (ProcessRow.of(found["name"], found["address"], row) for row in found["rows"])
    return ClusterMemory(rows)
