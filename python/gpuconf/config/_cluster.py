# SPDX-License-Identifier: Apache-2.0
"""Cluster functions: gpuconf configures the devices of one process, so there is only a cluster of this process."""

from __future__ import annotations

import sys
from itertools import islice

from .. import errors
from .._typing import Any

_MOST = 4096  # filters of a task
_WHY = "needs TensorFlow's distributed runtime; gpuconf configures the devices of one process"


def experimental_connect_to_host(remote_host: Any = None, job_name: str = "worker") -> None:
    """Not available: raises UnimplementedError, or ValueError if no host is passed, as TensorFlow does."""
    if not remote_host:
        raise ValueError("Must provide at least one remote_host")
    raise errors.UnimplementedError(f"experimental_connect_to_host({remote_host!r}, {job_name!r}) {_WHY}")


def experimental_connect_to_cluster(
    cluster_spec_or_resolver: Any,
    job_name: str = "localhost",
    task_index: int = 0,
    protocol: str | None = None,
    make_master_device_default: bool = True,
    cluster_device_filters: Any = None,
) -> None:
    """Does nothing for a cluster without tasks, and for a resolver whose master is this process.

    Raises ValueError where operations build graphs, and for what is no cluster, as TensorFlow does, and
    UnimplementedError for a cluster with tasks.
    """
    del task_index, protocol, make_master_device_default, cluster_device_filters
    if not _eagerly():
        raise ValueError("`tf.config.experimental_connect_to_cluster` can only be called in eager mode.")
    spec = _spec_of(cluster_spec_or_resolver)
    if any(spec.num_tasks(job) for job in spec.jobs):
        raise errors.UnimplementedError(f"experimental_connect_to_cluster for job {job_name!r} {_WHY}")


def _spec_of(given: Any) -> Any:
    """Return a ClusterSpec. Raises ValueError if there is none in ``given``."""
    train = sys.modules.get("gpuconf.compat.v2.train")  # imported, if there is a ClusterSpec
    found = sys.modules.get("gpuconf.compat.v2.distribute.cluster_resolver")
    if train is not None and found is not None and isinstance(given, found.ClusterResolver):
        return train.ClusterSpec({}) if given.master() in ("", "local") else given.cluster_spec()
    if train is None or not isinstance(given, train.ClusterSpec):
        raise ValueError("`cluster_spec_or_resolver` must be a `ClusterSpec` or a `ClusterResolver`.")
    return given


def _eagerly() -> bool:
    """Report whether operations run eagerly. Only ``compat`` can switch that off."""
    mode = sys.modules.get("gpuconf.compat.v1._mode")
    return mode is None or bool(mode.executing_eagerly())


class ClusterDeviceFilters:
    """Which devices of a cluster its tasks see. They are stored: there is no cluster here.

    >>> filters = ClusterDeviceFilters()
    >>> filters.set_device_filters("worker", 0, ["/job:ps"])
    """

    def __init__(self) -> None:
        self._filters: dict[str, dict[int, list[str]]] = {}

    def set_device_filters(self, job_name: str, task_index: int, device_filters: Any) -> None:
        """Store the filters of a task, a list of str. Raises AssertionError, as TensorFlow does, if one is no str."""
        given = list(islice(device_filters, _MOST))  # an iterator may be endless
        if not all(isinstance(each, str) for each in given):
            raise AssertionError("device filters must be str")
        self._filters.setdefault(job_name, {})[task_index] = given
