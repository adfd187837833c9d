"""The memory use of a logical device: names, errors, and what is counted."""

from __future__ import annotations

from typing import Any

import gpuconf as tf
import pytest

from .helpers import GIB, MIB, TOO_LATE_VISIBLE, L, gpus, initialize, kind_of, refused

get_memory_info = tf.config.experimental.get_memory_info
get_memory_usage = tf.config.experimental.get_memory_usage
reset_memory_stats = tf.config.experimental.reset_memory_stats

ALL_FUNCTIONS = [get_memory_info, get_memory_usage, reset_memory_stats, tf.memory.stats, tf.memory.memory_map]


def unparsable(name: str) -> str:
    return (
        f"Failed parsing device name: '{name}'. Note a valid device string should at least contain a device type and "
        "a device "
        'index, like "GPU:0".'
    )


def test_case_107_a_cpu_has_no_statistics(one_gpu: None) -> None:
    with refused(ValueError, "Allocator stats not available for device 'CPU:0'"):
        get_memory_info("CPU:0")


def test_case_108_a_cpu_has_no_statistics_to_reset(one_gpu: None) -> None:
    with refused(ValueError, "Cannot reset memory stats for device 'CPU:0'"):
        reset_memory_stats("CPU:0")


@pytest.mark.parametrize("function", ALL_FUNCTIONS)
def test_case_109_a_device_that_is_not_there_is_named_as_it_was_written(one_gpu: None, function: Any) -> None:
    with refused(kind_of(function, ValueError), "No matching devices found for 'unknown_device:0'"):
        function("unknown_device:0")


@pytest.mark.parametrize("function", ALL_FUNCTIONS)
@pytest.mark.parametrize("name", ["GPU", "GPU:", "GPU:CPU", "CPU:GPU", "CPU:"])
def test_case_110_a_name_that_does_not_parse_says_what_one_looks_like(one_gpu: None, function: Any, name: str) -> None:
    with refused(kind_of(function, ValueError), unparsable(name)):
        function(name)


def test_case_111_case_matters_except_in_the_old_short_form(one_gpu: None) -> None:
    for name in ("gpu:0", "/device:gpu:0"):
        with refused(ValueError, f"No matching devices found for '{name}'"):
            get_memory_info(name)
    assert get_memory_info("/gpu:0") == {"current": 0, "peak": 0}


@pytest.mark.parametrize("name", ["/device:GPU", "/gpu:*"])
def test_case_112_a_pattern_must_match_one_device(one_gpu: None, name: str) -> None:
    assert get_memory_info(name) == {"current": 0, "peak": 0}
    tf.simulate("2xH100-80GB")
    with refused(
        ValueError,
        f"Multiple devices match the provided string '{name}': '/job:localhost/replica:0/task:0/device:GPU:0' "
        "and '/job:localhost/replica:0/task:0/device:GPU:1'.",
    ):
        get_memory_info(name)


def test_case_113_the_empty_name_matches_every_device(cpu_only: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused(ValueError, "Allocator stats not available for device ''"):
        get_memory_info("")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    tf.simulate("H100-80GB")
    with refused(
        ValueError,
        "Multiple devices match the provided string '': '/job:localhost/replica:0/task:0/device:CPU:0' "
        "and '/job:localhost/replica:0/task:0/device:GPU:0'.",
    ):
        get_memory_info("")


def test_case_114_a_full_name_will_do(one_gpu: None) -> None:
    assert get_memory_info("/job:localhost/replica:0/task:0/device:GPU:0") == {"current": 0, "peak": 0}


def test_case_115_another_job_has_no_devices(one_gpu: None) -> None:
    with refused(ValueError, "No matching devices found for '/job:worker/device:GPU:0'"):
        get_memory_info("/job:worker/device:GPU:0")


@pytest.mark.parametrize("function", ALL_FUNCTIONS)
@pytest.mark.parametrize("name", ["GPU", "unknown_device:0", "CPU:0", "", "\0", "\ud800", 3, b"GPU:0"])
def test_case_116_a_bad_name_initializes_all_the_same(two_gpus: None, function: Any, name: Any) -> None:
    with refused(kind_of(function, ValueError if isinstance(name, str) else TypeError), ""):
        function(name)
    with refused(RuntimeError, TOO_LATE_VISIBLE):
        tf.config.set_visible_devices(gpus()[0], "GPU")


@pytest.mark.parametrize("function", [get_memory_info, get_memory_usage, reset_memory_stats])
@pytest.mark.parametrize(
    "device",
    [
        0,
        None,
        b"GPU:0",
        tf.config.LogicalDevice("/device:GPU:0", "GPU"),
        tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_only_a_string_names_a_device(one_gpu: None, function: Any, device: Any) -> None:
    with refused(TypeError, "device must be a string"):
        function(device)


def test_case_117_there_are_two_numbers_and_the_usage_is_one_of_them(one_gpu: None) -> None:
    with tf.memory.allocate(1000, "GPU:0"):
        info = get_memory_info("GPU:0")
        assert list(info) == ["current", "peak"]
        assert [type(v) for v in info.values()] == [int, int]
        assert get_memory_usage("GPU:0") == info["current"] == 1024


def test_case_118_the_peak_rises_with_allocations_and_stays_when_they_are_freed(one_gpu: None) -> None:
    first = tf.memory.allocate(4_000_000, "GPU:0")
    peak1 = get_memory_info("GPU:0")["peak"]
    assert peak1 >= 4_000_000
    second = tf.memory.allocate(4_000_000, "GPU:0")
    peak2 = get_memory_info("GPU:0")["peak"]
    assert peak2 >= peak1 + 4_000_000
    first.free()
    second.free()
    info = get_memory_info("GPU:0")
    assert info["peak"] == peak2
    assert info["current"] <= info["peak"]
    assert info["current"] == 0


def test_case_119_a_reset_starts_the_peak_at_what_is_in_use(one_gpu: None) -> None:
    big, small = tf.memory.allocate(8_000_000, "GPU:0"), tf.memory.allocate(1000, "GPU:0")
    big.free()
    before = get_memory_info("GPU:0")
    assert reset_memory_stats("GPU:0") is None  # type: ignore[func-returns-value]
    after = get_memory_info("GPU:0")
    assert after["peak"] < before["peak"]
    assert after["peak"] >= after["current"] == before["current"]
    with tf.memory.allocate(5_000_000, "GPU:0"):
        pass
    assert get_memory_info("GPU:0")["peak"] >= 5_000_000 + after["current"]
    small.free()


def test_memory_is_counted_in_steps_of_256_bytes(one_gpu: None) -> None:
    with tf.memory.allocate(1, "GPU:0"):
        assert get_memory_info("GPU:0") == {"current": 256, "peak": 256}
        with tf.memory.allocate(257, "GPU:0"):
            assert get_memory_info("GPU:0") == {"current": 768, "peak": 768}
    assert get_memory_info("GPU:0") == {"current": 0, "peak": 768}


def test_an_allocation_that_fails_changes_no_number(one_gpu: None) -> None:
    tf.config.set_logical_device_configuration(gpus()[0], [L(10)])
    with tf.memory.allocate(3 * MIB, "GPU:0"):
        before = tf.memory.stats("GPU:0")
        with pytest.raises(MemoryError):
            tf.memory.allocate(8 * MIB, "GPU:0")
        assert tf.memory.stats("GPU:0") == before


def test_case_187_two_logical_gpus_on_one_gpu_have_pools_of_their_own(one_gpu: None) -> None:
    tf.config.set_logical_device_configuration(gpus()[0], [L(100), L(200)])
    initialize()
    with tf.memory.allocate(60 * MIB, "GPU:0"), tf.memory.allocate(150 * MIB, "GPU:1"):
        assert get_memory_info("GPU:0") == {"current": 60 * MIB, "peak": 60 * MIB}
        assert get_memory_info("GPU:1") == {"current": 150 * MIB, "peak": 150 * MIB}
        with pytest.raises(MemoryError):
            tf.memory.allocate(60 * MIB, "GPU:0")  # although GPU:1 and the card have room
        tf.memory.allocate(40 * MIB, "GPU:1").free()
    reset_memory_stats("GPU:0")
    assert get_memory_info("GPU:0") == {"current": 0, "peak": 0}
    assert get_memory_info("GPU:1") == {"current": 0, "peak": 190 * MIB}
    assert tf.memory.stats("GPU:0").bytes_reserved == 100 * MIB
    assert tf.memory.stats("GPU:1").bytes_reserved == 200 * MIB


def test_what_the_pool_has_taken_is_not_what_is_in_use(one_gpu: None) -> None:
    with tf.memory.allocate(GIB, "GPU:0"):
        assert get_memory_info("GPU:0")["current"] == GIB
        assert tf.memory.stats("GPU:0").bytes_reserved > GIB


def test_nothing_is_in_use_when_everything_is_freed(one_gpu: None) -> None:
    """TensorFlow keeps 1280 bytes of scratch memory on a GPU that has run an operation."""
    tf.memory.allocate(1000).free()
    x = tf.matmul([[1.0, 2.0]], [[3.0], [4.0]])
    assert get_memory_info("GPU:0")["current"] > 0
    del x
    assert get_memory_info("GPU:0")["current"] == 0
    assert get_memory_info("GPU:0")["peak"] > 0
