"""Details of physical devices."""

from __future__ import annotations

from typing import Any

import gpuconf as tf
import pytest

from .helpers import PD, cpu, gpus, initialize, refused

details = tf.config.experimental.get_device_details

NOT_LISTED = "The PhysicalDevice must be one obtained from calling `tf.config.list_physical_devices`, but got: "


def test_case_102_a_cpu_has_no_details(one_gpu: None) -> None:
    assert details(cpu()) == {}


def test_case_103_a_gpu_has_a_name_and_a_compute_capability(unlike_gpus: None) -> None:
    h100, t4 = map(details, gpus())
    assert h100 == {"device_name": "NVIDIA H100 80GB HBM3", "compute_capability": (9, 0)}
    assert t4 == {"device_name": "Tesla T4", "compute_capability": (7, 5)}


def test_case_103_hidden_gpus_have_details_too_and_asking_does_not_initialize(one_gpu: None) -> None:
    (g0,) = gpus()
    tf.config.set_visible_devices([], "GPU")
    assert details(g0)["compute_capability"] == (9, 0)
    tf.config.set_visible_devices(g0, "GPU")
    initialize()
    assert details(g0)["compute_capability"] == (9, 0)


@pytest.mark.parametrize(
    "device",
    [
        pytest.param(tf.config.LogicalDevice("/device:GPU:0", "GPU"), id="case 104: a logical device"),
        pytest.param("GPU:0", id="case 104: a string"),
        pytest.param(("/physical_device:GPU:0", "GPU"), id="case 104: an equal tuple"),
        pytest.param(None, id="case 104: None"),
    ],
)
def test_only_a_physical_device_will_do(one_gpu: None, device: Any) -> None:
    gpus()
    with refused(ValueError, f"device must be a tf.config.PhysicalDevice, but got: {device}"):
        details(device)


def test_case_105_a_device_that_is_not_there_is_a_value_error(one_gpu: None) -> None:
    gpus()
    stranger = PD("/physical_device:CPU:100", "CPU")
    with refused(ValueError, NOT_LISTED + repr(stranger)):
        details(stranger)


def test_case_106_before_the_devices_were_listed_none_is_known(one_gpu: None) -> None:
    by_hand = PD("/physical_device:GPU:0", "GPU")
    with refused(ValueError, NOT_LISTED + repr(by_hand)):
        details(by_hand)
    gpus()
    assert details(by_hand)["compute_capability"] == (9, 0)
