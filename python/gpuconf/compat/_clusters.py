# SPDX-License-Identifier: Apache-2.0
"""``tf.train.ClusterSpec``, and the classes that find clusters."""

from __future__ import annotations

import abc
from itertools import cycle

from .. import errors
from .._core.device_spec import DeviceSpec
from .._typing import Any, NoReturn
from ._names import publish

_WANTED = (
    "`cluster` must be a dictionary mapping one or more job names to lists of network addresses, or a "
    "`ClusterDef` protocol buffer"
)


class ClusterSpec:
    """The addresses of the tasks of each job: ``{"worker": ["host:port", ...]}``, or ``{"worker": {1: "host:port"}}``.

    Raises TypeError for anything else.

    >>> spec = ClusterSpec({"worker": ["a:2222", "b:2222"]})
    >>> spec.num_tasks("worker"), spec.task_address("worker", 1)
    (2, 'b:2222')
    """

    def __init__(self, cluster: Any) -> None:
        if isinstance(cluster, ClusterSpec):
            cluster = cluster.as_dict()
        if not isinstance(cluster, dict):
            raise TypeError(_WANTED)
        self._jobs = {_text("Job name", job): _tasks(job, tasks) for job, tasks in cluster.items()}

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs."""
        return list(self._jobs)

    def as_dict(self) -> dict[str, Any]:
        """Return what the constructor takes: lists where the tasks are numbered from 0, dicts otherwise."""
        return {job: self._as_given(job) for job in self._jobs}

    def _as_given(self, job: str) -> Any:
        tasks = self._jobs[job]
        return self.job_tasks(job) if tasks and max(tasks) + 1 == len(tasks) else dict(sorted(tasks.items()))

    def num_tasks(self, job_name: str) -> int:
        """Return the number of tasks of a job. Raises ValueError if there is no such job."""
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """Return the numbers of the tasks of a job. Raises ValueError if there is no such job."""
        return sorted(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """Return the address of a task. Raises ValueError if there is no such task."""
        found = self._job(job_name).get(task_index)
        if found is None:
            raise ValueError(f"No task with index {task_index!r} in job {job_name!r}")
        return found

    def job_tasks(self, job_name: str) -> list[str | None]:
        """Return the addresses of a job's tasks, with None for missing ones.

        Raises ValueError if there is no such job.
        """
        tasks = self._job(job_name)
        return [tasks.get(number) for number in range(max(tasks) + 1)] if tasks else []

    def _job(self, name: str) -> dict[int, str]:
        if name not in self._jobs:
            raise ValueError(f"No such job in cluster: {name!r}")
        return self._jobs[name]

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        return self._jobs == (other._jobs if isinstance(other, ClusterSpec) else other)

    __hash__: None = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        known = self.as_dict()
        return "ClusterSpec({" + ", ".join(f"{job!r}: {known[job]!r}" for job in sorted(known)) + "})"


def _tasks(job: str, tasks: Any) -> dict[int, str]:
    if isinstance(tasks, (list, tuple)):
        tasks = dict(enumerate(tasks))
    if not isinstance(tasks, dict):
        raise TypeError(f"The tasks for job {job!r} must be a list or a dictionary from integers to strings.")
    return {int(number): _text("Task address", address) for number, address in tasks.items()}


def _text(what: str, value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError(f"{what} {value!r} must be bytes or unicode")
    return value


class ClusterResolver(abc.ABC):
    """The base of the classes that find a cluster."""

    task_type: str | None = None
    task_id: int | None = None
    rpc_layer: str | None = None
    environment: str | None = ""

    @abc.abstractmethod
    def cluster_spec(self) -> Any:
        """Return the cluster, as a ClusterSpec."""

    @abc.abstractmethod
    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> Any:
        """Return the address of the master; ``""`` for this process."""

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """Return the number of logical GPUs of this process, ``{"GPU": 2}``; ``{}`` without
        one. Initializes the runtime.
        """
        del task_type, task_id, config_proto
        from .. import config

        found = len(config.list_logical_devices("GPU"))
        return {"GPU": found} if found else {}


class SimpleClusterResolver(ClusterResolver):
    """A cluster that is passed: a ClusterSpec. Raises TypeError for anything else."""

    def __init__(
        self,
        cluster_spec: Any,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: dict[str, int] | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        if not isinstance(cluster_spec, ClusterSpec):
            raise TypeError("cluster_spec must be a `tf.train.ClusterSpec`.")
        if not isinstance(master, str):
            raise TypeError("master must be a string.")
        self._spec, self._master, self._accelerators = cluster_spec, master, num_accelerators
        self.task_type: str | None = task_type
        self.task_id: int | None = task_id
        self.environment: str | None = environment
        self.rpc_layer: str | None = rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """Return the cluster that was passed."""
        return self._spec

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """Return the address of a task, or the master that was passed."""
        if task_type is not None and task_id is not None:
            return _url(self._spec.task_address(task_type, task_id), rpc_layer or self.rpc_layer)
        return _url(self._master, rpc_layer or self.rpc_layer)

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """Return the number that was passed, else what the base class returns."""
        return self._accelerators or super().num_accelerators(task_type, task_id, config_proto)


class TFConfigClusterResolver(ClusterResolver):
    """The cluster of the environment variable ``TF_CONFIG``. The arguments replace its task and protocol."""

    environment: str | None = None

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        task = _tf_config().get("task", {})
        self.task_type: str | None = str(task["type"]) if task_type is None and "type" in task else task_type
        self.task_id: int | None = int(task["index"]) if task_id is None and "index" in task else task_id
        self.rpc_layer: str | None = _tf_config().get("rpc_layer") if rpc_layer is None else rpc_layer
        self.environment = environment

    def cluster_spec(self) -> ClusterSpec:
        """Return the cluster; an empty one without ``TF_CONFIG``."""
        return ClusterSpec(_tf_config().get("cluster", {}))

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """Return the address of the task; ``""`` for a cluster with at most one task."""
        set_one = _tf_config().get("session_master")
        if set_one is not None:
            return str(set_one)
        spec = self.cluster_spec()
        if sum(spec.num_tasks(job) for job in spec.jobs) < 2:
            return ""
        address = spec.task_address(
            str(self.task_type if task_type is None else task_type),
            int((self.task_id if task_id is None else task_id) or 0),
        )
        return _url(address, rpc_layer or self.rpc_layer)


class UnionResolver(ClusterResolver):
    """The clusters of several resolvers together. The first one's task, master and protocol count."""

    def __init__(self, *resolvers: Any, **options: Any) -> None:
        given = options.pop("rpc_layer", None)
        self.task_type, self.task_id = options.pop("task_type", None), options.pop("task_id", None)
        if options:
            raise ValueError(f"Unexpected kwargs provided {options!r}")
        if not resolvers:
            raise ValueError("At least one ClusterResolver is required.")
        if not all(isinstance(each, ClusterResolver) for each in resolvers):
            raise TypeError("All arguments must be a sub-class of `ClusterResolver.`")
        self._resolvers = resolvers
        self.rpc_layer: str | None = given or resolvers[0].rpc_layer
        self.task_type = self.task_type or resolvers[0].task_type
        self.task_id = resolvers[0].task_id if self.task_id is None else self.task_id

    def cluster_spec(self) -> ClusterSpec:
        """Return the clusters together. Raises KeyError if two of them have the same task."""
        jobs: dict[str, dict[int, str]] = {}
        for spec in (each.cluster_spec() for each in self._resolvers):
            for job in spec.jobs:
                known, tasks = jobs.setdefault(job, {}), spec.as_dict()[job]
                if isinstance(tasks, list):  # tasks without numbers come after those that are there
                    known.update({len(known) + number: address for number, address in enumerate(tasks)})
                    continue
                if known.keys() & tasks.keys():
                    raise KeyError(
                        "Duplicate keys detected when merging two ClusterSpecs: "
                        f"{sorted(known.keys() & tasks.keys())!r}"
                    )
                known.update(tasks)
        return ClusterSpec(jobs)

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> Any:
        """Return the master of the first resolver."""
        return self._resolvers[0].master(task_type, task_id, rpc_layer)


class _Unavailable(ClusterResolver):
    """The base of those whose constructors raise an error."""

    def cluster_spec(self) -> NoReturn:
        """Not available."""
        raise NotImplementedError

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> NoReturn:
        """Not available."""
        raise NotImplementedError


class SlurmClusterResolver(_Unavailable):
    """The cluster of a Slurm step.

    Raises RuntimeError outside of one, and UnimplementedError inside: that needs TensorFlow.
    """

    def __init__(self, *_: Any, **__: Any) -> None:
        import os

        if "SLURM_PROCID" not in os.environ:
            raise RuntimeError("SLURM_PROCID not found in environment. Not running inside a SLURM step?")
        raise errors.UnimplementedError(
            "SlurmClusterResolver needs TensorFlow: gpuconf configures the devices of one process"
        )


class KubernetesClusterResolver(_Unavailable):
    """The cluster of a Kubernetes job. Raises ImportError, as TensorFlow does without Kubernetes's client."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise ImportError(
            "The Kubernetes Python client must be installed before using the Kubernetes Cluster Resolver, "
            "and gpuconf does not use it"
        )


class GCEClusterResolver(_Unavailable):
    """The cluster of an instance group of Google's. Raises ImportError, as TensorFlow does without Google's client."""

    def __init__(self, project: Any, zone: Any, instance_group: Any, port: Any, *_: Any, **__: Any) -> None:
        del project, zone, instance_group, port
        raise ImportError(
            "googleapiclient must be installed before using the GCE cluster resolver, and gpuconf does not use it"
        )


class TPUClusterResolver(_Unavailable):
    """Raises ValueError without the name of a TPU, as TensorFlow does on a machine with GPUs.

    ``TPU_NAME`` and ``KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS`` name one, too; then it raises UnimplementedError: TPUs need
    TensorFlow.
    """

    def __init__(self, tpu: Any = None, *_: Any, **__: Any) -> None:
        import os

        name = tpu or os.environ.get("TPU_NAME") or os.environ.get("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS")
        if not name:
            raise ValueError("Please provide a TPU Name to connect to.")
        raise errors.UnimplementedError(f"the TPU {name!r} needs TensorFlow: gpuconf configures GPUs")

    @staticmethod
    def connect(tpu: Any = None, zone: Any = None, project: Any = None) -> NoReturn:
        """Raise the same errors."""
        del zone, project
        TPUClusterResolver(tpu)
        raise AssertionError("the constructor raises")


def _tf_config() -> dict[str, Any]:
    import json
    import os

    found: dict[str, Any] = json.loads(os.environ.get("TF_CONFIG", "") or "{}")
    return found


def _url(address: str, rpc_layer: str | None) -> str:
    return f"{rpc_layer}://{address}" if rpc_layer and address else address


# The kinds of operations that a replica_device_setter puts on parameter servers: in gpuconf, variables.
_PARAMETERS = ("Variable", "VariableV2", "VarHandleOp", "AutoReloadVariable")


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: Any = None,
    ps_ops: Any = None,
    ps_strategy: Any = None,
) -> Any:
    """Return a function for ``device`` that puts variables on parameter servers in turn, and the rest on a worker.

    Returns None without parameter servers.

    >>> import gpuconf.compat.v1 as tf
    >>> with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(ps_tasks=2)):
    ...     [tf.Variable(1.0).device, tf.Variable(1.0).device, tf.constant(1.0).device]
    ['/job:ps/task:0', '/job:ps/task:1', '/job:worker']
    """
    if cluster is not None:
        ps_tasks = len(ClusterSpec(cluster).as_dict().get(DeviceSpec.from_string(ps_device).job) or ())
    if ps_tasks == 0:
        return None
    turns = cycle(range(ps_tasks))
    choose = (lambda _: next(turns)) if ps_strategy is None else ps_strategy
    if not callable(choose):
        raise TypeError("ps_strategy must be callable")

    def device_function(op: Any) -> str:
        if not merge_devices and op.device:
            return str(op.device)
        current = DeviceSpec.from_string(op.device or "")
        if not ps_device or op.type not in (_PARAMETERS if ps_ops is None else ps_ops):
            return str(DeviceSpec.from_string(worker_device or "").make_merged_spec(current).to_string())
        chosen = DeviceSpec.from_string(ps_device)
        if chosen.job and current.job in (None, chosen.job):
            chosen = chosen.replace(task=choose(op))
        return str(chosen.make_merged_spec(current).to_string())

    return device_function


publish(__name__)
