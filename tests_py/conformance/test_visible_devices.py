"""Which devices the runtime may use."""

from __future__ import annotations

import gpuconf as tf
import pytest

from .helpers import (
    H100_LIMIT,
    PD,
    T4_LIMIT,
    TOO_LATE_VISIBLE,
    cpu,
    gpus,
    initialize,
    limits,
    logical_names,
    refused,
)


def test_case_014_at_first_every_device_is_visible(two_gpus: None) -> None:
    assert tf.config.get_visible_devices() == tf.config.list_physical_devices()
    assert tf.config.get_visible_devices("GPU") == gpus()


def test_case_015_an_empty_list_hides_a_type(two_gpus: None) -> None:
    tf.config.set_visible_devices([], "GPU")
    assert tf.config.get_visible_devices("GPU") == []
    assert tf.config.get_visible_devices() == [cpu()]
    assert logical_names() == ["/device:CPU:0"]


def test_case_016_one_device_needs_no_list_and_logical_numbers_start_at_0(unlike_gpus: None) -> None:
    g1 = gpus()[1]
    tf.config.set_visible_devices(g1, "GPU")
    assert tf.config.get_visible_devices() == [cpu(), g1]
    assert logical_names("GPU") == ["/device:GPU:0"]
    assert limits() == [T4_LIMIT]


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        pytest.param("GPU:0", "Unrecognized device: 'GPU:0'", id="case 17: a string"),
        pytest.param(
            [PD("/physical_device:CPU:0", "CPU")],
            "Unrecognized device: PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')",
            id="case 18: another type's device",
        ),
        pytest.param(
            [PD("/physical_device:GPU:9", "GPU")],
            "Unrecognized device: PhysicalDevice(name='/physical_device:GPU:9', device_type='GPU')",
            id="case 19: a device that is not there",
        ),
        pytest.param(
            (PD("/physical_device:GPU:0", "GPU"), PD("/physical_device:GPU:1", "GPU")),
            "Unrecognized device: (PhysicalDevice(",
            id="case 20: a tuple is one device",
        ),
        pytest.param(None, "Unrecognized device: None", id="case 21: None"),
        pytest.param([None], "Unrecognized device: None", id="case 21: None in a list"),
        pytest.param([[]], "Unrecognized device: []", id="case 20: an unhashable object"),
    ],
)
@pytest.mark.parametrize("late", [False, True], ids=["before initialization", "after initialization"])
def test_an_unknown_device_is_a_value_error(two_gpus: None, devices: object, text: str, late: bool) -> None:
    if late:
        initialize()
    with refused(ValueError, text):
        tf.config.set_visible_devices(devices, "GPU")
    assert tf.config.get_visible_devices() == tf.config.list_physical_devices()


def test_case_019_without_a_type_an_unknown_device_is_a_value_error_too(two_gpus: None) -> None:
    with refused(ValueError, "Unrecognized device: PhysicalDevice(name='/physical_device:GPU:9', device_type='GPU')"):
        tf.config.set_visible_devices([PD("/physical_device:GPU:9", "GPU")])


def test_an_unknown_device_behind_known_ones_changes_nothing(two_gpus: None) -> None:
    with refused(ValueError, "Unrecognized device: 'x'"):
        tf.config.set_visible_devices([gpus()[1], "x"], "GPU")
    assert tf.config.get_visible_devices("GPU") == gpus()


def test_case_022_duplicates_are_kept_and_mean_one_gpu(two_gpus: None) -> None:
    g0, _ = gpus()
    tf.config.set_visible_devices([g0, g0], "GPU")
    assert tf.config.get_visible_devices("GPU") == [g0, g0]
    assert logical_names("GPU") == ["/device:GPU:0"]


def test_case_023_the_getter_keeps_the_order_and_logical_devices_do_not(unlike_gpus: None) -> None:
    g0, g1 = gpus()
    tf.config.set_visible_devices([g1, g0], "GPU")
    assert tf.config.get_visible_devices("GPU") == [g1, g0]
    assert limits() == [H100_LIMIT, T4_LIMIT]


def test_case_024_without_a_type_the_cpu_goes_and_initialization_fails_until_it_is_back(two_gpus: None) -> None:
    g0, _ = gpus()
    tf.config.set_visible_devices(g0)
    assert tf.config.get_visible_devices() == [g0]
    for _ in range(2):
        with refused(tf.errors.NotFoundError, "No CPU devices are available in this process"):
            initialize()
    with pytest.raises(tf.errors.NotFoundError):
        initialize()
    tf.config.set_visible_devices([cpu(), g0])
    assert logical_names() == ["/device:CPU:0", "/device:GPU:0"]


def test_case_025_an_empty_list_of_an_unknown_type_changes_nothing(two_gpus: None) -> None:
    tf.config.set_visible_devices([], "gpu")
    assert tf.config.get_visible_devices() == tf.config.list_physical_devices()


def test_a_type_moves_its_devices_behind_the_others(two_gpus: None) -> None:
    g0, g1 = gpus()
    tf.config.set_visible_devices([g1, cpu(), g0])
    tf.config.set_visible_devices([cpu()], "CPU")
    assert tf.config.get_visible_devices() == [g1, g0, cpu()]
    tf.config.set_visible_devices([g0], "GPU")
    assert tf.config.get_visible_devices() == [cpu(), g0]


def test_case_026_after_initialization_only_the_same_list_in_the_same_order_will_do(two_gpus: None) -> None:
    g0, g1 = gpus()
    initialize()
    tf.config.set_visible_devices([g0, g1], "GPU")
    tf.config.set_visible_devices([cpu(), g0, g1])
    for devices in ([g1, g0], [g0], [g0, g1, g1], []):
        with refused(RuntimeError, TOO_LATE_VISIBLE):
            tf.config.set_visible_devices(devices, "GPU")
    with refused(RuntimeError, TOO_LATE_VISIBLE):
        tf.config.set_visible_devices([g0, g1])
    with refused(RuntimeError, TOO_LATE_VISIBLE):
        tf.config.set_visible_devices([cpu()], "CPU")  # moves the CPU to the end
    assert tf.config.get_visible_devices() == tf.config.list_physical_devices()


def test_case_027_after_initialization_a_bad_device_is_still_a_value_error(two_gpus: None) -> None:
    initialize()
    with refused(ValueError, "Unrecognized device: 'x'"):
        tf.config.set_visible_devices("x")


def test_case_029_after_initialization_hidden_gpus_stay_hidden(one_gpu: None) -> None:
    tf.config.set_visible_devices(cpu())
    assert logical_names() == ["/device:CPU:0"]
    with refused(RuntimeError, TOO_LATE_VISIBLE):
        tf.config.set_visible_devices(gpus())
    tf.config.set_visible_devices(cpu())


def test_case_030_an_unknown_type_has_no_visible_devices(two_gpus: None) -> None:
    assert tf.config.get_visible_devices("TPU") == []
    assert tf.config.get_visible_devices("gpu") == []
