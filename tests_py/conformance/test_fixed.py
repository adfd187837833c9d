"""Cases found by the comparison with TensorFlow: each was different once. Named after what they test."""

from __future__ import annotations

from typing import Any

import gpuconf as tf
import pytest

from .helpers import L, cpu, gpus, initialize, refused

TUPLE = ("/physical_device:GPU:0", "GPU")  # equals a device, but is not one


@pytest.mark.parametrize(
    ("setter", "value"),
    [
        pytest.param(tf.config.set_soft_device_placement, "x", id="soft placement, text"),
        pytest.param(tf.config.set_soft_device_placement, [], id="soft placement, list"),
        pytest.param(tf.debugging.set_log_device_placement, "x", id="placement log"),
        pytest.param(tf.config.threading.set_intra_op_parallelism_threads, True, id="threads, bool"),
        pytest.param(tf.config.threading.set_inter_op_parallelism_threads, 2.0, id="threads, float"),
        pytest.param(
            tf.config.optimizer.set_experimental_options, {"min_graph_nodes": True}, id="a count of nodes, bool"
        ),
        pytest.param(tf.config.optimizer.set_experimental_options, {"disable_meta_optimizer": "x"}, id="a flag, text"),
    ],
)
def test_a_value_that_protobuf_would_not_take_is_refused_at_once(two_gpus: None, setter: Any, value: Any) -> None:
    with refused(TypeError, ""):
        setter(value)
    initialize()  # no invalid value was stored


def test_numbers_of_other_libraries_are_numbers(two_gpus: None) -> None:
    class Number:
        def __index__(self) -> int:
            return 3

    tf.config.threading.set_intra_op_parallelism_threads(Number())  # type: ignore[arg-type]
    assert tf.config.threading.get_intra_op_parallelism_threads() == 3


def test_one_switches_jit_on(two_gpus: None) -> None:
    tf.config.optimizer.set_jit(1)  # type: ignore[arg-type]
    assert tf.config.optimizer.get_jit() == "autoclustering"


def test_options_that_nobody_knows_are_taken_whatever_their_names(two_gpus: None) -> None:
    tf.config.optimizer.set_experimental_options([(1, 2), ("remapping", True), ("\ud800", 1)])  # type: ignore[arg-type]
    assert tf.config.optimizer.get_experimental_options()["remapping"] is True
    with refused(ValueError, "dictionary update sequence element #0"):
        tf.config.optimizer.set_experimental_options("x")  # type: ignore[arg-type]
    with refused(TypeError, "'int' object is not iterable"):
        tf.config.optimizer.set_experimental_options(3)  # type: ignore[arg-type]


def test_settings_list_no_devices(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment may still select the devices after a setting was made."""
    tf.config.set_soft_device_placement(False)
    tf.config.threading.set_intra_op_parallelism_threads(2)
    tf.config.experimental.set_device_policy("warn")
    assert tf.config.experimental.get_device_policy() == "warn"
    assert tf.config.experimental.get_synchronous_execution() is True
    with refused(ValueError, "The PhysicalDevice must be one obtained from calling `tf.config.list_physical_devices`"):
        tf.config.experimental.get_device_details(tf.config.PhysicalDevice("/physical_device:CPU:0", "CPU"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert len(gpus()) == 1
    assert tf.config.get_soft_device_placement() is False
    assert tf.config.threading.get_intra_op_parallelism_threads() == 2
    assert tf.config.experimental.get_device_policy() == "warn"


def test_settings_made_before_the_devices_are_listed_end_with_a_reset(two_gpus: None) -> None:
    tf.config.set_soft_device_placement(False)
    tf.reset()
    assert tf.config.get_soft_device_placement() is True


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: tf.config.set_visible_devices(TUPLE, "GPU"), id="visible"),
        pytest.param(
            lambda: tf.config.set_visible_devices([TUPLE, cpu()], "GPU"), id="visible, before one of another type"
        ),
        pytest.param(lambda: tf.config.experimental.set_memory_growth(TUPLE, True), id="growth"),  # type: ignore[arg-type]
        pytest.param(lambda: tf.config.set_logical_device_configuration(TUPLE, [L(10)]), id="logical"),  # type: ignore[arg-type]
    ],
)
def test_a_tuple_that_equals_a_device_has_no_type(two_gpus: None, call: Any) -> None:
    with pytest.raises(AttributeError, match="'tuple' object has no attribute 'device_type'"):
        call()


def test_what_is_wrong_with_the_list_of_devices_first_is_said_first(two_gpus: None) -> None:
    with refused(ValueError, "Unrecognized device: PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')"):
        tf.config.set_visible_devices([cpu(), TUPLE], "GPU")


def test_a_tuple_for_a_gpu_that_is_configured_hears_of_that_first(two_gpus: None) -> None:
    tf.config.set_logical_device_configuration(gpus()[0], [L(10)])
    with refused(ValueError, "Cannot set memory growth on device when virtual devices configured"):
        tf.config.experimental.set_memory_growth(TUPLE, True)  # type: ignore[arg-type]


def test_growth_beyond_64_bits_is_refused_and_large_numbers_are_told_apart(two_gpus: None) -> None:
    gpu = gpus()[0]
    with refused(TypeError, "Memory growth must be True or False"):
        tf.config.experimental.set_memory_growth(gpu, 2**70)
    tf.config.set_visible_devices(gpu, "GPU")
    tf.config.experimental.set_memory_growth(gpu, 2**40)
    initialize()
    with refused(RuntimeError, "Physical devices cannot be modified after being initialized"):
        tf.config.experimental.set_memory_growth(gpu, 2**41)


@pytest.mark.parametrize("value", [1j, "x", [], 2**70], ids=repr)
def test_a_cpu_with_a_limit_hears_of_that_whatever_the_limit(two_gpus: None, value: Any) -> None:
    with refused(ValueError, "Setting memory limit on CPU virtual devices is currently not supported"):
        tf.config.set_logical_device_configuration(cpu(), [L(value, "x", "x")])


def test_a_gpu_without_a_limit_hears_of_that_whatever_the_rest(two_gpus: None) -> None:
    with refused(ValueError, "Setting memory limit is required for GPU virtual devices"):
        tf.config.set_logical_device_configuration(gpus()[0], [L("x"), L(None, "x")])


def test_what_can_be_read_once_only_is_no_list(two_gpus: None) -> None:
    with refused(TypeError, "logical_devices must be a list"):
        tf.config.set_logical_device_configuration(gpus()[0], (L(10) for _ in range(2)))  # type: ignore[arg-type]
    assert tf.config.get_logical_device_configuration(gpus()[0]) is None


def test_details_of_a_text_print_the_text(two_gpus: None) -> None:
    with refused(ValueError, "device must be a tf.config.PhysicalDevice, but got: GPU:0"):
        tf.config.experimental.get_device_details("GPU:0")  # type: ignore[arg-type]


def test_scopes_of_one_name_that_came_about_in_different_ways_are_two(two_gpus: None) -> None:
    outer, inner = tf.device("GPU:1"), tf.device("")
    with outer:
        inner.__enter__()
        with refused(tf.errors.FailedPreconditionError, "Exiting device scope without proper scope nesting"):
            outer.__exit__(None, None, None)
        inner.__exit__(None, None, None)


def test_a_set_is_another_configuration_than_a_list_of_the_same(two_gpus: None) -> None:
    gpu, as_set, as_list = gpus()[0], {L(10)}, [L(10)]
    tf.config.set_logical_device_configuration(gpu, as_list)
    tf.config.set_logical_device_configuration(gpu, as_set)  # type: ignore[arg-type]
    assert tf.config.get_logical_device_configuration(gpu) is as_set
    initialize()
    tf.config.set_logical_device_configuration(gpu, {L(10)})  # type: ignore[arg-type]
    for other in (as_list, (L(10),)):
        with refused(RuntimeError, "Virtual devices cannot be modified after being initialized"):
            tf.config.set_logical_device_configuration(gpu, other)
    assert tf.config.get_logical_device_configuration(gpu) is as_set


def test_what_equals_a_device_is_it(two_gpus: None) -> None:
    """A listed difference: TensorFlow returns what equals a device, and fails later because of its type."""
    tf.config.set_visible_devices([TUPLE, cpu()])
    assert tf.config.get_visible_devices("GPU") == [gpus()[0]]
    assert all(isinstance(device, tf.config.PhysicalDevice) for device in tf.config.get_visible_devices())


@pytest.mark.parametrize("device", [None, b"GPU:0"], ids=repr)
@pytest.mark.parametrize(
    "function", [tf.config.experimental.get_memory_info, tf.config.experimental.reset_memory_stats]
)
def test_memory_info_asks_for_a_string(two_gpus: None, function: Any, device: Any) -> None:
    """A listed difference: TensorFlow's binding accepts these."""
    with refused(TypeError, "device must be a string"):
        function(device)


@pytest.mark.parametrize("name", ["GPU:0\0GPU:1", "GPU:0\ud800"], ids=ascii)
def test_what_is_no_text_names_no_device(two_gpus: None, name: str) -> None:
    """A listed difference: TensorFlow truncates the string at the NUL."""
    with refused(ValueError, "device "):
        tf.config.experimental.get_memory_info(name)
    with refused(tf.errors.InvalidArgumentError, "device name "), tf.device(name):
        pass


def test_an_int32_constant_is_in_its_cpus_memory(two_gpus: None) -> None:
    """A listed difference: TensorFlow stores it in the memory of the first CPU."""
    tf.config.set_logical_device_configuration(cpu(), [L(), L()])
    with tf.device("CPU:1"):
        made = tf.constant(1)
    assert made.device == made.backing_device == "/job:localhost/replica:0/task:0/device:CPU:1"


def test_an_imported_number_of_threads_shows_and_is_not_what_was_set(two_gpus: None) -> None:
    tf.compat.v1.enable_eager_execution(tf.compat.v1.ConfigProto(intra_op_parallelism_threads=2))
    assert tf.config.threading.get_intra_op_parallelism_threads() == 2
    initialize()
    tf.config.threading.set_intra_op_parallelism_threads(None)
    with refused(RuntimeError, "Intra op parallelism cannot be modified after initialization."):
        tf.config.threading.set_intra_op_parallelism_threads(2)


def test_imported_logical_cpus_show(two_gpus: None) -> None:
    tf.compat.v1.enable_eager_execution(tf.compat.v1.ConfigProto(device_count={"CPU": 2}))
    assert tf.config.get_logical_device_configuration(cpu()) == [L(), L()]
    tf.config.set_logical_device_configuration(cpu(), [L()])
    assert tf.config.get_logical_device_configuration(cpu()) == [L()]
