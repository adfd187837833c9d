"""Tasks of gpuconf.ray: their limits, the processes that Ray uses again, and cards of another size than was assumed."""

import json
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed: make test-integrations installs it")

from ray_jobs import BEGINNING
from script import run

PROGRAM = (
    BEGINNING
    + """
@gpuconf.ray.remote("1GiB")
def numbers(n):
    for i in range(n):
        yield i + gpuconf.memory.stats().bytes_limit

@ray.remote
def plain():
    return os.getpid(), gpuconf.memory.stats().bytes_limit, os.environ["CUDA_VISIBLE_DEVICES"]

@ray.remote(num_cpus=0)
class Plain(Holder._target):
    pass

@gpuconf.ray.remote("1GiB", num_cpus=0)
def nested():
    return ray.get(job.remote("1GiB"))[2]

facts = {}
facts["jobs"] = ray.get([job.remote("5GiB"), job.options(memory="12GiB").remote("11GiB"), job.remote("1GiB")])
facts["job beyond"] = outcome(lambda: ray.get(job.remote("7GiB")))
facts["numbers"] = [ray.get(each) for each in numbers.remote(2)]
facts["nested"] = ray.get(nested.remote())

# Processes that Ray uses again: for a task of its own on one card, then on two, and for ours.
first = ray.get(plain.options(num_gpus=0.1).remote())
limited = gpuconf.ray.options(plain, memory="3GiB")
facts["of a plain task"] = [ray.get(limited.remote())[1] for _ in range(3)]
facts["pids"] = len({ray.get(job.remote("1MiB"))[0] for _ in range(3)})
facts["plain actor"] = ray.get(gpuconf.ray.options(Plain, memory="2GiB").remote("1GiB").sees.remote())[1]
big = gpuconf.ray.remote("20GiB", gpu="A100-80GB", simulate="2xA100-40GB")(plain._function)
facts["smaller card"] = outcome(lambda: ray.get(big.remote()))
print(json.dumps(facts))
ray.shutdown()
"""
)
GIB = 1 << 30


@pytest.fixture(scope="module")
def facts() -> Any:
    done = run(PROGRAM, env={"GPUCONF_SIMULATE": "2xA100-80GB", "RAY_USAGE_STATS_ENABLED": "0"}, timeout=300)
    assert done.code == 0, done
    return json.loads(done.stdout.splitlines()[-1])


def test_tasks_have_their_own_limits(facts: Any) -> None:
    assert [limit for _, _, limit in facts["jobs"]] == [6 * GIB, 12 * GIB, 6 * GIB]
    assert facts["job beyond"][:2] == ["RayTaskError(ResourceExhaustedError)", True]
    assert facts["numbers"] == [GIB, GIB + 1]
    assert facts["nested"] == 6 * GIB


def test_no_process_keeps_an_old_limit(facts: Any) -> None:
    assert facts["of a plain task"] == [3 * GIB] * 3
    assert facts["pids"] == 3
    assert facts["plain actor"] == 2 * GIB


def test_a_share_of_a_larger_card_is_refused_on_a_smaller_one(facts: Any) -> None:
    assert (
        "its part of NVIDIA A100-SXM4-40GB is 0.25, which is 9.94GiB, but its memory is 20.00GiB"
        in facts["smaller card"][2]
    )
