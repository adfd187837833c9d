# SPDX-License-Identifier: Apache-2.0
"""``tf.train.ClusterSpec``."""

from __future__ import annotations

from ...._typing import Any

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
