"""Memory growth: set for each GPU, compared when the configuration is evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gpuconf as tf
import pytest

from .helpers import (
    FIRST_REGION,
    GROWTH_DIFFERS,
    H100_LIMIT,
    MIB,
    TOO_LATE_GROWTH,
    L,
    cpu,
    gpus,
    initialize,
    logical_names,
    refused,
    reserved_by_first_allocation,
)

if TYPE_CHECKING:
    from collections.abc import Callable

get_growth = tf.config.experimental.get_memory_growth
set_growth = tf.config.experimental.set_memory_growth

UNRECOGNIZED = "Unrecognized device: "
NOT_WITH_LOGICAL = "Cannot set memory growth on device when virtual devices configured"
NOT_A_GPU = "Cannot set memory growth on non-GPU and non-Pluggable devices"


def test_case_031_growth_is_none_at_first(one_gpu: None) -> None:
    assert get_growth(gpus()[0]) is None


def test_case_032_growth_is_what_was_set_and_setting_it_does_not_initialize(one_gpu: None) -> None:
    (g0,) = gpus()
    set_growth(g0, True)
    assert get_growth(g0) is True
    set_growth(g0, False)  # would be too late after initialization
    assert get_growth(g0) is False


def test_case_033_a_cpu_has_no_growth_and_that_is_a_key_error(one_gpu: None) -> None:
    with pytest.raises(KeyError) as caught:
        get_growth(cpu())
    assert caught.value.args[0] == cpu()
    assert type(caught.value) is KeyError


@pytest.mark.parametrize("enable", [True, False])
def test_case_034_growth_of_a_cpu_cannot_be_set(one_gpu: None, enable: bool) -> None:
    with refused(ValueError, NOT_A_GPU):
        set_growth(cpu(), enable)


@pytest.mark.parametrize(
    "device",
    [
        pytest.param("GPU:0", id="case 35: a string"),
        pytest.param(None, id="case 35: None"),
        pytest.param(0, id="case 35: a number"),
        pytest.param([], id="case 35: a list"),
        pytest.param(
            tf.config.PhysicalDevice("/physical_device:GPU:7", "GPU"), id="case 35: a device that is not there"
        ),
        pytest.param(tf.config.LogicalDevice("/device:GPU:0", "GPU"), id="case 35: a logical device"),
    ],
)
def test_an_unknown_device_is_a_value_error(one_gpu: None, device: Any) -> None:
    with refused(ValueError, UNRECOGNIZED + repr(device)):
        get_growth(device)
    with refused(ValueError, UNRECOGNIZED + repr(device)):
        set_growth(device, True)


def test_case_036_038_growth_on_one_of_two_gpus_fails_at_initialization_and_can_be_mended(two_gpus: None) -> None:
    g0, g1 = gpus()
    set_growth(g0, True)
    for _ in range(2):
        with refused(ValueError, GROWTH_DIFFERS):
            initialize()
    set_growth(g1, True)
    assert logical_names("GPU") == ["/device:GPU:0", "/device:GPU:1"]
    assert reserved_by_first_allocation("GPU:0") == FIRST_REGION
    assert reserved_by_first_allocation("GPU:1") == FIRST_REGION


@pytest.mark.parametrize(
    "getter",
    [
        pytest.param(tf.config.get_soft_device_placement, id="case 37: soft placement"),
        pytest.param(tf.debugging.get_log_device_placement, id="case 37: placement log"),
        pytest.param(tf.config.threading.get_intra_op_parallelism_threads, id="case 37: intra op threads"),
        pytest.param(tf.config.threading.get_inter_op_parallelism_threads, id="case 37: inter op threads"),
        pytest.param(tf.config.optimizer.get_jit, id="case 37: jit"),
        pytest.param(tf.config.optimizer.get_experimental_options, id="case 37: optimizer options"),
    ],
)
def test_getters_that_read_the_configuration_report_growth_that_differs(
    two_gpus: None, getter: Callable[[], Any]
) -> None:
    g0, g1 = gpus()
    set_growth(g0, True)
    with refused(ValueError, GROWTH_DIFFERS):
        getter()
    set_growth(g1, True)
    getter()


@pytest.mark.parametrize(
    "getter",
    [
        tf.config.experimental.get_device_policy,
        tf.config.experimental.get_synchronous_execution,
        tf.config.list_physical_devices,
        tf.config.get_visible_devices,
        tf.config.functions_run_eagerly,
    ],
)
def test_getters_that_do_not_read_the_configuration_are_not_stopped_by_it(
    two_gpus: None, getter: Callable[[], Any]
) -> None:
    before = getter()
    set_growth(gpus()[0], True)
    assert getter() == before


def test_case_039_false_is_not_none(two_gpus: None) -> None:
    g0, g1 = gpus()
    set_growth(g0, False)
    with refused(ValueError, GROWTH_DIFFERS):
        initialize()
    set_growth(g1, False)
    initialize()
    assert reserved_by_first_allocation() == H100_LIMIT


def test_true_and_1_are_one_value(two_gpus: None) -> None:
    g0, g1 = gpus()
    set_growth(g0, True)
    set_growth(g1, 1)  # type: ignore[arg-type]
    initialize()
    assert reserved_by_first_allocation("GPU:1") == FIRST_REGION


def test_case_040_growth_of_a_hidden_gpu_is_not_compared(two_gpus: None) -> None:
    g0, _ = gpus()
    set_growth(g0, True)
    tf.config.set_visible_devices(g0, "GPU")
    assert logical_names("GPU") == ["/device:GPU:0"]
    assert reserved_by_first_allocation() == FIRST_REGION


def test_case_041_only_visible_gpus_count(two_gpus: None) -> None:
    g0, g1 = gpus()
    set_growth(g0, True)
    tf.config.set_visible_devices(g0, "GPU")
    tf.config.set_visible_devices(g1, "GPU")
    initialize()
    assert reserved_by_first_allocation() == H100_LIMIT


def test_case_042_showing_both_again_brings_the_error_back(two_gpus: None) -> None:
    g0, g1 = gpus()
    set_growth(g0, True)
    tf.config.set_visible_devices(g0, "GPU")
    assert tf.config.get_soft_device_placement() is True
    tf.config.set_visible_devices([g0, g1], "GPU")
    with refused(ValueError, GROWTH_DIFFERS):
        tf.config.get_soft_device_placement()


def test_case_043_after_initialization_only_an_equal_value_will_do(one_gpu: None) -> None:
    (g0,) = gpus()
    set_growth(g0, True)
    initialize()
    set_growth(g0, True)
    set_growth(g0, 1)  # type: ignore[arg-type]
    for value in (False, 0, 2):
        with refused(RuntimeError, TOO_LATE_GROWTH):
            set_growth(g0, value)  # type: ignore[arg-type]
    assert get_growth(g0) is True


def test_after_initialization_false_is_no_longer_none(one_gpu: None) -> None:
    initialize()
    with refused(RuntimeError, TOO_LATE_GROWTH):
        set_growth(gpus()[0], False)
    assert get_growth(gpus()[0]) is None


def test_case_044_after_initialization_the_type_is_still_checked_first(one_gpu: None) -> None:
    initialize()
    with refused(ValueError, NOT_A_GPU):
        set_growth(cpu(), False)
    with refused(ValueError, UNRECOGNIZED):
        set_growth("GPU:0", False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "configurations",
    [pytest.param([L(10)], id="case 45: one logical device"), pytest.param([], id="case 45: an empty list")],
)
def test_growth_cannot_be_set_beside_a_logical_configuration(two_gpus: None, configurations: list[Any]) -> None:
    g0, _ = gpus()
    set_growth(g0, True)
    tf.config.set_logical_device_configuration(g0, configurations)
    for value in (True, False):
        with refused(ValueError, NOT_WITH_LOGICAL):
            set_growth(g0, value)
    assert get_growth(g0) is True


def test_growth_of_a_cpu_with_a_logical_configuration_names_the_configuration_first(one_gpu: None) -> None:
    tf.config.set_logical_device_configuration(cpu(), [L(), L()])
    with refused(ValueError, NOT_WITH_LOGICAL):
        set_growth(cpu(), True)


def test_case_046_a_logical_configuration_of_the_cpu_switches_growth_off_for_all(two_gpus: None) -> None:
    for gpu in gpus():
        set_growth(gpu, True)
    tf.config.set_logical_device_configuration(cpu(), [L(), L()])
    assert logical_names() == ["/device:CPU:0", "/device:CPU:1", "/device:GPU:0", "/device:GPU:1"]
    assert reserved_by_first_allocation("GPU:1") == H100_LIMIT


def test_growth_that_differs_is_not_compared_beside_a_logical_configuration(two_gpus: None) -> None:
    set_growth(gpus()[0], True)
    tf.config.set_logical_device_configuration(cpu(), [L()])
    initialize()
    assert reserved_by_first_allocation() == H100_LIMIT


def test_case_047_growth_set_before_a_logical_configuration_stays_in_the_getter_only(one_gpu: None) -> None:
    (g0,) = gpus()
    set_growth(g0, True)
    tf.config.set_logical_device_configuration(g0, [L(100)])
    assert get_growth(g0) is True
    initialize()
    assert reserved_by_first_allocation() == 100 * MIB


@pytest.mark.parametrize("value", ["x", None, 0.0, 1.5, [], b"", object()], ids=lambda v: type(v).__name__)
def test_case_048_a_value_that_is_no_bool_is_refused_at_once(two_gpus: None, value: Any) -> None:
    """TensorFlow accepts it, and fails when it is initialized."""
    g0, g1 = gpus()
    set_growth(g1, True)
    for gpu in (g0, g1):
        with refused(TypeError, "Memory growth must be True or False"):
            set_growth(gpu, value)
    assert get_growth(g0) is None
    assert get_growth(g1) is True


def test_the_type_of_the_value_is_looked_at_after_the_device(one_gpu: None) -> None:
    with refused(ValueError, UNRECOGNIZED):
        set_growth("GPU:0", "x")  # type: ignore[arg-type]
    with refused(ValueError, NOT_A_GPU):
        set_growth(cpu(), "x")  # type: ignore[arg-type]
