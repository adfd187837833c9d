"""A bag of jobs from two users on a cluster of simulated GPUs, each job within the memory that it declared.

    python examples/cluster.py            # Dask: each user has a cluster of their own, and the clusters share the cards
    by leases python examples/cluster.py --ray      # the same jobs on Ray's actors

Two workers are killed on the way. Their jobs run again, and nothing is lost.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import time
from collections import namedtuple
from multiprocessing.synchronize import Barrier

import gpuconf

GIB = 1 << 30
Job = namedtuple("Job", ["number", "needs", "steps"])
Result = namedtuple("Result", ["number", "needs", "peak", "seconds"])


def bag(user: str, jobs: int, budget: int) -> list[Job]:
    """Jobs that need between an eighth of a worker's budget and all of it."""
    rng = random.Random(user)
    return [Job(number, budget * rng.randint(1, 8) // 8 >> 20 << 20, rng.randint(3, 6)) for number in range(jobs)]


def work(job: Job) -> Result:
    """Take memory step by step, up to almost what the job declared.

    Simulated memory costs nothing until it is written.
    """
    begin, held = time.monotonic(), []
    with gpuconf.memory.tag(f"job {job.number}"):
        for _ in range(job.steps):
            held.append(gpuconf.memory.allocate((job.needs - (job.needs >> 5)) // job.steps))
            time.sleep(0.02)
    for buffer in held:
        buffer.free()
    return Result(job.number, job.needs, sum(buffer.nbytes for buffer in held), time.monotonic() - begin)


def report(user: str, results: list[Result], seconds: float, budgets: int) -> None:
    """Print throughput and waste: how much of their workers' memory the jobs declared over time, and how much of that
    they used.
    """
    declared = sum(r.needs * r.seconds for r in results)
    used = sum(r.peak * r.seconds for r in results)
    print(
        f"{user}: {len({r.number for r in results})} jobs done in {seconds:.1f} s, {len(results) / seconds:.1f} a "
        "second; "
        f"the jobs declared {declared / (budgets * seconds):.0%} of the workers' memory and used "
        f"{used / declared:.0%} of that",
        flush=True,
    )


# Dask


def with_dask(user: str, workers: int, jobs: int, machine: str, done: Barrier) -> None:
    """One user: a cluster whose workers lease their memory, and a bag of jobs."""
    import distributed
    import gpuconf.dask

    options = {"threads_per_worker": 4, "dashboard_address": "127.0.0.1:0", "silence_logs": "CRITICAL"}
    cluster = gpuconf.dask.LocalCluster(
        workers_per_gpu=2, memory="18GiB", lease=True, simulate=machine, n_workers=workers, **options
    )
    with cluster, distributed.Client(cluster) as client:
        begin = time.monotonic()
        todo = bag(user, jobs, 18 * GIB)
        futures = [
            client.submit(work, job, resources=gpuconf.dask.needs(job.needs), pure=False, retries=2) for job in todo
        ]
        distributed.wait(futures[: jobs // 4])
        address, pid = next(iter(client.run(os.getpid).items()))
        os.kill(pid, signal.SIGKILL)
        print(f"{user}: killed the worker at {address}", flush=True)
        results = client.gather(futures)
        client.wait_for_workers(workers)
        report(user, results, time.monotonic() - begin, workers * 18 * GIB)
        memory = gpuconf.dask.memory(client)
        beyond = [row for row in memory if row.peak_bytes_in_use > row.bytes_limit]
        highest = max(row.peak_bytes_in_use for row in memory)
        assert not beyond, beyond
        print(
            f"{user}: no worker went beyond its 18 GiB, the highest peak of a job was {highest / GIB:.1f} GiB",
            flush=True,
        )
        done.wait(timeout=600)  # so that the leases of both users last until both are done


# Ray


def with_ray(workers: int, jobs: int, machine: str) -> None:
    """Both users on one Ray cluster: an actor for each half of a card."""
    import gpuconf.ray
    import ray

    os.environ.update(RAY_USAGE_STATS_ENABLED="0", GPUCONF_SIMULATE=machine)
    cards = len(gpuconf.simulate(machine) and gpuconf.visible_devices())
    ray.init(num_gpus=cards, num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")

    @gpuconf.ray.remote(memory="18GiB", max_restarts=-1, max_task_retries=-1)
    class Worker:
        def run(self, job: Job) -> Result:
            return work(job)

        def about(self) -> tuple[int, str]:
            return os.getpid(), gpuconf.visible_devices()[0].uuid

    actors = [Worker.remote() for _ in range(workers)]
    about = ray.get([actor.about.remote() for actor in actors])
    print(f"{workers} actors of 18 GiB on {len({uuid for _, uuid in about})} cards", flush=True)
    begin = time.monotonic()
    futures = {
        user: [actors[i % workers].run.remote(job) for i, job in enumerate(bag(user, jobs, 18 * GIB))]
        for user in ("ann", "ben")
    }
    ray.wait(futures["ann"], num_returns=jobs // 4)
    for pid, _ in about[:2]:
        os.kill(pid, signal.SIGKILL)
        print(f"killed the actor with process id {pid}", flush=True)
    for user, mine in futures.items():
        report(user, ray.get(mine), time.monotonic() - begin, workers * 18 * GIB)
    ray.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description="A bag of jobs from two users on a cluster of simulated GPUs.")
    parser.add_argument("--ray", action="store_true", help="with Ray instead of Dask")
    parser.add_argument("--workers", type=int, default=16, metavar="N", help="workers of both users (16)")
    parser.add_argument("--jobs", type=int, default=200, metavar="N", help="jobs of both users (200)")
    options = parser.parse_args()
    machine = f"{max(1, options.workers // 2)}xA100-40GB"
    print(f"simulated: {machine}, two workers a card", flush=True)
    if options.ray:
        with_ray(options.workers, options.jobs // 2, machine)
        return
    spawn = multiprocessing.get_context("spawn")
    done = spawn.Barrier(2)
    arguments = options.workers // 2, options.jobs // 2, machine, done
    users = [spawn.Process(target=with_dask, args=(user, *arguments)) for user in ("ann", "ben")]
    for user in users:
        user.start()
    for user in users:
        user.join()
    raise SystemExit(any(user.exitcode for user in users))


if __name__ == "__main__":
    main()
