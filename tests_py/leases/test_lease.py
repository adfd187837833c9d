"""``gpuconf.lease``: a part of a GPU for this process, in turn with others."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpuconf
import pytest
from gpuconf._core import settings
from gpuconf.leases.grant import Grant
from gpuconf.leases.lease import devices_elsewhere
from gpuconf.leases.ledger import Card, Ledger, open_ledger
from script import environment, run_well
from tripwire import PATH

GIB = 1 << 30


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_t4: None) -> Iterator[Ledger]:
    """A ledger of the test's own, empty at the end."""
    monkeypatch.setenv("GPUCONF_LEDGER", str(tmp_path / "ledger"))
    opened = open_ledger()
    yield opened
    assert opened.claims() == []
    assert opened.check() == []
    opened.close()


@pytest.fixture
def two_t4() -> None:
    """A machine with two simulated T4."""
    gpuconf.simulate("2xT4:16GiB")


def variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def test_inside_a_lease_this_process_has_the_card_and_the_bytes() -> None:
    before = variables()
    for _ in range(2):  # they follow one another
        with gpuconf.lease(memory="3GiB", name="training") as leased:
            assert [device.uuid for device in gpuconf.visible_devices()] == leased.gpus
            assert os.environ["CUDA_VISIBLE_DEVICES"] == leased.gpus[0]
            assert os.environ["CUPY_GPU_MEMORY_LIMIT"] == str(3 * GIB) == str(leased.memory)
            assert gpuconf.memory.stats("GPU:0").bytes_limit == 3 * GIB
            assert repr(leased) == f"<gpuconf.lease: 3.00GiB on {leased.gpus[0]} (dedicated memory)>"
        assert (leased.gpus, leased.memory, repr(leased)) == ([], 0, "<gpuconf.lease: nothing is leased>")
        assert variables() == before
        assert len(gpuconf.visible_devices()) == 2
    assert gpuconf.memory.stats("GPU:0").bytes_limit == 16 * GIB - (1050 << 20)


def test_a_lease_names_the_kind_of_memory() -> None:
    with gpuconf.simulate("GB10"):
        with gpuconf.lease(memory="3GiB") as leased:
            assert (leased.memory_kinds, leased.memory_sources) == (["unified"], ["simulation"])
            assert repr(leased) == f"<gpuconf.lease: 3.00GiB on {leased.gpus[0]} (unified memory)>"
        assert (leased.memory_kinds, leased.memory_sources) == ([], [])


def test_the_configuration_is_restored() -> None:
    gpus = gpuconf.config.list_physical_devices("GPU")
    gpuconf.config.set_soft_device_placement(False)
    gpuconf.config.experimental.set_memory_growth(gpus[0], True)
    gpuconf.config.set_logical_device_configuration(gpus[1], [gpuconf.config.LogicalDeviceConfiguration(100)])
    gpuconf.config.set_visible_devices(gpus[1], "GPU")
    with gpuconf.lease(memory="3GiB", gpus=2):
        assert not gpuconf.config.get_soft_device_placement()
        assert gpuconf.config.experimental.get_memory_growth(gpuconf.config.list_physical_devices("GPU")[0])
        assert [gpuconf.memory.stats(f"GPU:{i}").bytes_limit for i in range(2)] == [3 * GIB] * 2
    assert not gpuconf.config.get_soft_device_placement()
    assert gpuconf.config.get_visible_devices("GPU") == [gpus[1]]
    assert gpuconf.config.experimental.get_memory_growth(gpus[0])
    assert gpuconf.memory.stats("GPU:0").bytes_limit == 100 << 20


@pytest.mark.parametrize("kept", ["growth", "limit", "visible"])
def test_each_part_of_the_configuration_is_restored_alone(kept: str) -> None:
    gpus, limit = gpuconf.config.list_physical_devices("GPU"), gpuconf.config.LogicalDeviceConfiguration(100)
    if kept == "growth":
        for gpu in gpus:
            gpuconf.config.experimental.set_memory_growth(gpu, True)
    elif kept == "limit":
        gpuconf.config.set_logical_device_configuration(gpus[1], [limit])
    else:
        gpuconf.config.set_visible_devices(gpus[1], "GPU")
    with gpuconf.lease(memory="3GiB"):
        pass
    gpus = gpuconf.config.list_physical_devices("GPU")
    assert gpuconf.config.get_visible_devices("GPU") == (gpus[1:] if kept == "visible" else gpus)
    assert bool(gpuconf.config.experimental.get_memory_growth(gpus[1])) is (kept == "growth")
    assert gpuconf.config.get_logical_device_configuration(gpus[1]) == ([limit] if kept == "limit" else None)


def test_an_administrators_ceiling_holds_for_leases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: Ledger
) -> None:
    (tmp_path / "etc.toml").write_text('[ceilings]\nlimit = "4GiB"\n')
    monkeypatch.setattr(settings, "ADMINISTRATOR", str(tmp_path / "etc.toml"))
    with pytest.raises(ValueError, match=r"6\.00GiB .* exceed the administrator's limit for each GPU, 4\.00GiB"):
        gpuconf.lease(memory="6GiB").__enter__()
    assert ledger.claims() == []
    for memory, leased_bytes in (("4GiB", 4 * GIB), (None, 4 * GIB), ("25%", 4 * GIB)):
        with gpuconf.lease(memory=memory) as leased:
            assert leased.memory == leased_bytes


@pytest.mark.parametrize("memory", ["4GiB", None, "50%"])
def test_a_lease_does_not_raise_the_users_own_limit(
    monkeypatch: pytest.MonkeyPatch, ledger: Ledger, memory: str | None
) -> None:
    """The process had the lease's limit, and no message said so. What it cannot use is left to others."""
    monkeypatch.setenv("GPUCONF_LIMIT", "1GiB")
    leased = gpuconf.lease(memory=memory)
    with pytest.warns(
        UserWarning, match=r"of each GPU was requested, and GPUCONF_LIMIT allows 1\.00GiB: that is the limit"
    ) as said:
        leased.__enter__()
    assert [Path(one.filename) for one in said] == [Path(__file__)]
    try:
        assert (leased.memory, gpuconf.memory.stats("GPU:0").bytes_limit) == (GIB, GIB)
        assert [card.bytes for claim in ledger.claims() for card in claim.cards] == [GIB]
        with pytest.raises(MemoryError):
            gpuconf.memory.allocate("1.5GiB")
    finally:
        leased.release()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gpuconf.lease(memory="512MiB") as leased:
            assert leased.memory == GIB // 2


def test_a_lease_does_not_raise_a_limit_that_the_program_has_set(ledger: Ledger) -> None:
    gpuconf.configure(limit="1GiB")
    says = r"4\.00GiB of each GPU was requested, and the program's configuration allows 1\.00GiB: that is the limit"
    leased = gpuconf.lease(memory="4GiB")
    with pytest.warns(UserWarning, match=says):
        leased.__enter__()
    try:
        assert leased.memory == gpuconf.memory.stats("GPU:0").bytes_limit == GIB
    finally:
        leased.release()
    assert gpuconf.memory.stats("GPU:0").bytes_limit == GIB


def test_policies_and_several_cards(ledger: Ledger) -> None:
    uuids = [device.uuid for device in gpuconf.visible_devices()]
    child = holder("12GiB")
    held = ledger.claims()[0].cards[0].uuid
    other = next(uuid for uuid in uuids if uuid != held)
    with gpuconf.lease(memory="2GiB") as leased:
        assert leased.gpus == [other]
    with gpuconf.lease(memory="2GiB", policy="pack") as leased:
        assert leased.gpus == [held]
    with gpuconf.lease(memory="10%", gpus=2) as leased:
        assert sorted(leased.gpus) == sorted(uuids)
        assert leased.memory == 16 * GIB // 10
    child.communicate("\n")


def holder(memory: str) -> subprocess.Popen[str]:
    """Another process that holds a lease until it reads a line."""
    code = (
        f"import gpuconf\nwith gpuconf.lease(memory={memory!r}, name='other'):\n    print(1, flush=True)\n    input()"
    )
    env = environment({"GPUCONF_LEDGER": os.environ["GPUCONF_LEDGER"], "GPUCONF_SIMULATE": "2xT4:16GiB"})
    child = subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "1\n"
    return child


def test_a_timeout_names_the_holders() -> None:
    children = [holder("12GiB"), holder("12GiB")]
    before = variables()
    with pytest.raises(gpuconf.errors.DeadlineExceededError, match=f"process {children[0].pid} other") as caught:
        gpuconf.lease(memory="4GiB", timeout=0.1).__enter__()
    assert f"process {children[1].pid} other" in str(caught.value)
    assert "12.31GiB leased, dedicated memory of a simulated GPU" in str(caught.value)
    assert variables() == before
    threading.Timer(0.3, lambda: children[0].communicate("\n")).start()
    with gpuconf.lease(memory="4GiB", timeout=20):
        pass
    children[1].communicate("\n")


# A process that holds the ledger's lock, as one does that is stopped at the wrong moment.
LOCKER = """
import fcntl, os
file = open(os.environ["GPUCONF_LEDGER"] + "/ledger")
fcntl.flock(file, fcntl.LOCK_EX)
print(1, flush=True)
input()
"""


@pytest.fixture
def locker() -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until it reads a line."""
    child = subprocess.Popen([sys.executable, "-c", LOCKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "1\n"
    yield child
    child.kill()
    child.communicate()


@pytest.mark.parametrize("timeout", [0, 0.5])
def test_a_timeout_holds_while_a_process_holds_the_lock(locker: subprocess.Popen[str], timeout: float) -> None:
    """It used to take a minute, and the class was another one."""
    before, begun = variables(), time.monotonic()
    with pytest.raises(
        gpuconf.errors.DeadlineExceededError, match=f"process {locker.pid} holds the lock of .*/ledger. It should"
    ):
        gpuconf.lease(memory="4GiB", timeout=timeout).__enter__()
    assert timeout <= time.monotonic() - begun < 20
    assert variables() == before


def test_a_part_of_a_jobs_lease_that_cannot_be_entered_is_not_begun(
    locker: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for no memory, and only its figures go to the ledger."""
    monkeypatch.setenv("GPUCONF_LEASE", 32 * "1")
    monkeypatch.setenv("GPUCONF_LIMIT", "8GiB")
    before, leased = variables(), gpuconf.lease(memory="4GiB", timeout=0)
    with pytest.raises(gpuconf.errors.DeadlineExceededError, match=f"process {locker.pid} holds the lock"):
        leased.__enter__()
    assert (leased.gpus, leased.memory) == ([], 0)
    assert variables() == before


def test_ctrl_c_ends_the_wait_for_the_lock(locker: subprocess.Popen[str]) -> None:
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        gpuconf.lease(memory="4GiB").__enter__()
    assert time.monotonic() - begun < 20


def test_a_request_that_waits_times_out_while_a_process_holds_the_lock(ledger: Ledger) -> None:
    """It is its turn, and it cannot be granted without the lock."""
    children = [holder("12GiB"), holder("12GiB")]
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            ledger.claim([Card(card.uuid, card.bytes, 4 * GIB) for card in ledger.claims()[0].cards], timeout=3)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while len(ledger.claims()) < 3:
        time.sleep(0.01)
    with open(ledger.folder + "/ledger") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for child in children:
            child.kill()
            child.communicate()
        thread.join(60)
    assert isinstance(caught[0], gpuconf.errors.DeadlineExceededError)
    assert f"process {os.getpid()} holds the lock" in str(caught[0])


def test_threads_that_release_the_same_lease(ledger: Ledger) -> None:
    """One of them does, and the others come when it has."""
    failed: list[Exception] = []

    def release(leased: Any, together: threading.Barrier) -> None:
        together.wait()
        try:
            leased.release()
            assert ledger.claims() == []
        except Exception as error:
            failed.append(error)

    for _ in range(10):
        leased, together = gpuconf.lease("1GiB").__enter__(), threading.Barrier(3)
        threads = [threading.Thread(target=release, args=(leased, together)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []


def test_leaving_with_memory_in_use_keeps_the_lease(ledger: Ledger) -> None:
    leased = gpuconf.lease(memory="3GiB")
    with (
        pytest.raises(
            gpuconf.errors.FailedPreconditionError,
            match=r"cannot end the lease of 3.00GiB .*\n.*Buffer of 1048576 bytes",
        ),
        leased,
    ):
        buffer = gpuconf.memory.allocate(1 << 20)
    assert [row.cards[0].bytes for row in ledger.claims()] == [3 * GIB]
    assert gpuconf.memory.stats("GPU:0").bytes_limit == 3 * GIB
    buffer.free()
    leased.release()
    leased.release()
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_an_error_of_the_block_takes_precedence() -> None:
    leased = gpuconf.lease(memory="3GiB")
    with pytest.raises(ZeroDivisionError), leased:
        (buffer := gpuconf.memory.allocate(1 << 20)).nbytes // 0
    buffer.free()
    leased.release()


def test_another_lease_after_one_whose_end_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was refused for ever, because the process had a lease of nothing, which could not be left."""
    release = Grant.release

    def interrupted(self: Grant) -> None:
        release(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), gpuconf.lease(memory="1GiB"):
        patch.setattr(Grant, "release", interrupted)
    with gpuconf.lease(memory="1GiB") as leased:
        assert leased.memory == 1 << 30


def test_another_lease_after_one_whose_begin_was_interrupted() -> None:
    """At each of the first steps, in which the lease becomes that of the process."""
    run_well(
        """
        import warnings
        import gpuconf
        from tripwire import interrupted

        def use():
            leased.__enter__()

        warnings.simplefilter("ignore")
        gpuconf.simulate("T4")
        for at in range(1, 80):
            leased = gpuconf.lease("1GiB")
            where, caught = interrupted(use, at)
            assert where, at
            with gpuconf.lease("1GiB"):
                pass
        """,
        env=PATH,
    )


def test_leases_do_not_nest() -> None:
    with (
        gpuconf.lease(memory="3GiB"),
        pytest.raises(gpuconf.errors.NestingError, match=r"this process has <gpuconf\.lease: 3\.00GiB on"),
    ):
        gpuconf.lease(memory="1GiB").__enter__()


def test_after_the_devices_are_initialized_only_the_same_can_be_leased(ledger: Ledger) -> None:
    gpus = gpuconf.config.list_physical_devices("GPU")
    for gpu in gpus:
        gpuconf.config.set_logical_device_configuration(gpu, [gpuconf.config.LogicalDeviceConfiguration(1024)])
    gpuconf.config.list_logical_devices()
    for memory, count in (("1GiB", 1), ("2GiB", 2), (None, 2)):
        with pytest.raises(
            gpuconf.errors.FailedPreconditionError,
            match=r"too late: the devices are already initialized by .*test_lease\.py:\d+ \(.*\), 2 GPUs with "
            r"limits of 1.00GiB, .* gpuconf\.reset\(\) first",
        ):
            gpuconf.lease(memory=memory, gpus=count).__enter__()
    with gpuconf.lease(memory="1GiB", gpus=2):
        assert len(ledger.claims()[0].cards) == 2
        with gpuconf.memory.allocate(1 << 20):
            pass
    assert gpuconf.memory.stats("GPU:1").bytes_limit == GIB


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"memory": "much"}, ValueError, "memory 'much' is not a size"),
        ({"memory": 0}, ValueError, "memory must be at least 1 MiB, but got 0"),
        ({"memory": True}, TypeError, "but got bool: True"),
        ({"gpus": 0}, ValueError, "gpus must be at least 1, but got 0"),
        ({"gpus": 1.5}, TypeError, "gpus must be a number of GPUs, but got 1.5"),
        (
            {"timeout": -1},
            ValueError,
            "timeout must be a number of seconds, at least 0, or None to wait forever, but got -1",
        ),
        ({"timeout": float("nan")}, ValueError, "but got nan"),
        ({"timeout": "soon"}, TypeError, "timeout must be a number of seconds or None, but got 'soon'"),
        ({"name": 5}, TypeError, "name must be text, but got 5"),
        ({"policy": "best"}, ValueError, "policy must be 'spread' or 'pack', but got 'best'"),
    ],
)
def test_invalid_arguments(arguments: dict[str, object], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        gpuconf.lease(**arguments)  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_requests_that_can_never_be_granted() -> None:
    for arguments, text in (
        ({"gpus": 3}, "3 GPUs are requested, but only 2 are visible"),
        ({"memory": "17GiB"}, "can never be leased"),
    ):
        with pytest.raises(ValueError, match=text):
            gpuconf.lease(**arguments).__enter__()  # type: ignore[arg-type]
    gpuconf.simulate(None)
    with pytest.raises(gpuconf.errors.NotFoundError, match=r"no GPU to lease.* or gpuconf\.simulate"):
        gpuconf.lease().__enter__()


def test_other_processes_see_the_figures(ledger: Ledger) -> None:
    with gpuconf.lease(memory="3GiB") as leased, gpuconf.memory.allocate(1 << 20):
        row = ledger.processes()[0]
        assert (row.pid, row.claim_id) == (os.getpid(), ledger.claims()[0].id)
        assert [(pool.uuid, pool.limit, pool.in_use) for pool in row.pools] == [(leased.gpus[0], 3 * GIB, 1 << 20)]
    assert ledger.processes() == []


def test_a_forked_child_leaves_the_lease_alone(ledger: Ledger) -> None:
    with gpuconf.lease(memory="3GiB") as leased:
        if os.fork() == 0:
            try:
                leased.release()
                leased.__exit__(None, None, None)
            finally:
                os._exit(0)
        os.wait()
        assert len(ledger.claims()) == 1


def test_the_gpus_can_be_listed_by_another_process() -> None:
    """So that CUDA does not start in this one, before its visible devices are chosen."""
    assert devices_elsewhere() == []
    os.environ["GPUCONF_SIMULATE"] = "2xT4:16GiB"
    try:
        assert devices_elsewhere() == gpuconf.visible_devices()
    finally:
        del os.environ["GPUCONF_SIMULATE"]


def test_out_of_memory_on_a_simulated_gpu_names_the_other_processes() -> None:
    other = holder("5GiB")
    with gpuconf.lease(memory="3GiB", name="mine", policy="pack"), pytest.raises(MemoryError) as caught:
        gpuconf.memory.allocate("4GiB")
    other.communicate("\n")
    text = (
        f" Other processes on this GPU, by the ledger: PID {other.pid} (other) leases 5.00GiB (5368709120 bytes) "
        "and uses 0 bytes."
    )
    assert text in str(caught.value)
    assert "mine" not in str(caught.value)
