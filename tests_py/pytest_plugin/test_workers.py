"""pytest-xdist: each worker has its GPU and its share of the memory before it collects tests."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

XDIST = ("-p", "xdist.plugin", "-p", "xdist.looponfail")

SHARES = """
import json, time
AT_COLLECTION = os.environ.get("CUDA_VISIBLE_DEVICES")
def seen(record_property, worker_id, limit=0):
    device, = gpuconf.visible_devices()
    record_property("seen", json.dumps([worker_id, device.uuid, AT_COLLECTION, limit, device.total_memory]))
@pytest.mark.parametrize("i", range(16))
def test_share(gpus, record_property, worker_id, i):
    gpu, = gpus
    stats = memory.stats(gpu.name)
    with memory.allocate(stats.bytes_limit - MIB):
        time.sleep(0.05)  # so that no worker takes all tests
        with pytest.raises(MemoryError):
            memory.allocate(2 * MIB)
    seen(record_property, worker_id, stats.bytes_limit)
"""
MORE = """
def spend(record_property):
    begin = time.monotonic()
    time.sleep(0.1)
    record_property("span", f"{AT_COLLECTION} {begin} {time.monotonic()}")
@pytest.mark.gpu
@pytest.mark.parametrize("i", range(16))
def test_together(record_property, i): spend(record_property)
@pytest.mark.gpu_exclusive
@pytest.mark.parametrize("i", range(4))
def test_alone(record_property, i): spend(record_property)
def test_leaks(gpu): KEPT.append(memory.allocate(MIB))
def test_walk(gpu, gpu_oom_each): memory.allocate(MIB).free()
"""


WHOLE_MACHINES = """
def count(): return len(gpuconf.visible_devices())
@pytest.mark.parametrize("i", range(4))
def test_all_gpus(gpu_simulate, i):
    gpu_simulate("3xT4")
    assert count() == 3
    gpuconf.reset()
    assert count() == 3
    gpu_simulate("A100")
    memory.allocate(MIB).free()
def test_the_tests_own_choice_counts(gpu_simulate, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1")
    gpu_simulate("3xT4")
    assert count() == 2
def test_the_runs_own_machine(gpu_simulate):
    gpu_simulate("3xT4")
    gpu_simulate(None)
    assert count() == int(os.environ["COUNT"])
def test_after(): assert count() == int(os.environ["COUNT"])
"""


@pytest.mark.parametrize(("mask", "options", "count"), [
    ("0", (), 0),
    ("", (), 0),
    ("", ("--gpuconf-simulate=4xA100",), 0),
    ("1,3", ("--gpuconf-simulate=4xA100",), 2),
    (None, (*XDIST, "-n2", "--gpuconf-simulate=4xA100"), 1),
])  # fmt: skip
def test_gpu_sim_has_all_its_gpus_whatever_the_run_may_use(
    suite: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, mask: str | None, options: tuple[str, ...], count: int
) -> None:
    monkeypatch.setenv("COUNT", str(count))
    if mask is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
    ran = suite(WHOLE_MACHINES, *options)
    assert ran.code == 0, ran.out


def _seen(ran: Any) -> list[list[Any]]:
    return [json.loads(found["seen"]) for found in ran.properties.values() if "seen" in found]


def test_four_workers_on_two_cards(suite: Callable[..., Any]) -> None:
    ran = suite(SHARES + MORE, *XDIST, "-n4", "--gpuconf-simulate=2xT4:16GiB")
    assert ran.code == 0, ran.out
    seen = _seen(ran)
    assert len(seen) == 16
    assert all(uuid == at_collection for _, uuid, at_collection, _, _ in seen)
    cards = {worker: uuid for worker, uuid, *_ in seen}
    assert cards.keys() == {"gw0", "gw1", "gw2", "gw3"}
    assert set(Counter(cards.values()).values()) == {2}
    limits = {worker: (limit, total) for worker, _, _, limit, total in seen}
    assert all(limit % (1 << 20) == 0 and total * 0.4 < limit < total / 2 for limit, total in limits.values())
    assert "test_suite.py::test_leaks  GPU:0: 1.00MiB (1048576 bytes) in 1 block of gpuconf (untagged)" in ran.out
    _check_overlaps(ran)


def _check_overlaps(ran: Any) -> None:
    """Tests marked gpu_exclusive run while no other one runs on that card. Others do run at the same time."""
    spans = {name: found["span"].split() for name, found in ran.properties.items() if "span" in found}
    overlaps = [
        (one, other)
        for one, (card, begin, end) in spans.items()
        for other, (other_card, begins, ends) in spans.items()
        if one != other and card == other_card and float(begin) < float(ends) and float(begins) < float(end)
    ]
    assert len(spans) == 20
    assert overlaps
    assert not [pair for pair in overlaps if "alone" in pair[0] + pair[1]]


def test_auto_is_capped_by_free_memory_and_keeps_to_the_callers_mask(
    suite: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "9")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    listed = suite(
        "def test_it(gpu, record_property): record_property('all', ' '.join(d.uuid for d in "
        "gpuconf.visible_devices()))",
        "--gpuconf-simulate=4xT4:16GiB",
    )
    ran = suite(SHARES, *XDIST, "-nauto", "--gpuconf-simulate=4xT4:16GiB", "--gpuconf-memory=14GiB")
    assert ran.code == 0, ran.out
    assert "created: 2/2 workers" in ran.out
    assert {limit for *_, limit, _ in _seen(ran)} == {14 << 30}
    assert {uuid for _, uuid, *_ in _seen(ran)} == {*listed.properties["test_it"]["all"].split()}


def test_more_workers_than_fit_are_a_usage_error(suite: Callable[..., Any]) -> None:
    ran = suite(SHARES, *XDIST, "-n3", "--gpuconf-simulate=2xT4:16GiB", "--gpuconf-memory=75%")
    assert ran.code == pytest.ExitCode.USAGE_ERROR
    assert "--gpuconf-memory: 2 workers of 12.00GiB (12884901888 bytes) do not fit in the " in ran.err
    assert "use at most 2 workers, or a smaller share" in ran.err


def test_one_worker_that_does_not_fit_needs_a_smaller_share(suite: Callable[..., Any]) -> None:
    ran = suite(SHARES, *XDIST, "-n1", "--gpuconf-simulate=T4:16GiB", "--gpuconf-memory=20GiB")
    assert ran.code == pytest.ExitCode.USAGE_ERROR
    assert "--gpuconf-memory: 1 worker of 20.00GiB (21474836480 bytes) does not fit in the " in ran.err
    assert ": use a smaller share" in ran.err


LIMITS = """
@pytest.fixture
def limit(gpus): return [memory.stats(gpu.name).bytes_limit >> 20 for gpu in gpus]
def test_here(limit): assert limit == [LIMIT] * len(limit)
def test_after_a_reset(gpu_simulate):
    gpu_simulate("A100")
    assert memory.stats("GPU:0").bytes_limit >> 20 > LIMIT
@pytest.mark.gpu_process
def test_in_a_process(limit): assert limit == [LIMIT] * len(limit)
@pytest.mark.gpu_process("2xA100")
def test_on_a_machine_of_its_own(limit): assert len(limit) == 2 and LIMIT not in limit
"""


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        (("--gpuconf-memory=2GiB",), 2048),
        (("--gpuconf-memory=25%",), int(14.5625 * 256)),
        ((*XDIST, "-n2", "--gpuconf-memory=2GiB"), 2048),
        ((*XDIST, "-n0", "--gpuconf-memory=2GiB"), 2048),
    ],
)
def test_the_memory_of_a_run_is_its_limit_with_and_without_workers(
    suite: Callable[..., Any], options: tuple[str, ...], limit: int
) -> None:
    """Without pytest-xdist's workers the option did nothing, and a test in a process of its own had no limit."""
    ran = suite(f"LIMIT = {limit}\n{LIMITS}", "--gpuconf-simulate=2xT4", *options)
    assert ran.code == 0, ran.out
    assert list(ran.outcomes.values()) == ["passed"] * 4


def test_a_test_in_a_process_has_its_workers_share(suite: Callable[..., Any]) -> None:
    share = """
@pytest.mark.gpu_process
def test_it(gpu): assert memory.stats("GPU:0").bytes_limit < 8 << 30
"""
    ran = suite(share, *XDIST, "-n2", "--gpuconf-simulate=T4")
    assert ran.code == 0, ran.out


def test_more_memory_than_a_card_has_is_a_usage_error(suite: Callable[..., Any]) -> None:
    ran = suite("def test_it(gpu): pass", "--gpuconf-simulate=T4", "--gpuconf-memory=99GiB")
    assert ran.code == 4
    assert "gpuconf cannot set the memory that --gpuconf-memory requests: limit 106300440576 is more" in ran.err


def test_memory_without_gpus_skips_as_before(suite: Callable[..., Any]) -> None:
    ran = suite("def test_it(gpu): pass", "--gpuconf-memory=2GiB")
    assert ran.outcomes == {"test_it": "skipped"}


def test_a_worker_that_replaces_a_crashed_one_takes_its_place(suite: Callable[..., Any]) -> None:
    ran = suite(
        SHARES
        + """
@pytest.mark.parametrize("i", range(8))
def test_it(gpu, record_property, worker_id, i, pytestconfig):
    if worker_id == "gw1":
        os._exit(1)
    third = pytestconfig.rootpath / "third"
    if worker_id == "gw2":
        third.touch()
    last = time.monotonic() + 60
    while not third.exists() and time.monotonic() < last:  # so that gw0 leaves tests for it
        time.sleep(0.05)
    seen(record_property, worker_id)
""",
        *XDIST,
        "-n2",
        "--gpuconf-simulate=2xT4:16GiB",
        "-k",
        "test_it",
    )
    assert "worker 'gw1' crashed" in ran.out
    cards = {worker: uuid for worker, uuid, *_ in _seen(ran)}
    assert cards.keys() == {"gw0", "gw2"}
    assert cards["gw0"] != cards["gw2"]


def test_without_gpus_workers_are_left_alone(suite: Callable[..., Any]) -> None:
    ran = suite(
        "def test_it(): assert 'CUDA_VISIBLE_DEVICES' not in os.environ and 'gpuconf._core._gpuconf' not in "
        "sys.modules\n",
        *XDIST,
        "-n1",
    )
    assert ran.code == 0, ran.out
