# SPDX-License-Identifier: Apache-2.0
"""Cluster functions, which gpuconf does not support: it configures the devices of one process."""

from __future__ import annotations

from .. import errors
from .._typing import Any

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
    """Not available: raises UnimplementedError."""
    del cluster_spec_or_resolver, task_index, protocol, make_master_device_default, cluster_device_filters
    raise errors.UnimplementedError(f"experimental_connect_to_cluster for job {job_name!r} {_WHY}")


class ClusterDeviceFilters:
    """Not available: the constructor raises UnimplementedError."""

    def __init__(self) -> None:
        raise errors.UnimplementedError(f"ClusterDeviceFilters {_WHY}")

    def set_device_filters(self, job_name: str, task_index: int, device_filters: Any) -> None:
        """Not available."""
        del job_name, task_index, device_filters
        raise errors.UnimplementedError(f"set_device_filters {_WHY}")
