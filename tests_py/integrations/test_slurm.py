"""gpuconf in Slurm's jobs: Dask's workers by srun and by dask-jobqueue, and programs under a limit."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import script
import slurm

pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed: make test-integrations installs it")

from collections.abc import Iterator

import dask_jobqueue
import distributed
import gpuconf.dask
from script import environment

pytestmark = [
    pytest.mark.skipif(bool(slurm.MISSING), reason=slurm.WHY),
    pytest.mark.filterwarnings("ignore"),  # Dask leaves sockets to the garbage collector
]

GIB = 1 << 30


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    yield from slurm.cluster(tmp_path_factory.mktemp("slurm"))


def test_slurm_chooses_the_card_and_gpuconf_the_limit(variables: dict[str, str]) -> None:
    """One job with two tasks, each with a GPU of its own."""
    program = (
        "import gpuconf, os; gpuconf.configure('6GiB'); print([d.cuda_ordinal for d in gpuconf.visible_devices()], "
    )
    program += (
        "os.environ['CUDA_VISIBLE_DEVICES'], gpuconf.visible_devices()[0].uuid, gpuconf.memory.stats().bytes_limit)"
    )
    command = ["srun", "-n", "2", "--gpus-per-task=1", sys.executable, "-c", program]
    env = environment({**variables, "GPUCONF_SIMULATE": "2xA100-40GB"})
    done = script.completed(command, env=env, timeout=120, check=True)
    first, second = sorted(line.split() for line in done.stdout.splitlines())
    assert [first[0], first[1], first[3]] == ["[0]", "0", str(6 * GIB)]
    assert [second[0], second[1], second[3]] == ["[0]", "1", str(6 * GIB)]
    assert first[2] != second[2]


def test_dask_jobqueue_needs_no_special_code(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its workers look as they would anywhere; the function is pickled by value, because they cannot import this
    file.
    """

    def look() -> Any:
        cards = [device.uuid for device in gpuconf.visible_devices()]
        return os.environ["CUDA_VISIBLE_DEVICES"], cards, gpuconf.memory.stats().bytes_limit, os.environ["SLURM_JOB_ID"]

    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    with (
        dask_jobqueue.SLURMCluster(
            cores=1,
            processes=1,
            memory="1GB",
            interface="lo",
            queue="main",
            walltime="00:10:00",
            job_directives_skip=["--mem"],
            job_extra_directives=["--gres=gpu:1"],
            job_script_prologue=["export GPUCONF_SIMULATE=2xA100-40GB"],
            worker_extra_args=["--preload", "gpuconf.dask", "--gpuconf-memory", "5GiB"],
            python=sys.executable,
            scheduler_options={"dashboard": False},
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        cluster.scale(jobs=2)
        client.wait_for_workers(2, timeout=120)
        found = sorted(client.run(look).values())
        assert [(variable, limit) for variable, _, limit, _ in found] == [("0", 5 * GIB), ("1", 5 * GIB)]
        assert len({job for *_, job in found}) == 2
        assert len({card for _, (card,), *_ in found}) == 2
        assert {row.bytes_limit for row in gpuconf.dask.memory(client)} == {5 * GIB}
        assert client.submit(int, 5, resources=gpuconf.dask.needs("5GiB", client)).result() == 5
