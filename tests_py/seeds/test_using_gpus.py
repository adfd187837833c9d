"""The page "Using GPUs": every listing, unchanged but for its import, on the machine it describes, with the page's
output.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpuconf
import gpuconf.compat.v1 as tf1
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

LISTINGS = Path(__file__).parent / "listings" / "using_gpus"
GIB = 1 << 30
K40_TOTAL, K20_TOTAL = 12 * GIB, 5 * GIB

RESULT = """
[[ 22.  28.]
 [ 49.  64.]]
"""
K40_MAPPING = """
Device mapping:
/job:localhost/replica:0/task:0/gpu:0 -> device: 0, name: Tesla K40c, pci bus
id: 0000:05:00.0
"""
K20_MAPPING = """
Device mapping:
/job:localhost/replica:0/task:0/gpu:0 -> device: 0, name: Tesla K20m, pci bus
id: 0000:02:00.0
/job:localhost/replica:0/task:0/gpu:1 -> device: 1, name: Tesla K20m, pci bus
id: 0000:03:00.0
/job:localhost/replica:0/task:0/gpu:2 -> device: 2, name: Tesla K20m, pci bus
id: 0000:83:00.0
/job:localhost/replica:0/task:0/gpu:3 -> device: 3, name: Tesla K20m, pci bus
id: 0000:84:00.0
"""
NO_MAPPING = "Device mapping: no known devices."


@pytest.fixture(autouse=True)
def fresh_graph() -> Iterator[None]:
    """Give each listing an empty default graph."""
    tf1.reset_default_graph()
    yield
    tf1.reset_default_graph()


def machine(gpus: str) -> None:
    """Simulate the machine with these GPUs; "" without GPUs."""
    gpuconf.simulate(gpus or None)


def run(name: str) -> dict[str, Any]:
    """Run a listing as a script, and return its variables."""
    return runpy.run_path(str(LISTINGS / f"{name}.py"), run_name="__main__")


def words(text: str) -> str:
    """A text without line wraps, padding of numbers, and the location of a card."""
    text = re.sub(r"[0-9a-f]{4}:[0-9a-f]{2}:00\.0", "ADDRESS", " ".join(text.split()))
    return re.sub(r"\[ ", "[", text)


def shown(capsys: pytest.CaptureFixture[str], log: str, result: str) -> None:
    """Compare the output with the page's: the log goes to standard error, the result to standard output."""
    out, err = capsys.readouterr()
    assert words(err) == words(log)
    assert words(out) == words(result)


def test_every_listing_has_a_test() -> None:
    source = Path(__file__).read_text()
    assert [path.stem for path in LISTINGS.glob("*.py") if f'run("{path.stem}")' not in source] == []


def test_the_log_tells_where_each_operation_is(capsys: pytest.CaptureFixture[str]) -> None:
    machine("K40")
    run("log_device_placement")
    shown(
        capsys,
        f"""{K40_MAPPING}
        b: /job:localhost/replica:0/task:0/gpu:0
        a: /job:localhost/replica:0/task:0/gpu:0
        MatMul: /job:localhost/replica:0/task:0/gpu:0""",
        RESULT,
    )


def test_without_a_gpu_all_is_on_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    machine("")
    run("log_device_placement")
    shown(
        capsys,
        f"""{NO_MAPPING}
        b: /job:localhost/replica:0/task:0/cpu:0
        a: /job:localhost/replica:0/task:0/cpu:0
        MatMul: /job:localhost/replica:0/task:0/cpu:0""",
        RESULT,
    )


def test_constants_are_put_on_the_cpu_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    machine("K40")
    run("place_manually")
    shown(
        capsys,
        f"""{K40_MAPPING}
        b: /job:localhost/replica:0/task:0/cpu:0
        a: /job:localhost/replica:0/task:0/cpu:0
        MatMul: /job:localhost/replica:0/task:0/gpu:0""",
        RESULT,
    )


def test_memory_growth_starts_small_and_grows() -> None:
    """Seen by the simulated card: 2 MiB for the first tensor, more when there are more, never released."""
    machine("K40")
    session = run("allow_growth")["session"]
    assert gpuconf.memory.stats("GPU:0").bytes_reserved == 0
    session.run(tf1.constant([1.0]))
    small = gpuconf.memory.stats("GPU:0").bytes_reserved
    assert 0 < small <= 2 << 20
    session.run(tf1.identity(tf1.constant(1.0, shape=[4 << 20])))
    assert gpuconf.memory.stats("GPU:0").bytes_reserved > 16 << 20
    assert gpuconf.memory.stats("GPU:0").bytes_in_use == 0


@pytest.mark.parametrize(("gpus", "count", "total"), [("K40", 1, K40_TOTAL), ("4xK20", 4, K20_TOTAL)])
def test_the_fraction_bounds_each_visible_gpu(gpus: str, count: int, total: int) -> None:
    machine(gpus)
    session = run("memory_fraction")["session"]
    bound = int(total * 0.4)
    for number in range(count):
        device = f"GPU:{number}"
        assert gpuconf.memory.stats(device).bytes_limit == bound
        with tf1.device(f"/gpu:{number}"):
            session.run(tf1.constant([1.0]))
        assert bound - 256 < gpuconf.memory.stats(device).bytes_reserved <= bound
        with pytest.raises(MemoryError, match=" out of memory"):
            gpuconf.memory.allocate(bound + 1, device)
        gpuconf.memory.allocate(bound - bound % 256, device).free()


def test_a_gpu_is_chosen_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    machine("4xK20")
    run("choose_one_gpu")
    shown(
        capsys,
        f"""{K20_MAPPING}
        b: /job:localhost/replica:0/task:0/gpu:2
        a: /job:localhost/replica:0/task:0/gpu:2
        MatMul: /job:localhost/replica:0/task:0/gpu:2""",
        RESULT,
    )


@pytest.mark.parametrize("gpus", ["", "K40", "2xK20"])
def test_a_device_that_is_not_there_is_the_pages_error(capsys: pytest.CaptureFixture[str], gpus: str) -> None:
    machine(gpus)
    with pytest.raises(gpuconf.errors.InvalidArgumentError) as caught:
        run("choose_one_gpu")
    page = """
        InvalidArgumentError: Invalid argument: Cannot assign a device to node 'b':
        Could not satisfy explicit device specification '/gpu:2'
        [[Node: b = Const[dtype=DT_FLOAT, value=Tensor<type: float shape: [3,2]
        values: 1 2 3...>, _device="/gpu:2"]()]]"""
    assert words(f"InvalidArgumentError: {caught.value}").startswith(words(page))
    assert isinstance(caught.value, ValueError)
    assert "allow_soft_placement=True" in str(caught.value), "the next step"
    assert "MatMul" not in capsys.readouterr().err, "nothing was placed"


@pytest.mark.parametrize(
    ("gpus", "mapping", "where"),
    [("", NO_MAPPING, "cpu:0"), ("K40", K40_MAPPING, "gpu:0"), ("4xK20", K20_MAPPING, "gpu:2")],
)
def test_soft_placement_takes_another_device(
    capsys: pytest.CaptureFixture[str], gpus: str, mapping: str, where: str
) -> None:
    machine(gpus)
    run("soft_placement")
    shown(
        capsys,
        f"""{mapping}
        b: /job:localhost/replica:0/task:0/{where}
        a: /job:localhost/replica:0/task:0/{where}
        MatMul: /job:localhost/replica:0/task:0/{where}""",
        RESULT,
    )


def test_several_gpus_share_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    machine("4xK20")
    run("use_several_gpus")
    shown(
        capsys,
        f"""{K20_MAPPING}
        Const_3: /job:localhost/replica:0/task:0/gpu:3
        Const_2: /job:localhost/replica:0/task:0/gpu:3
        MatMul_1: /job:localhost/replica:0/task:0/gpu:3
        Const_1: /job:localhost/replica:0/task:0/gpu:2
        Const: /job:localhost/replica:0/task:0/gpu:2
        MatMul: /job:localhost/replica:0/task:0/gpu:2
        AddN: /job:localhost/replica:0/task:0/cpu:0""",
        """
        [[  44.   56.]
         [  98.  128.]]""",
    )


def test_several_gpus_that_are_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    machine("3xK20")
    with pytest.raises(
        gpuconf.errors.InvalidArgumentError, match=r"Cannot assign a device to node 'Const_3'.*'/gpu:3'"
    ) as caught:
        run("use_several_gpus")
    assert "/job:localhost/replica:0/task:0/gpu:2" in str(caught.value), "what there is"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "name", ["log_device_placement", "place_manually", "choose_one_gpu", "soft_placement", "use_several_gpus"]
)
def test_device_memory_is_after_a_run_what_it_was_before(name: str) -> None:
    machine("4xK20")
    run(name)
    for number in range(4):
        assert gpuconf.memory.stats(f"GPU:{number}").live_blocks == 0
        assert gpuconf.memory.stats(f"GPU:{number}").bytes_in_use == 0
