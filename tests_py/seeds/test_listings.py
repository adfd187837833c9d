"""Every listing of the pages, unchanged but for its import, on a machine with no GPU, with one and with two."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import gpuconf as tf
import pytest

LISTINGS = Path(__file__).parent / "listings"
MIB = 1 << 20
H100_LIMIT = 84_011_909_120

CANNOT_MODIFY = "Cannot modify the virtual devices once they have been initialized.\n"
CANNOT_GROW = "Cannot set memory growth when virtual devices configured\n"


def machine(gpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine with this number of GPUs."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus))))
    tf.simulate("2xH100-80GB")


def run(name: str) -> dict[str, Any]:
    """Run a listing as a script, and return its variables."""
    return runpy.run_path(str(LISTINGS / name), run_name="__main__")


def uninitialized() -> bool:
    """Whether a setting that must come before the first use of a device is still possible."""
    before = tf.config.get_visible_devices()
    try:
        tf.config.set_visible_devices([])
    except RuntimeError:
        return False
    tf.config.set_visible_devices(before)
    return True


def reserved(device: str) -> int:
    """What the pool reserves on the GPU for its first byte."""
    tf.memory.allocate(1, device).free()
    return tf.memory.stats(device).bytes_reserved


# The output of each on zero, one and two GPUs.
PRINTS = {
    "set_memory_growth.py": ("", "", ""),
    "split_cpu.py": (CANNOT_MODIFY, CANNOT_MODIFY, CANNOT_MODIFY),
    "split_gpu.py": (AssertionError, CANNOT_GROW + CANNOT_MODIFY, CANNOT_GROW + CANNOT_MODIFY),
    "get_memory_info.py": ("", "", ""),
    "restrict_to_first_gpu.py": ("", "1 Physical GPUs, 1 Logical GPU\n", "2 Physical GPUs, 1 Logical GPU\n"),
    "grow_memory.py": ("", "1 Physical GPUs, 1 Logical GPUs\n", "2 Physical GPUs, 2 Logical GPUs\n"),
    "limit_memory.py": ("", "1 Physical GPUs, 1 Logical GPUs\n", "2 Physical GPUs, 2 Logical GPUs\n"),
}


def test_every_listing_has_its_output() -> None:
    assert {path.name for path in LISTINGS.iterdir() if path.suffix == ".py"} == set(PRINTS)


@pytest.mark.parametrize("gpus", [0, 1, 2])
@pytest.mark.parametrize("name", PRINTS)
def test_a_listing_prints_what_its_page_promises(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, gpus: int
) -> None:
    machine(gpus, monkeypatch)
    printed = PRINTS[name][gpus]
    if printed is AssertionError:
        with pytest.raises(AssertionError, match="No GPUs found"):
            run(name)
        printed = ""
    else:
        run(name)
    assert capsys.readouterr() == (printed, "")


def test_memory_growth_is_set_for_the_first_gpu_and_nothing_is_initialized(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(1, monkeypatch)
    run("set_memory_growth.py")
    assert tf.config.experimental.get_memory_growth(tf.config.list_physical_devices("GPU")[0]) is True
    assert uninitialized()
    assert reserved("GPU:0") == 2 * MIB


def test_memory_growth_for_one_of_two_gpus_shows_when_the_runtime_is_initialized(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine(2, monkeypatch)
    run("set_memory_growth.py")
    with pytest.raises(ValueError, match=r"^Memory growth cannot differ between GPU devices"):
        tf.config.list_logical_devices()


def test_memory_growth_without_gpus_is_an_index_error_that_the_listing_swallows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine(0, monkeypatch)
    assert run("set_memory_growth.py")["physical_devices"] == []
    assert uninitialized()


@pytest.mark.parametrize("gpus", [0, 1, 2])
def test_the_cpu_is_split_in_two(monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
    machine(gpus, monkeypatch)
    assert [d.name for d in run("split_cpu.py")["logical_devices"]] == ["/device:CPU:0", "/device:CPU:1"]
    assert len(tf.config.list_logical_devices("GPU")) == gpus
    assert len(tf.config.experimental.get_virtual_device_configuration(tf.config.list_physical_devices("CPU")[0])) == 2


@pytest.mark.parametrize("gpus", [1, 2])
def test_the_gpu_is_split_in_two_of_100_mb(monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
    machine(gpus, monkeypatch)
    devices = run("split_gpu.py")["logical_devices"]
    assert [d.name for d in devices] == [f"/device:GPU:{i}" for i in range(gpus + 1)]
    assert [tf.memory.stats(d).bytes_limit for d in devices] == [100 * MIB, 100 * MIB, H100_LIMIT][: gpus + 1]
    for name in ("GPU:0", "GPU:1"):
        with tf.memory.allocate(100 * MIB, name), pytest.raises(MemoryError):
            tf.memory.allocate(1, name)


def test_without_gpus_the_split_stops_before_anything_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(0, monkeypatch)
    with pytest.raises(AssertionError, match=r"^No GPUs found"):
        run("split_gpu.py")
    assert uninitialized()


@pytest.mark.parametrize(
    ("gpus", "shown"), [(0, ""), (1, "{'current': 0, 'peak': 0}\n"), (2, "{'current': 0, 'peak': 0}\n")]
)
def test_typed_in_the_memory_info_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], gpus: int, shown: str
) -> None:
    machine(gpus, monkeypatch)
    first, statement = (LISTINGS / "get_memory_info.py").read_text().split("\n", 1)
    variables: dict[str, Any] = {}
    for text in (first, statement.strip("\n") + "\n"):
        exec(compile(text, "<stdin>", "single"), variables)  # as the interactive interpreter does
    assert capsys.readouterr().out == shown


def test_only_the_first_gpu_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(2, monkeypatch)
    run("restrict_to_first_gpu.py")
    assert tf.config.get_visible_devices("GPU") == tf.config.list_physical_devices("GPU")[:1]
    assert [d.name for d in tf.config.list_logical_devices("GPU")] == ["/device:GPU:0"]


def test_memory_grows_on_all_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(2, monkeypatch)
    run("grow_memory.py")
    assert [tf.config.experimental.get_memory_growth(d) for d in tf.config.list_physical_devices("GPU")] == [True, True]
    assert [reserved("GPU:0"), reserved("GPU:1")] == [2 * MIB, 2 * MIB]


def test_one_gb_is_a_hard_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(2, monkeypatch)
    run("limit_memory.py")
    assert [tf.memory.stats(d).bytes_limit for d in tf.config.list_logical_devices("GPU")] == [1024 * MIB, H100_LIMIT]
    with tf.memory.allocate(1000 * MIB, "GPU:0"):
        with pytest.raises(MemoryError, match=" out of memory"):
            tf.memory.allocate(25 * MIB, "GPU:0")
        with tf.memory.allocate(24 * MIB, "GPU:0"):
            assert tf.config.experimental.get_memory_info("GPU:0") == {"current": 1024 * MIB, "peak": 1024 * MIB}
    tf.memory.allocate(25 * MIB, "GPU:1").free()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("restrict_to_first_gpu.py", "Visible devices cannot be modified after being initialized"),
        ("grow_memory.py", "Physical devices cannot be modified after being initialized"),
        ("limit_memory.py", "Virtual devices cannot be modified after being initialized"),
    ],
)
def test_a_listing_that_comes_too_late_prints_who_was_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    machine(2, monkeypatch)
    tf.config.list_logical_devices()  # this line
    run(name)
    printed = capsys.readouterr().out
    assert printed.startswith(text)
    here = next(i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.endswith("# this line"))
    assert f"{__file__}:{here} " in printed


def test_restricting_after_restricting_says_nothing_new(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(2, monkeypatch)
    run("restrict_to_first_gpu.py")
    run("restrict_to_first_gpu.py")
    assert capsys.readouterr().out == "2 Physical GPUs, 1 Logical GPU\n" * 2


def test_the_listings_of_one_page_exclude_each_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(1, monkeypatch)
    run("limit_memory.py")
    with pytest.raises(ValueError, match=r"^Cannot set memory growth on device when virtual devices configured"):
        run("grow_memory.py")  # which expects a RuntimeError
    assert capsys.readouterr().out == "1 Physical GPUs, 1 Logical GPUs\n"


def test_by_default_nearly_all_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(1, monkeypatch)
    assert reserved("GPU:0") == H100_LIMIT > 0.97 * 80 * 1024 * MIB


@pytest.mark.parametrize("name", ["grow_memory.py", "limit_memory.py", "restrict_to_first_gpu.py"])
def test_the_variable_makes_memory_grow_too(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    machine(1, monkeypatch)
    run(name)
    assert reserved("GPU:0") == 2 * MIB
