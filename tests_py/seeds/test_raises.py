"""Every row of the pages' Raises tables, and the guarantees in their text."""

from __future__ import annotations

import gpuconf as tf
import pytest

VirtualDeviceConfiguration = tf.config.experimental.VirtualDeviceConfiguration
get_memory_info = tf.config.experimental.get_memory_info
set_memory_growth = tf.config.experimental.set_memory_growth


@pytest.mark.parametrize(
    "device",
    [
        tf.config.PhysicalDevice("/physical_device:GPU:1", "GPU"),
        tf.config.PhysicalDevice("/physical_device:CPU:0", "CPU"),
        tf.config.LogicalDevice("/device:GPU:0", "GPU"),
        "GPU:0",
        None,
    ],
    ids=["not there", "a CPU", "logical", "a string", "None"],
)
def test_set_memory_growth_raises_value_error_for_an_invalid_physical_device(one_gpu: None, device: object) -> None:
    with pytest.raises(ValueError, match=r"^(Unrecognized device|Cannot set memory growth on non-GPU)"):
        set_memory_growth(device, True)  # type: ignore[arg-type]


def test_set_memory_growth_raises_runtime_error_when_the_runtime_is_initialized(one_gpu: None) -> None:
    (gpu,) = tf.config.list_physical_devices("GPU")
    tf.config.list_logical_devices()
    with pytest.raises(RuntimeError, match="after being initialized"):
        set_memory_growth(gpu, True)
    assert not tf.config.experimental.get_memory_growth(gpu)


def test_set_memory_growth_cannot_be_combined_with_virtual_devices(one_gpu: None) -> None:
    (gpu,) = tf.config.list_physical_devices("GPU")
    tf.config.experimental.set_virtual_device_configuration(gpu, [VirtualDeviceConfiguration(memory_limit=100)])
    with pytest.raises(ValueError, match="virtual devices configured"):
        set_memory_growth(gpu, True)


def test_with_memory_growth_initialization_does_not_allocate_all_memory(one_gpu: None) -> None:
    set_memory_growth(tf.config.list_physical_devices("GPU")[0], True)
    tf.config.list_logical_devices()
    assert tf.memory.stats("GPU:0").bytes_reserved == 0
    tf.memory.allocate(1, "GPU:0").free()
    assert tf.memory.stats("GPU:0").bytes_reserved < tf.memory.stats("GPU:0").bytes_limit // 1000


def test_get_memory_info_raises_value_error_where_no_device_has_the_name(one_gpu: None) -> None:
    with pytest.raises(ValueError, match="nonexistent"):
        get_memory_info("nonexistent")
    with pytest.raises(ValueError, match="TPU:0"):
        get_memory_info("TPU:0")


@pytest.mark.parametrize("name", ["GPU", "CPU:GPU", "CPU:"])
def test_get_memory_info_raises_value_error_for_an_invalid_device_name(one_gpu: None, name: str) -> None:
    with pytest.raises(ValueError, match=f"^Failed parsing device name: '{name}'"):
        get_memory_info(name)


def test_get_memory_info_raises_value_error_where_several_devices_match(two_gpus: None) -> None:
    with pytest.raises(ValueError, match=r"^Multiple devices match"):
        get_memory_info("/gpu:*")


def test_get_memory_info_raises_value_error_where_statistics_are_not_tracked(one_gpu: None) -> None:
    with pytest.raises(ValueError, match=r"^Allocator stats not available for device 'CPU:0'"):
        get_memory_info("CPU:0")


def test_get_memory_info_tells_what_is_used_and_not_what_is_allocated(one_gpu: None) -> None:
    with tf.memory.allocate(1_000_000, "GPU:0"):
        assert 1_000_000 <= get_memory_info("GPU:0")["current"] < 1_001_000
    assert get_memory_info("GPU:0")["current"] == 0
    assert get_memory_info("GPU:0")["peak"] >= 1_000_000
    tf.config.experimental.reset_memory_stats("GPU:0")
    assert get_memory_info("GPU:0") == {"current": 0, "peak": 0}


@pytest.mark.parametrize("version", [tf.compat.v1, tf.compat.v2])
@pytest.mark.parametrize("name", ["set_memory_growth", "set_virtual_device_configuration", "get_memory_info"])
def test_the_aliases_that_the_pages_name(version: object, name: str) -> None:
    assert getattr(version.config.experimental, name) is getattr(tf.config.experimental, name)  # type: ignore[attr-defined]


def test_virtual_devices_share_a_physical_device(two_gpus: None) -> None:
    first = tf.config.experimental.list_physical_devices("GPU")[0]
    tf.config.experimental.set_virtual_device_configuration(
        device=first,
        virtual_devices=[VirtualDeviceConfiguration(memory_limit=100), VirtualDeviceConfiguration(memory_limit=200)],
    )
    assert len(tf.config.experimental.list_logical_devices("GPU")) == 3
