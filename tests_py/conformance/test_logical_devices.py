"""Logical devices: several on one physical device, each with a hard limit."""

from __future__ import annotations

from typing import Any

import gpuconf as tf
import pytest

from .helpers import (
    GIB,
    H100_LIMIT,
    MIB,
    PD,
    T4_LIMIT,
    TOO_LATE_LOGICAL,
    L,
    cpu,
    gpus,
    initialize,
    limits,
    logical_names,
    refused,
    reserved_by_first_allocation,
)

get_logical = tf.config.get_logical_device_configuration
set_logical = tf.config.set_logical_device_configuration

UNRECOGNIZED = "Unrecognized device: "
NEEDS_LIMIT = "Setting memory limit is required for GPU virtual devices"


def test_case_053_at_first_nothing_is_configured(cpu_only: None) -> None:
    assert get_logical(cpu()) is None


def test_case_054_055_the_cpu_splits_and_stays_split(cpu_only: None) -> None:
    set_logical(cpu(), [L(), L()])
    assert logical_names() == ["/device:CPU:0", "/device:CPU:1"]
    set_logical(cpu(), [L(), L()])
    with refused(RuntimeError, TOO_LATE_LOGICAL):
        set_logical(cpu(), [L(), L(), L()])
    assert get_logical(cpu()) == [L(), L()]
    assert logical_names() == ["/device:CPU:0", "/device:CPU:1"]


@pytest.mark.parametrize(
    ("configuration", "text"),
    [
        pytest.param(
            L(memory_limit=1),
            "Setting memory limit on CPU virtual devices is currently not supported",
            id="case 57: memory_limit",
        ),
        pytest.param(
            L(experimental_priority=1),
            "Setting experimental_priority on CPU virtual  devices is currently not supported",
            id="case 58: experimental_priority",
        ),
        pytest.param(
            L(experimental_device_ordinal=1),
            "Setting experimental_device_ordinal on CPU virtual  devices is currently not supported",
            id="case 59: experimental_device_ordinal",
        ),
        pytest.param(
            L(1, 1, 1),
            "Setting memory limit on CPU virtual devices is currently not supported",
            id="case 57: the limit comes first",
        ),
    ],
)
@pytest.mark.parametrize("late", [False, True], ids=["before initialization", "after initialization"])
def test_a_cpu_takes_no_fields(one_gpu: None, configuration: Any, text: str, late: bool) -> None:
    if late:
        initialize()
    with refused(ValueError, text):
        set_logical(cpu(), [L(), configuration])
    assert get_logical(cpu()) is None


def test_case_060_a_gpu_needs_a_limit(one_gpu: None) -> None:
    (g0,) = gpus()
    for configurations in ([L()], [L(10), L()], [L(None, 1)]):
        with refused(ValueError, NEEDS_LIMIT):
            set_logical(g0, configurations)
    assert get_logical(g0) is None
    initialize()
    assert limits() == [H100_LIMIT]


@pytest.mark.parametrize("device_type", ["CPU", "GPU"])
def test_case_061_none_is_no_list(one_gpu: None, device_type: str) -> None:
    device = tf.config.list_physical_devices(device_type)[0]
    with pytest.raises(TypeError):
        set_logical(device, None)  # type: ignore[arg-type]
    assert get_logical(device) is None


def test_case_062_a_configuration_without_a_list_is_an_attribute_error(one_gpu: None) -> None:
    with pytest.raises(AttributeError, match="object has no attribute 'memory_limit'"):
        set_logical(gpus()[0], L(10))  # type: ignore[arg-type]
    assert get_logical(gpus()[0]) is None


@pytest.mark.parametrize(
    ("configurations", "end"),
    [
        ([512], "'int' object has no attribute 'memory_limit'; use LogicalDeviceConfiguration(memory_limit=512)"),
        (
            [L(10), 1.5],
            "'float' object has no attribute 'memory_limit'; use LogicalDeviceConfiguration(memory_limit=1.5)",
        ),
        (L(512), "; use a list, [LogicalDeviceConfiguration(memory_limit=512)]"),
        (["512"], "'str' object has no attribute 'memory_limit'; use LogicalDeviceConfiguration(memory_limit=...)"),
    ],
    ids=["a number", "a number behind a configuration", "no list", "a text"],
)
def test_an_entry_that_is_no_configuration_is_told_what_to_write(one_gpu: None, configurations: Any, end: str) -> None:
    with pytest.raises(AttributeError) as caught:
        set_logical(gpus()[0], configurations)
    assert type(caught.value) is AttributeError
    assert str(caught.value).endswith(end)
    assert get_logical(gpus()[0]) is None


def test_case_063_a_tuple_is_accepted_and_given_back(one_gpu: None) -> None:
    (g0,) = gpus()
    configurations = (L(10), L(20))
    set_logical(g0, configurations)
    assert get_logical(g0) is configurations
    initialize()
    assert limits() == [10 * MIB, 20 * MIB]


def test_the_getter_gives_the_very_object_that_was_set(one_gpu: None) -> None:
    (g0,) = gpus()
    configurations = [L(10)]
    set_logical(g0, configurations)
    assert get_logical(g0) is configurations
    set_logical(g0, [L(10.0)])  # equal, so the stored object remains
    assert get_logical(g0) is configurations
    set_logical(g0, (L(10),))  # a tuple is not equal to a list
    assert get_logical(g0) == (L(10),)


@pytest.mark.parametrize(
    "device",
    [
        pytest.param(PD("/physical_device:GPU:1", "GPU"), id="case 64: a GPU that is not there"),
        pytest.param(PD("/physical_device:XPU:0", "XPU"), id="case 64: a type that is not there"),
        pytest.param("GPU:0", id="case 64: a string"),
        pytest.param(None, id="case 64: None"),
    ],
)
def test_an_unknown_device_is_a_value_error(one_gpu: None, device: Any) -> None:
    with refused(ValueError, UNRECOGNIZED + repr(device)):
        get_logical(device)
    for configurations in ([L(10)], [L()], None, L(10)):
        with refused(ValueError, UNRECOGNIZED + repr(device)):
            set_logical(device, configurations)  # type: ignore[arg-type]


def test_case_066_logical_gpus_are_numbered_through_in_physical_order(two_gpus: None) -> None:
    _, g1 = gpus()
    set_logical(g1, [L(10), L(10)])
    assert logical_names("GPU") == ["/device:GPU:0", "/device:GPU:1", "/device:GPU:2"]
    assert limits() == [H100_LIMIT, 10 * MIB, 10 * MIB]


def test_case_067_the_configuration_of_a_hidden_gpu_switches_growth_off_for_the_others(unlike_gpus: None) -> None:
    g0, g1 = gpus()
    tf.config.experimental.set_memory_growth(g1, True)
    set_logical(g0, [L(10), L(10)])
    tf.config.set_visible_devices(g1, "GPU")
    assert logical_names("GPU") == ["/device:GPU:0"]
    assert limits() == [T4_LIMIT]
    assert reserved_by_first_allocation() == T4_LIMIT


def test_case_068_before_initialization_the_last_configuration_wins(one_gpu: None) -> None:
    (g0,) = gpus()
    set_logical(g0, [L(10), L(20)])
    set_logical(g0, [L(30)])
    assert get_logical(g0) == [L(30)]
    initialize()
    assert limits() == [30 * MIB]


def test_case_069_a_list_that_changes_after_the_call_changes_nothing(one_gpu: None) -> None:
    """TensorFlow stores the caller's list, so there the change has an effect."""
    (g0,) = gpus()
    configurations = [L(10)]
    set_logical(g0, configurations)
    configurations.append(L(20))
    initialize()
    assert limits() == [10 * MIB]
    set_logical(g0, [L(10)])
    assert get_logical(g0) == [L(10)]
    with refused(RuntimeError, TOO_LATE_LOGICAL):
        set_logical(g0, configurations)


def test_case_070_after_initialization_an_equal_list_will_do_and_a_tuple_is_not_equal(one_gpu: None) -> None:
    (g0,) = gpus()
    set_logical(g0, [L(10)])
    initialize()
    set_logical(g0, [L(10.0)])
    for configurations in ((L(10),), [L(11)], [L(10), L(10)], [L(10, 0)], [L(10, None, 0)], []):
        with refused(RuntimeError, TOO_LATE_LOGICAL):
            set_logical(g0, configurations)
    assert get_logical(g0) == [L(10)]
    assert limits() == [10 * MIB]


def test_case_071_after_initialization_a_missing_limit_is_still_a_value_error(one_gpu: None) -> None:
    initialize()
    with refused(ValueError, NEEDS_LIMIT):
        set_logical(gpus()[0], [L()])


def test_case_072_after_initialization_an_empty_list_is_not_nothing(two_gpus: None) -> None:
    initialize()
    with refused(RuntimeError, TOO_LATE_LOGICAL):
        set_logical(gpus()[1], [])
    assert get_logical(gpus()[1]) is None


@pytest.mark.parametrize(
    ("configurations", "text"),
    [
        pytest.param([L(1, 0), L(1)], "priority must be specified for all virtual devices", id="case 73: priority"),
        pytest.param(
            [L(1, None, 1), L(1)], "device_ordinals must be specified for all virtual devices", id="case 74: ordinal"
        ),
        pytest.param(
            [L(1, 0, 1), L(1)], "priority must be specified for all virtual devices", id="case 73: priority comes first"
        ),
    ],
)
def test_case_075_a_field_for_some_logical_gpus_only_fails_at_initialization_and_can_be_mended(
    two_gpus: None, configurations: list[Any], text: str
) -> None:
    g0, _ = gpus()
    set_logical(g0, configurations)
    with refused(ValueError, text):
        tf.config.get_soft_device_placement()
    with refused(ValueError, text):
        initialize()
    set_logical(g0, [L(1), L(1)])
    initialize()
    assert limits() == [MIB, MIB, H100_LIMIT]


def test_case_075_priorities_for_all_initialize(one_gpu: None) -> None:
    (g0,) = gpus()
    set_logical(g0, [L(1, 0), L(1)])
    with refused(ValueError, "priority must be specified for all virtual devices"):
        initialize()
    set_logical(g0, [L(1, 0), L(1, -1)])
    initialize()
    assert limits() == [MIB, MIB]


@pytest.mark.parametrize(
    ("configurations", "text"),
    [
        pytest.param(
            [L(123, -9999), L(456, 0)],
            "Priority -9999 is outside the range of supported priorities",
            id="case 76: too urgent",
        ),
        pytest.param(
            [L(123, 0), L(456, 1)], "Priority 1 is outside the range of supported priorities", id="case 77: too lazy"
        ),
    ],
)
def test_a_priority_that_the_gpu_lacks_fails_at_initialization(
    one_gpu: None, configurations: list[Any], text: str
) -> None:
    set_logical(gpus()[0], configurations)
    tf.config.get_soft_device_placement()  # not an error of the configuration itself
    with refused(tf.errors.InvalidArgumentError, text) as _:
        initialize()
    set_logical(gpus()[0], [L(1)])
    initialize()


def test_case_078_priorities_that_the_gpu_has(one_gpu: None) -> None:
    set_logical(gpus()[0], [L(123, 0), L(456, -1)])
    initialize()
    assert limits() == [123 << 20, 456 << 20]


def test_case_079_ordinals_order_the_logical_gpus_of_one_gpu(one_gpu: None) -> None:
    set_logical(gpus()[0], [L(1, None, 2), L(2, None, 1)])
    initialize()
    assert limits() == [2 * MIB, 1 * MIB]


def test_case_080_ordinals_order_the_logical_gpus_of_all_gpus(two_gpus: None) -> None:
    g0, g1 = gpus()
    set_logical(g0, [L(1, None, 1), L(2, None, 2)])
    set_logical(g1, [L(3, None, 1), L(4, None, 2)])
    initialize()
    assert limits() == [1 * MIB, 3 * MIB, 2 * MIB, 4 * MIB]


def test_case_081_ordinals_on_one_of_two_gpus_are_refused(two_gpus: None) -> None:
    set_logical(gpus()[0], [L(1, None, 1), L(2, None, 2)])
    with refused(tf.errors.InvalidArgumentError, "Device ordinals must be set for all virtual devices or none."):
        initialize()


def test_case_082_priorities_on_the_second_gpu_only_are_refused(two_gpus: None) -> None:
    set_logical(gpus()[1], [L(1, 0), L(2, -1)])
    with refused(tf.errors.InvalidArgumentError, "Priority must be set for all virtual devices or none."):
        initialize()


def test_case_082_priorities_on_the_first_gpu_only_are_accepted(two_gpus: None) -> None:
    set_logical(gpus()[0], [L(1, 0), L(2, -1)])
    initialize()
    assert limits() == [1 * MIB, 2 * MIB, H100_LIMIT]


def test_case_083_an_empty_list_on_the_only_gpu_fails_at_initialization(one_gpu: None) -> None:
    set_logical(gpus()[0], [])
    with pytest.raises(tf.errors.UnknownError) as caught:
        initialize()
    assert str(caught.value).startswith(
        "Not enough GPUs to create virtual devices. num_gpus_to_use: 0 #virtual_devices: 1"
    )
    assert isinstance(caught.value, RuntimeError)


def test_case_084_an_empty_list_leaves_too_few_logical_gpus(two_gpus: None) -> None:
    g0, g1 = gpus()
    set_logical(g0, [])
    set_logical(g1, [L(5)])
    with pytest.raises(tf.errors.UnknownError) as caught:
        initialize()
    assert str(caught.value).startswith(
        "Not enough GPUs to create virtual devices. num_gpus_to_use: 1 #virtual_devices: 2"
    )


def test_case_085_an_empty_list_is_a_full_gpu_where_there_are_enough_logical_gpus(unlike_gpus: None) -> None:
    g0, g1 = gpus()
    set_logical(g0, [L(5), L(5)])
    set_logical(g1, [])
    assert logical_names("GPU") == ["/device:GPU:0", "/device:GPU:1", "/device:GPU:2"]
    assert limits() == [5 * MIB, 5 * MIB, T4_LIMIT]


def test_case_086_a_fraction_of_a_mebibyte_is_cut_off(one_gpu: None) -> None:
    set_logical(gpus()[0], [L(memory_limit=10.9), L(0.5), L(True)])
    initialize()
    assert limits() == [10 * MIB, 0, 1 * MIB]
    with refused(tf.errors.ResourceExhaustedError, "OOM when allocating"):
        tf.memory.allocate(1, "GPU:1")


def test_case_087_limits_may_exceed_the_gpu_until_memory_is_taken() -> None:
    tf.simulate("H100:1GiB")
    set_logical(gpus()[0], [L(2048), L(2048)])
    initialize()
    assert limits() == [2 * GIB, 2 * GIB]
    with pytest.raises(MemoryError, match=" out of memory"):
        tf.memory.allocate(GIB + 1, "GPU:0")


@pytest.mark.parametrize("limit", [-1, -0.5, float("nan"), float("inf"), float("-inf"), 2**43, 10**400, 1e300])
def test_a_limit_that_cannot_be_is_refused_at_once(one_gpu: None, limit: Any) -> None:
    """TensorFlow accepts it, and changes it to another limit."""
    with refused(ValueError, "memory_limit is "):
        set_logical(gpus()[0], [L(10), L(limit)])
    assert get_logical(gpus()[0]) is None


@pytest.mark.parametrize("limit", ["10", b"10", [], object()], ids=lambda v: type(v).__name__)
def test_a_limit_that_is_no_number_is_a_type_error(one_gpu: None, limit: Any) -> None:
    with refused(TypeError, "memory_limit must be a number"):
        set_logical(gpus()[0], [L(limit)])
    assert get_logical(gpus()[0]) is None


def test_the_second_argument_goes_by_both_names(one_gpu: None) -> None:
    (g0,) = gpus()
    tf.config.experimental.set_virtual_device_configuration(g0, virtual_devices=[L(1)])
    assert tf.config.experimental.get_virtual_device_configuration(g0) == [L(1)]
    tf.config.experimental.set_virtual_device_configuration(g0, logical_devices=[L(2)])
    assert get_logical(g0) == [L(2)]
    tf.config.experimental.set_virtual_device_configuration(device=g0, virtual_devices=[L(3)])
    set_logical(device=g0, logical_devices=[L(4)])
    assert get_logical(g0) == [L(4)]
    for both in ({}, {"virtual_devices": [L(5)], "logical_devices": [L(5)]}):
        with pytest.raises(TypeError):
            tf.config.experimental.set_virtual_device_configuration(g0, **both)
    assert get_logical(g0) == [L(4)]
