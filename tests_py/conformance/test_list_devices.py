"""Listing devices: physical ones without side effects; logical ones initialize the runtime."""

from __future__ import annotations

import gpuconf as tf
import pytest

from .helpers import PD, TOO_LATE_VISIBLE, L, cpu, gpus, initialize, logical_names, names, refused


def test_case_001_physical_devices_are_the_cpu_and_then_the_gpus(two_gpus: None) -> None:
    devices = tf.config.list_physical_devices()
    assert names(devices) == ["/physical_device:CPU:0", "/physical_device:GPU:0", "/physical_device:GPU:1"]
    assert [d.device_type for d in devices] == ["CPU", "GPU", "GPU"]
    assert all(isinstance(d, PD) for d in devices)


def test_case_002_there_is_one_cpu(two_gpus: None) -> None:
    assert len(tf.config.list_physical_devices("CPU")) == 1


def test_case_002_there_is_one_cpu_without_gpus_too(cpu_only: None) -> None:
    assert names(tf.config.list_physical_devices()) == ["/physical_device:CPU:0"]


@pytest.mark.parametrize(
    "device_type",
    [
        pytest.param("gpu", id="case 3: case matters"),
        pytest.param("TPU", id="case 4: a type that is not there"),
        pytest.param(1, id="case 4: not even a string"),
        pytest.param("", id="case 4: the empty string"),
    ],
)
def test_an_unknown_type_lists_nothing(two_gpus: None, device_type: object) -> None:
    assert tf.config.list_physical_devices(device_type) == []  # type: ignore[arg-type]


def test_case_005_listing_physical_devices_does_not_initialize(two_gpus: None) -> None:
    g0, _ = gpus()
    tf.config.list_physical_devices()
    tf.config.set_visible_devices(g0, "GPU")
    assert tf.config.get_visible_devices("GPU") == [g0]


def test_case_006_each_call_gives_a_list_of_its_own(two_gpus: None) -> None:
    for listing in (tf.config.list_physical_devices, tf.config.get_visible_devices, tf.config.list_logical_devices):
        first, second = listing(), listing()
        assert first == second
        assert first is not second
        first.clear()
        assert listing() == second


def test_case_007_a_device_built_by_hand_is_as_good_as_a_listed_one(two_gpus: None) -> None:
    by_hand = PD("/physical_device:GPU:0", "GPU")
    assert by_hand == gpus()[0]
    tf.config.set_visible_devices([by_hand], "GPU")
    tf.config.experimental.set_memory_growth(by_hand, True)
    assert tf.config.experimental.get_memory_growth(by_hand) is True
    tf.config.set_logical_device_configuration(by_hand, [L(10), L(10)])
    assert tf.config.get_logical_device_configuration(gpus()[0]) == [L(10), L(10)]
    assert tf.config.experimental.get_device_details(by_hand)["compute_capability"] == (9, 0)
    assert logical_names("GPU") == ["/device:GPU:0", "/device:GPU:1"]


def test_case_007_a_device_is_a_tuple_and_any_equal_tuple_is_the_device(two_gpus: None) -> None:
    plain = ("/physical_device:GPU:1", "GPU")
    assert plain == gpus()[1]
    tf.config.set_visible_devices([plain])
    assert tf.config.get_visible_devices("GPU") == [gpus()[1]]
    assert tf.config.LogicalDevice("/physical_device:GPU:1", "GPU") == gpus()[1]


def test_case_008_logical_devices_are_one_for_each_physical_one(two_gpus: None) -> None:
    devices = tf.config.list_logical_devices()
    assert names(devices) == ["/device:CPU:0", "/device:GPU:0", "/device:GPU:1"]
    assert [d.device_type for d in devices] == ["CPU", "GPU", "GPU"]
    assert all(isinstance(d, tf.config.LogicalDevice) for d in devices)


def test_case_009_an_unknown_type_has_no_logical_devices(two_gpus: None) -> None:
    assert tf.config.list_logical_devices("XLA_GPU") == []
    assert tf.config.list_logical_devices("gpu") == []


def test_case_010_listing_logical_devices_initializes(two_gpus: None) -> None:
    initialize()
    with refused(RuntimeError, TOO_LATE_VISIBLE):
        tf.config.set_visible_devices(gpus()[0], "GPU")


def test_case_010_listing_logical_devices_of_an_unknown_type_initializes_too(two_gpus: None) -> None:
    tf.config.list_logical_devices("XLA_GPU")
    with refused(RuntimeError, TOO_LATE_VISIBLE):
        tf.config.set_visible_devices(gpus()[0], "GPU")


def test_case_011_a_logical_device_configuration_is_a_plain_tuple() -> None:
    assert L() == (None, None, None)
    assert L(5) == (5, None, None)
    assert L(5, 1, 2) == L(memory_limit=5, experimental_priority=1, experimental_device_ordinal=2)
    assert (
        repr(L(5))
        == "LogicalDeviceConfiguration(memory_limit=5, experimental_priority=None, experimental_device_ordinal=None)"
    )
    with pytest.raises(TypeError):
        L(foo=1)  # type: ignore[call-arg]


def test_case_012_the_older_name_is_the_same_class() -> None:
    assert tf.config.experimental.VirtualDeviceConfiguration is L
    assert L.__name__ == "LogicalDeviceConfiguration"


def test_case_013_an_empty_cuda_visible_devices_leaves_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    tf.simulate("2xH100-80GB")
    assert gpus() == []
    assert tf.config.list_physical_devices() == [cpu()]
    assert logical_names() == ["/device:CPU:0"]
