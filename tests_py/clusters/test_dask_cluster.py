"""gpuconf.dask on real workers with simulated GPUs.

The clusters here are small; tests_py/integrations has dask worker's command line, the dashboard and users who share a
machine.
"""

from __future__ import annotations

import json
import pickle
import sys
from typing import TYPE_CHECKING, Any

import distributed
import gpuconf.dask
import pytest
from distributed.core import clean_exception, error_message
from gpuconf import errors
from script import run, run_well

# Dask leaves sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore")

if TYPE_CHECKING:
    from collections.abc import Iterator

GIB = 1 << 30
TASKS = """
import gpuconf

def sees():
    import os
    uuids = [device.uuid for device in gpuconf.visible_devices()]
    return uuids, gpuconf.memory.stats().bytes_limit, os.environ["CUDA_VISIBLE_DEVICES"]

def take(gib):
    with gpuconf.memory.tag("kept"), gpuconf.memory.allocate("1GiB"), gpuconf.memory.allocate(f"{gib}GiB") as more:
        return more.nbytes

def fail(gib):
    kept = gpuconf.memory.allocate("1GiB")
    return kept, gpuconf.memory.allocate(f"{gib}GiB")

def no_collection():
    import gc
    gc.disable()

def live_blocks():
    return gpuconf.memory.stats().live_blocks
"""


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    """Three workers: two on a card with 80 GiB, and one on half of a card with 40 GiB."""
    with (
        gpuconf.dask.LocalCluster(
            workers_per_gpu=2,
            simulate="A100-80GB:80GiB,A100-40GB:40GiB",
            n_workers=3,
            dashboard_address=None,
            silence_logs="CRITICAL",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        # Functions that the workers unpickle by value: they cannot import this file.
        yield client


def tasks() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(TASKS, names)
    return names


RUN = tasks()


def workers(client: distributed.Client) -> dict[str, str]:
    """The addresses of the workers, by name."""
    return {worker["name"]: address for address, worker in client.scheduler_info()["workers"].items()}


def test_each_worker_has_its_card_and_its_limit(client: distributed.Client) -> None:
    seen = client.run(RUN["sees"])
    by_name = {name: seen[address] for name, address in workers(client).items()}
    assert set(by_name) == {"gpu0-0", "gpu0-1", "gpu1-0"}
    for name, (uuids, limit, variable) in by_name.items():
        assert uuids == [variable]
        assert limit == (int(39.5 * GIB) if name.startswith("gpu0") else int(19.5 * GIB))
    assert by_name["gpu0-0"][0] == by_name["gpu0-1"][0] != by_name["gpu1-0"][0]


def test_an_out_of_memory_error_arrives_and_frees_what_the_task_held(client: distributed.Client) -> None:
    client.run(RUN["no_collection"])
    future = client.submit(RUN["fail"], 60, workers=["gpu0-0"])
    error = future.exception()
    assert type(error) is errors.ResourceExhaustedError
    assert "in use by gpuconf, untagged: 1.00GiB" in str(error)
    assert client.run(RUN["live_blocks"], workers=[workers(client)["gpu0-0"]]).popitem()[1] == 0
    assert client.submit(RUN["take"], 30, workers=["gpu0-0"]).result() == 30 * GIB  # the worker lives on


def test_a_failed_task_keeps_no_memory_while_its_thread_holds_the_error() -> None:
    """The thread that ran a task lets go of its error a moment after the worker has changed the task's state.

    A collection at the change came too early then, and what the task held stayed in use until the next one.
    """
    out = run_well(
        """
        import gc
        import dask._task_spec
        import distributed, gpuconf, gpuconf.dask
        from distributed.worker import _run_task_simple

        def fail():
            kept = gpuconf.memory.allocate(1 << 20)
            try:
                raise ValueError
            except ValueError:
                nested = gpuconf.memory.allocate(1 << 20)
                raise TypeError

        gc.disable()
        gpuconf.simulate("T4")
        plugin = gpuconf.dask.WorkerSetup()
        mine = gpuconf.memory.allocate(1 << 20)
        outcome = _run_task_simple(dask._task_spec.Task("key", fail), {}, 0)
        before = gpuconf.memory.stats().live_blocks
        plugin.transition("key", "executing", "error")
        print(type(outcome["actual_exception"]).__name__, before, gpuconf.memory.stats().live_blocks)
        """
    )
    assert out == "TypeError 3 1\n"


def test_memory_of_all_workers_also_of_idle_ones(client: distributed.Client) -> None:
    client.submit(RUN["take"], 3, workers=["gpu1-0"]).result()
    found = gpuconf.dask.memory(client)
    rows = {row.process: row for row in found if row.process == "gpu1-0" and row.library}
    assert (rows["gpu1-0"].library, rows["gpu1-0"].tag, rows["gpu1-0"].peak_bytes_in_use) == (
        "gpuconf",
        "kept",
        4 * GIB,
    )
    assert {row.process for row in found} == {"gpu0-0", "gpu0-1", "gpu1-0"}
    assert {row.address for row in found} == set(workers(client).values())
    assert all(row.card.startswith("GPU-") and row.bytes_limit and not row.problem for row in found)
    assert json.loads(json.dumps(found.to_dict()))["rows"][0]["process"] == "gpu0-0"
    assert str(found).splitlines()[0] == "0B in use by 3 processes on 2 cards"
    assert max(map(len, str(found).splitlines())) <= 80
    assert "gpu1-0" in found._repr_html_()


def test_a_task_that_no_worker_could_hold_is_refused_at_once(client: distributed.Client) -> None:
    assert gpuconf.dask.needs("39.5GiB", client) == {"gpuconf_memory": int(39.5 * GIB)}
    with pytest.raises(
        ValueError,
        match=r"no worker can hold 40\.00GiB .* would wait forever: the largest budget of 3 workers is 39\.50GiB",
    ):
        gpuconf.dask.needs("40GiB", client)
    for wrong in (0, -1, True, "", "6", "6GiBs", "50%", 2**63):
        with pytest.raises((ValueError, TypeError), match="size"):
            gpuconf.dask.needs(wrong, client)
    with pytest.raises(TypeError, match="client must be"):
        gpuconf.dask.needs("1MiB", "tcp://127.0.0.1:8786")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="client must be"):
        gpuconf.dask.memory(5)  # type: ignore[arg-type]


def test_tasks_run_again_where_there_is_more_room(client: distributed.Client) -> None:
    small = client.submit(
        RUN["take"],
        25,
        workers=["gpu1-0"],
        allow_other_workers=True,
        resources=gpuconf.dask.needs("6GiB", client),
        pure=False,
    )
    fixed = client.submit(RUN["take"], 25, workers=["gpu1-0"], pure=False)
    good = client.submit(RUN["take"], 1, pure=False)
    distributed.wait([small, fixed, good])
    assert [future.status for future in (small, fixed, good)] == ["error", "error", "finished"]
    assert gpuconf.dask.retry_larger([small, good]) == [small]
    assert small.result(timeout=60) == 25 * GIB
    with pytest.raises(MemoryError, match=r"no worker has more room for it: the largest budget is 19\.50GiB") as caught:
        gpuconf.dask.retry_larger(fixed)
    assert isinstance(caught.value.__cause__, errors.ResourceExhaustedError)
    assert fixed.status == "error"
    with pytest.raises(MemoryError, match=r"no worker has 50\.00GiB for it"):
        gpuconf.dask.retry_larger(fixed, "50GiB")
    with pytest.raises(TypeError, match="futures must be Dask's futures"):
        gpuconf.dask.retry_larger([5])  # type: ignore[list-item]


def test_a_worker_that_used_the_gpu_is_named(client: distributed.Client) -> None:
    client.run(RUN["live_blocks"])
    before = gpuconf.dask.memory(client)
    with pytest.raises(RuntimeError, match=r"Dask worker 'gpu\d-\d' at tcp://[0-9.:]+ has already used the GPU: "):
        client.register_plugin(gpuconf.dask.WorkerSetup("1GiB"))
    assert [row.bytes_limit for row in gpuconf.dask.memory(client)] == [row.bytes_limit for row in before]


def test_it_scales_within_its_places(client: distributed.Client) -> None:
    with pytest.raises(ValueError, match="5 workers are too many: the GPUs of this cluster have room for 4"):
        client.cluster.scale(5)
    assert len(client.cluster.worker_spec) == 3


def test_the_error_survives_dask_with_the_class_of_pytorch_too() -> None:
    """Dask replaced it by Exception(repr(error)); it is pickled and unpickled here as in a worker."""
    joined = type("OutOfMemoryError", (errors.ResourceExhaustedError, RuntimeError), {"_library": "torch"})
    for cls in (errors.ResourceExhaustedError, joined):
        try:
            raise cls("no room")
        except MemoryError as error:
            message = error_message(error)
        received = clean_exception(pickle.loads(pickle.dumps(message["exception"].data)))[1]
        assert isinstance(received, errors.ResourceExhaustedError)
        assert isinstance(received, MemoryError)
        assert received.message == "no room"


BAD = {
    "gpus=9": "gpus=9, but this machine has 2 GPUs",
    "gpus=[0, 0]": "names a GPU twice",
    "gpus='GPU-0000'": "there is no GPU 'GPU-0000' here",
    "gpus=1.5": "gpus must be 'all', a number of GPUs, or a list",
    "workers_per_gpu=0": "workers_per_gpu must be at least 1",
    "workers_per_gpu='2'": "workers_per_gpu must be an int",
    "memory='9GiB', workers_per_gpu=2": r"2 processes of 9\.00GiB do not fit in the 14\.56GiB of Tesla T4 \(GPU-.*\): "
    r"1 would",
    "memory='lots'": "memory 'lots' is not a size",
    "memory='1GiB', device_memory_limit=0.5": "memory and device_memory_limit are the same option",
    "memory_limits=1": "unexpected keyword argument 'memory_limits'. Did you mean 'memory'",
    "device_memory_limit=1.5": "a fraction between 0 and 1",
    "memory='1GiB..2GiB'": "such as Dask's workers with lease=True: give it 1GiB",
    "growth='yes'": "growth must be True, False or None",
    "libraries=['tourch']": "unknown library 'tourch'",
    "pre_import='a b'": "'a b' is not the name of a module",
    "simulate='2xK1'": "K1",
    "n_workers=3": "3 workers are too many",
    "worker_per_gpu=2": "unexpected keyword argument 'worker_per_gpu'. Did you mean 'workers_per_gpu'",
    "processes=False": "needs processes=True",
    "gpus=1, CUDA_VISIBLE_DEVICES='0'": "are the same option",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_arguments(arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCONF_SIMULATE", "2xT4")
    with pytest.raises((ValueError, TypeError), match=BAD[arguments]):
        eval(f"gpuconf.dask.LocalCluster({arguments}, dashboard_address=None)")


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(RuntimeError, match="this machine has no GPU: pass simulate="):
        gpuconf.dask.LocalCluster()


def test_starting_a_cluster_leaves_the_program_as_it_is() -> None:
    """It does not load the core, so that the program may still fork; and modules named after Dask and Ray import
    those.
    """
    program = """
    import gpuconf.dask, sys
    from gpuconf._core.native import loaded
    from gpuconf.cluster.cards import list_cards
    print(len(list_cards("3xT4")), loaded(), sys.modules["dask"].__file__.endswith("-packages/dask/__init__.py"))
    """
    assert run_well(program) == "3 False True\n"


def test_without_dask_it_says_what_to_install() -> None:
    program = """
    import sys
    sys.modules["distributed"] = None
    import gpuconf
    try:
        gpuconf.dask
    except ImportError as error:
        print(error)
    """
    assert run_well(program).endswith("pip install 'gpuconf[dask]'\n")


def test_an_older_dask_without_a_hook_is_named() -> None:
    from gpuconf.cluster.cards import need

    with pytest.raises(
        errors.UnavailableError, match=r"x needs object\.state, which Dask 20\d\d\.\d+\.\d+ does not have"
    ):
        need("Dask", object(), "state", "x")


def test_a_program_with_an_asynchronous_client() -> None:
    program = """
    import asyncio, distributed, gpuconf.dask

    async def main():
        cluster = gpuconf.dask.LocalCluster(2, simulate="4xT4:16GiB", device_memory_limit="0.5", asynchronous=True,
                                            dashboard_address=None)
        async with cluster, distributed.Client(cluster, asynchronous=True) as client:
            print(gpuconf.dask.needs("1GiB", client))
            print([(row.process, row.bytes_limit >> 30) for row in await gpuconf.dask.memory(client)])

    if __name__ == "__main__":
        asyncio.run(main())
    """
    done = run(program, timeout=60)
    assert done.stdout == "{'gpuconf_memory': 1073741824}\n[('gpu0-0', 8), ('gpu1-0', 8)]\n", done
    assert sys.modules["distributed"]


def test_workers_that_lease_have_what_nobody_needs() -> None:
    """A worker announces what it has for sure. What was lent to it goes to another program at once."""
    out = run_well(
        """
        import json, os, subprocess, sys, tempfile, time
        import distributed, gpuconf, gpuconf.dask

        command = [sys.executable, "-m", "gpuconf"]

        def leased():
            listed = subprocess.run([*command, "lease", "--list", "--json"], capture_output=True, check=True)
            return [row["cards"][0]["bytes"] >> 30 for row in json.loads(listed.stdout)["leases"]]

        def limit():
            import gpuconf
            return gpuconf.memory.stats().bytes_limit >> 30

        if __name__ == "__main__":
            os.environ["GPUCONF_LEDGER"] = tempfile.mkdtemp() + "/ledger"
            os.environ["GPUCONF_SIMULATE"] = "A100-40GB:driver=13.0"
            with (
                gpuconf.dask.LocalCluster(
                    memory="10GiB..30GiB", lease=True, dashboard_address=":0", silence_logs="CRITICAL"
                ) as cluster,
                distributed.Client(cluster) as client,
            ):
                print(*client.run(limit).values())
                print(*(row["resources"] for row in client.scheduler_info()["workers"].values()))
                end = time.monotonic() + 30
                while leased() != [30] and time.monotonic() < end:
                    time.sleep(0.2)
                print(leased())
                done = subprocess.run([*command, "run", "--memory", "28GiB", "true"], timeout=60)
                print(done.returncode)
        """,
        timeout=120,
    )
    assert out.splitlines() == ["30", "{'gpuconf_memory': 10737418240}", "[30]", "0"]


def test_what_is_lent_needs_a_lease() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"Dask's workers with lease=True: give it 10GiB"):
        gpuconf.dask.LocalCluster(memory="10GiB..30GiB", simulate="A100-40GB")
    with pytest.raises(errors.InvalidArgumentError, match=r"memory is MIN\.\.MAX, but 30GiB is more than 10GiB"):
        gpuconf.dask.WorkerSetup("30GiB..10GiB", lease=True)
