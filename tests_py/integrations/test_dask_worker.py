"""``dask worker --preload gpuconf.dask``: clusters that gpuconf did not start, as people and job queues start them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import script

pytest.importorskip("distributed", reason="Dask is not installed: make test-integrations installs it")

from collections.abc import Iterator

import distributed
import gpuconf.dask
from doc_blocks import block
from script import environment

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask leaves sockets to the garbage collector

DASK = str(Path(sys.executable).with_name("dask"))
GIB = 1 << 30


def start(*words: str, **variables: str) -> subprocess.Popen[bytes]:
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([DASK, *words], env=environment(variables), start_new_session=True, **pipes)


def end(program: subprocess.Popen[bytes]) -> None:
    program.terminate()
    try:
        program.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("scheduler") / "scheduler.json"
    program = start("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    deadline = time.monotonic() + 60
    while not (file.exists() and file.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.1)
    yield json.loads(file.read_text())["address"]
    end(program)


@pytest.fixture(scope="module")
def client(scheduler: str) -> Iterator[distributed.Client]:
    options = tuple(
        """
        --nworkers 3 --nthreads 1 --no-dashboard --preload-nanny gpuconf.dask --preload gpuconf.dask
    """.split()
    )
    ours = ("--gpuconf-memory", "5GiB", "--gpuconf-pre-import", "colorsys", "--gpuconf-simulate", "2xT4")
    workers = start("worker", scheduler, *options, *ours)
    with distributed.Client(scheduler) as client:
        client.wait_for_workers(3, timeout=120)
        yield client
    end(workers)


def seen(client: distributed.Client) -> list[Any]:
    """What each worker sees: its cards, its limit, and whether the module was imported."""

    def look() -> Any:
        import gpuconf

        cards = tuple(device.uuid for device in gpuconf.visible_devices())
        return cards, gpuconf.memory.stats().bytes_limit, "colorsys" in sys.modules

    return list(client.run(look).values())


def test_workers_are_pinned_limited_and_announced(client: distributed.Client) -> None:
    found = seen(client)
    assert [limit for _, limit, _ in found] == [5 * GIB] * 3
    assert all(imported for *_, imported in found)
    pins = [cards for cards, *_ in found]
    assert all(len(cards) == 1 for cards in pins)
    assert sorted(pins.count(cards) for cards in set(pins)) == [1, 2]  # in turn
    assert {row.bytes_limit for row in gpuconf.dask.memory(client)} == {5 * GIB}
    assert gpuconf.dask.needs("5GiB", client)
    with pytest.raises(ValueError, match=r"the largest budget of 3 workers is 5\.00GiB"):
        gpuconf.dask.needs("6GiB", client)


def test_a_killed_worker_comes_back_with_its_card_and_limit(client: distributed.Client) -> None:
    before = sorted(seen(client))
    address, pid = next(iter(client.run(os.getpid).items()))
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while (address in client.scheduler_info()["workers"] or len(client.nthreads()) < 3) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert sorted(seen(client)) == before


def test_the_scheduler_never_overcommits_a_worker(client: distributed.Client) -> None:
    """Also with more threads than a worker's budget holds."""

    def hold(size: int) -> int:
        import gpuconf

        with gpuconf.memory.allocate(size):
            time.sleep(0.05)
            return int(gpuconf.memory.stats().bytes_in_use)

    needs = gpuconf.dask.needs("2GiB", client)
    held = client.gather(client.map(hold, [2 * GIB] * 24, resources=needs, pure=False))
    assert max(held) <= 5 * GIB


def test_a_cluster_that_runs_already_is_set_up_by_the_plugin(scheduler: str, client: distributed.Client) -> None:
    """Workers without the preload module, and one that joins later."""
    plain = ("worker", scheduler, "--nthreads", "1", "--no-dashboard")
    workers = [start(*plain, "--name", "plain-1", GPUCONF_SIMULATE="T4")]
    client.wait_for_workers(4, timeout=120)
    setup = gpuconf.dask.WorkerSetup("5GiB")  # what the other workers have
    client.register_plugin(setup)
    workers.append(start(*plain, "--name", "plain-2", GPUCONF_SIMULATE="T4"))
    client.wait_for_workers(5, timeout=120)
    limits = {row.process: row.bytes_limit for row in gpuconf.dask.memory(client)}
    assert (limits["plain-1"], limits["plain-2"]) == (5 * GIB, 5 * GIB)
    with pytest.raises(RuntimeError, match=r"Dask worker '.*' at tcp://.* has already used the GPU"):
        client.register_plugin(gpuconf.dask.WorkerSetup("1GiB"))
    client.unregister_worker_plugin("gpuconf")
    for worker in workers:
        end(worker)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--gpuconf-memory", "5GiBs"), "'5GiBs' is not a size"),
        (("--gpuconf-memroy", "5GiB"), "No such option"),
        (("--gpuconf-libraries", "tourch"), "unknown library 'tourch'"),
        (("--gpuconf-simulate", "K1"), "unknown GPU model"),
    ],
)
def test_a_wrong_option_ends_the_command(words: tuple[str, str], text: str) -> None:
    command = [DASK, "worker", "tcp://127.0.0.1:9", "--preload", "gpuconf.dask", *words]
    done = script.completed(command, timeout=60, env=environment())
    assert done.returncode == 2
    assert text in done.stderr


@pytest.mark.parametrize(
    ("machine", "text"),
    [
        ({"GPUCONF_SIMULATE": "T4"}, "1 process of 99.00GiB does not fit in the 14.56GiB of Tesla T4"),
        ({}, "sees no GPU, so it cannot have its limit: start workers without a GPU without --gpuconf-memory"),
    ],
)
def test_a_worker_that_can_not_have_its_limit_does_not_start(
    scheduler: str, machine: dict[str, str], text: str
) -> None:
    command = [DASK, "worker", scheduler, *"--no-dashboard --preload gpuconf.dask --gpuconf-memory 99GiB".split()]
    done = script.completed(command, timeout=90, env=environment(machine))
    assert done.returncode == 1
    assert text in done.stderr


def test_the_cluster_of_slurm_in_the_documentation() -> None:
    """tests_py/integrations/test_slurm.py runs such a cluster."""
    names = {"dask_jobqueue": pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")}
    exec(block("docs/clusters.md", "cluster = dask_jobqueue.SLURMCluster("), names)
    with names["cluster"] as cluster:
        assert "--preload gpuconf.dask --gpuconf-memory 30GiB" in cluster.job_script()
