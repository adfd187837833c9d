"""Sizes as numbers and as text: the same rule for ``allocate``, for limits, and on the command line.

``--limit`` accepted the digits of every script, and the error for one of 5,000 digits named a private function;
``configure(limit=10**5000)`` was an OverflowError; ``allocate("1GiB")`` a TypeError.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import gpuconf
import pytest
from gpuconf.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def machine(one_gpu: None) -> None:
    """What most tests need; others simulate their own."""


MIB, GIB = 1 << 20, 1 << 30

SIZES = {
    "2000000": 2_000_000,
    " 0002000000 ": 2_000_000,
    "2000000B": 2_000_000,
    "1GiB": GIB,
    "1 gib": GIB,
    "1.5GiB": GIB + GIB // 2,
    ".5GiB": GIB // 2,
    "2.GiB": 2 * GIB,
    "500MB": 500_000_000,
    "0.001TB": 1_000_000_000,
    "3.3333333333333333333333333333333333333333MB": 3_333_333,
}

NOT_SIZES = [
    "", " ", "much", "GiB", "-1GiB", "+1GiB", "1e9", "1_000_000", "0x100000", "inf", "nan", "1.2.3MiB", "1GiBB", "6XB",
    "1 000 000", "1,5GiB", "\u0661\u0662\u0663\u0664\u0665\u0666\u0667", "\uff11GiB", "\u00b2GiB", "1G\u0131B",
    "1\u00a0GiB", "9" * 5000, "1" + "0" * 5000 + "MiB", "\ud800",
]  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.csv"
    path.write_text("Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.0,allocate,0x1000000,1048576,0\n")
    return str(path)


@pytest.mark.parametrize("text", SIZES)
def test_text_is_a_size_everywhere(text: str, trace: str) -> None:
    with gpuconf.memory.allocate(text) as buffer:
        assert buffer.nbytes == SIZES[text]
    assert gpuconf.plan(trace, limit=text).limit == SIZES[text]
    gpuconf.reset()
    assert gpuconf.configure(limit=text, libraries=[]).limits == {"/physical_device:GPU:0": SIZES[text]}


def test_a_limit_counts_to_the_byte() -> None:
    """It was rounded down to whole MiB: configure(limit="500MB") allowed 522,304 bytes less than gpuconf run --memory
    500MB.
    """
    limit = 500_000_000
    before = gpuconf.config.list_physical_devices("GPU")[0]
    gpuconf.configure(limit="500MB", libraries=[])
    kept = gpuconf.config.get_logical_device_configuration(before)
    assert repr(kept[0]).startswith("LogicalDeviceConfiguration(memory_limit=476.837158203125, ")
    gpuconf.config.set_logical_device_configuration(before, pickle.loads(pickle.dumps(kept)))
    assert gpuconf.memory.stats("GPU:0").bytes_limit == limit
    with gpuconf.memory.allocate(limit // 256 * 256), pytest.raises(gpuconf.errors.ResourceExhaustedError):
        gpuconf.memory.allocate(256)
    with pytest.raises(gpuconf.errors.ResourceExhaustedError):
        gpuconf.memory.allocate(limit + 1)


def test_tensorflows_call_still_truncates_a_limit() -> None:
    gpu = gpuconf.config.list_physical_devices("GPU")[0]
    gpuconf.configure(limit="500MB", libraries=[])
    (kept,) = gpuconf.config.get_logical_device_configuration(gpu)
    for one in (gpuconf.config.LogicalDeviceConfiguration(*kept), kept._replace(experimental_priority=0)):
        gpuconf.config.set_logical_device_configuration(gpu, [one])
        (read,) = gpuconf.config.get_logical_device_configuration(gpu)
        assert read.memory_limit == kept.memory_limit
    assert gpuconf.memory.stats("GPU:0").bytes_limit == 476 * MIB
    with pytest.raises(RuntimeError, match="Virtual devices cannot be modified after being initialized"):
        gpuconf.config.set_logical_device_configuration(gpu, [kept])


def test_errors_tell_limits_apart() -> None:
    gpuconf.configure(limit=GIB + 1, libraries=[])
    with gpuconf.memory.allocate(1000), pytest.raises(gpuconf.errors.FailedPreconditionError) as caught:
        gpuconf.configure(limit=GIB + 2, libraries=[])
    assert "limit 1073741826 bytes is too late: /physical_device:GPU:0 has the limit 1073741825 bytes" in str(
        caught.value
    )


def test_tensorflow_gets_no_more_than_the_limit() -> None:
    """TensorFlow has float32, which rounds 20,479.999 MiB up."""
    from gpuconf.cluster.share import limit_of
    from gpuconf.compat.v2.python.eager import context

    gpu = gpuconf.config.list_physical_devices("GPU")[0]
    gpuconf.configure(limit=20 * GIB - 1000, libraries=[])
    (kept,) = gpuconf.config.get_logical_device_configuration(gpu)
    (virtual,) = context.context().config.gpu_options.experimental.virtual_devices
    assert list(virtual.memory_limit_mb) == [20 * 1024 - 1]
    gpuconf.config.set_logical_device_configuration(gpu, [gpuconf.config.LogicalDeviceConfiguration(kept.memory_limit)])
    assert limit_of(gpu) == gpuconf.memory.stats("GPU:0").bytes_limit == 20 * GIB


def test_the_same_limit_in_bytes_and_in_mib_is_no_change() -> None:
    gpu = gpuconf.config.list_physical_devices("GPU")[0]
    gpuconf.configure(limit="1GiB", libraries=[])
    with gpuconf.memory.allocate(1000):
        gpuconf.config.set_logical_device_configuration(gpu, [gpuconf.config.LogicalDeviceConfiguration(1024)])
        gpuconf.configure(limit=GIB, libraries=[])
        assert gpuconf.memory.stats("GPU:0").bytes_limit == GIB


@pytest.mark.parametrize("text", NOT_SIZES, ids=lambda text: ascii(text)[:20])
def test_what_is_not_a_size_is_refused_everywhere(text: str, trace: str) -> None:
    shown = gpuconf._core.texts.shown(text)
    for what, call in (
        ("nbytes", lambda: gpuconf.memory.allocate(text)),
        ("limit", lambda: gpuconf.plan(trace, limit=text)),
        ("limit", lambda: gpuconf.configure(limit=text, libraries=[])),
        ("limit", lambda: gpuconf.configure(limit=[text], libraries=[])),
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            call()
        assert str(caught.value).startswith((f"{what} {shown} is not a size: ", f"{what} {shown} is too large: "))
        assert len(str(caught.value)) < 600


@pytest.mark.parametrize("text", ["1.5", "0.5", " 2000000.25 ", "1.5B"])
def test_a_part_of_a_byte_is_refused(text: str) -> None:
    """allocate("1.5") was 1 byte, while allocate(1.5) was refused."""
    for call in (gpuconf.memory.allocate, gpuconf.configure):
        with pytest.raises(InvalidArgumentError, match="is not a whole number of bytes: write a unit, such as '6GiB'"):
            call(text)


def test_the_guards_check_reads_the_same_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was an error of int()."""
    from gpuconf.cli import guard_check

    for text, wanted in ("6GiB", 6 * GIB), ("1048576", MIB), ("", 0):
        monkeypatch.setenv("GPUCONF_LIMIT", text)
        assert guard_check._limit(None) == wanted


@pytest.mark.parametrize(
    "limit", [10**5000, -(10**5000), 1 << 63, True, 1.5, b"1GiB", object()], ids=lambda v: type(v).__name__
)
def test_a_limit_that_is_no_size_is_refused(limit: Any, trace: str) -> None:
    kind = InvalidArgumentError if type(limit) is int else InvalidTypeError
    with pytest.raises(kind, match=r"^limit must be "):
        gpuconf.configure(limit=limit, libraries=[])
    with pytest.raises(kind, match=r"^limit must be "):
        gpuconf.plan(trace, limit=limit)


def test_other_libraries_numbers_are_sizes(one_gpu: None, trace: str) -> None:
    np = pytest.importorskip("numpy")
    assert gpuconf.plan(trace, limit=np.int64(5 * MIB)).limit == 5 * MIB
    with gpuconf.memory.allocate(np.uint8(200)) as buffer:
        assert buffer.nbytes == 200
