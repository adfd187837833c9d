"""ConfigProto: for a session (cases 88 to 92), and for a program that starts with one (cases 149 to 158)."""

from __future__ import annotations

from typing import Any

import gpuconf as tf
import gpuconf.compat.v1 as tf1
import pytest

from .helpers import (
    FIRST_REGION,
    GIB,
    MIB,
    L,
    cpu,
    gpus,
    limits,
    logical_names,
    names,
    refused,
    reserved_by_first_allocation,
)

ConfigProto, GPUOptions = tf1.ConfigProto, tf1.GPUOptions

INTERNAL, INVALID = tf.errors.InternalError, tf.errors.InvalidArgumentError


def gpu_options(**fields: Any) -> tf1.ConfigProto:
    return ConfigProto(gpu_options=GPUOptions(**fields))


def virtual(*limits: list[float], **fields: Any) -> tf1.ConfigProto:
    config = gpu_options(**fields)
    for each in limits:
        config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=each)
    return config


def start(config: tf1.ConfigProto) -> None:
    """Start a program with a ConfigProto."""
    tf1.enable_eager_execution(config=config)


# Sessions.


@pytest.mark.parametrize(
    ("listed", "text"),
    [
        pytest.param("0,0", "visible_device_list contained a duplicate entry: 0,0", id="case 88: twice"),
        pytest.param("0,abc", "Could not parse entry in 'visible_device_list': 'abc'.", id="case 88: no number"),
        pytest.param(
            "100",
            "'visible_device_list' listed an invalid Device id '100' but visible device count is 2",
            id="case 88: beyond",
        ),
        pytest.param("-1", "'visible_device_list' listed an invalid Device id '-1'", id="below"),
        pytest.param("0,,1", "Could not parse entry in 'visible_device_list': ''.", id="a gap"),
        pytest.param("0\0", "Could not parse entry in 'visible_device_list': '0", id="a NUL"),
        pytest.param("99999999999999999999", "Could not parse entry in 'visible_device_list'", id="beyond 32 bits"),
    ],
)
def test_a_visible_device_list_that_cant_be(two_gpus: None, listed: str, text: str) -> None:
    with refused(tf.errors.InvalidArgumentError, text):
        tf1.Session(config=gpu_options(visible_device_list=listed))
    tf.config.set_visible_devices(gpus()[0], "GPU")  # nothing was initialized


def test_case_089_a_fraction_and_logical_devices_contradict_each_other(one_gpu: None) -> None:
    with refused(
        tf.errors.InvalidArgumentError,
        "It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set.",
    ):
        tf1.Session(config=virtual([], per_process_gpu_memory_fraction=0.1))


def test_case_090_no_gpu_has_no_logical_devices(one_gpu: None) -> None:
    config = virtual([])
    config.device_count["GPU"] = 0
    with refused(
        tf.errors.UnknownError, "Not enough GPUs to create virtual devices. num_gpus_to_use: 0 #virtual_devices: 1"
    ):
        tf1.Session(config=config)


def test_case_091_logical_devices_fit_the_visible_gpus(two_gpus: None) -> None:
    with refused(
        tf.errors.UnknownError, "Not enough GPUs to create virtual devices. num_gpus_to_use: 1 #virtual_devices: 2"
    ):
        tf1.Session(config=virtual([], [], visible_device_list="0"))
    with refused(
        tf.errors.InvalidArgumentError,
        "The number of GPUs in visible_device_list doesn't match the number of elements in the virtual_devices list.",
    ):
        tf1.Session(config=virtual([], visible_device_list="0,1"))


def test_case_092_a_gpu_is_shared_evenly(one_gpu: None) -> None:
    config = ConfigProto()
    config.gpu_options.experimental.num_virtual_devices_per_gpu = 2
    with tf1.Session(config=config):
        assert logical_names("GPU") == ["/device:GPU:0", "/device:GPU:1"]
        first, second = limits()
        assert first == second == 84_011_909_120 // 2


def test_a_sessions_list_keeps_its_order(unlike_gpus: None, capsys: pytest.CaptureFixture[str]) -> None:
    config = virtual([10], [20, 30], visible_device_list="1,0")
    config.log_device_placement = True
    tf1.Session(config=config)
    assert limits() == [10 * MIB, 20 * MIB, 30 * MIB]
    cards = [line.partition("name: ")[2].partition(",")[0] for line in capsys.readouterr().err.splitlines()[1:]]
    assert cards == ["Tesla T4", "NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"]


@pytest.mark.parametrize(
    ("fields", "kind", "text"),
    [
        pytest.param(
            {"allocator_type": "best_fit"}, INTERNAL, "Failed to get memory allocator for TF GPU 0 with ", id="N19"
        ),
        pytest.param(
            {"per_process_gpu_memory_fraction": -0.5}, INVALID, "per_process_gpu_memory_fraction is -0.5", id="negative"
        ),
        pytest.param(
            {"per_process_gpu_memory_fraction": float("nan")},
            INVALID,
            "per_process_gpu_memory_fraction is NaN",
            id="nan",
        ),
        pytest.param(
            {"per_process_gpu_memory_fraction": float("inf")},
            INVALID,
            "per_process_gpu_memory_fraction is +Inf",
            id="inf",
        ),
    ],
)
def test_gpu_options_that_cant_be(one_gpu: None, fields: dict[str, Any], kind: type[Exception], text: str) -> None:
    with refused(kind, text):
        tf1.Session(config=gpu_options(**fields))
    tf.config.set_visible_devices([], "GPU")  # nothing was initialized


@pytest.mark.parametrize("name", ["use_unified_memory", "per_process_gpu_memory_fraction"])
def test_an_old_gpu_has_no_more_memory_than_it_has(name: str) -> None:
    tf.simulate("K40")
    config = ConfigProto()
    if name == "use_unified_memory":
        config.gpu_options.experimental.use_unified_memory = True
    else:
        config.gpu_options.per_process_gpu_memory_fraction = 1.2
    with refused(tf.errors.InternalError, "Unified memory on GPUs with compute capability lower than 6.0"):
        tf1.Session(config=config)


def test_the_usual_allocator_may_be_named(one_gpu: None) -> None:
    tf1.Session(config=gpu_options(allocator_type="BFC"))


# Programs that start with one.


def test_case_149_so_many_logical_cpus(one_gpu: None) -> None:
    start(ConfigProto(device_count={"CPU": 2}))
    assert logical_names("CPU") == ["/device:CPU:0", "/device:CPU:1"]


def test_case_150_no_cpu(one_gpu: None) -> None:
    start(ConfigProto(device_count={"CPU": 0}))
    assert tf.config.get_visible_devices("CPU") == []
    with refused(tf.errors.NotFoundError, "No CPU devices are available in this process"):
        tf.config.list_logical_devices()
    tf.config.set_visible_devices(tf.config.list_physical_devices())
    assert len(logical_names()) == 2


def test_case_151_an_empty_list_is_all_gpus(two_gpus: None) -> None:
    start(gpu_options(visible_device_list=""))
    assert tf.config.get_visible_devices("GPU") == gpus()


def test_case_152_an_index_beyond_is_told_about_once(two_gpus: None) -> None:
    start(gpu_options(visible_device_list="2"))
    with refused(ValueError, "Invalid visible device index: 2"):
        tf.config.list_physical_devices()
    assert len(tf.config.list_physical_devices("GPU")) == 2
    assert tf.config.get_visible_devices("GPU") == gpus()


def test_an_index_that_is_no_number(two_gpus: None) -> None:
    start(gpu_options(visible_device_list="0,x"))
    with refused(ValueError, "invalid literal for int() with base 10: 'x'"):
        tf.config.get_visible_devices()


def test_case_153_the_getter_shows_the_lists_order_and_the_devices_do_not(unlike_gpus: None) -> None:
    start(gpu_options(visible_device_list="1,0"))
    assert tf.config.get_visible_devices("GPU") == gpus()[::-1]
    assert limits()[0] > limits()[1], "GPU:0 is the H100"


def test_case_154_a_negative_index_counts_from_the_end(two_gpus: None) -> None:
    start(gpu_options(visible_device_list="-1"))
    assert tf.config.get_visible_devices("GPU") == gpus()[1:]


@pytest.mark.parametrize("count", [pytest.param(1, id="case 155: one"), pytest.param(0, id="case 155: none")])
def test_the_first_gpus_are_kept(two_gpus: None, count: int) -> None:
    start(ConfigProto(device_count={"GPU": count}))
    assert tf.config.get_visible_devices("GPU") == gpus()[:count]


def test_case_156_without_gpus_the_list_is_not_looked_at(cpu_only: None) -> None:
    start(gpu_options(visible_device_list="0"))
    assert names(tf.config.list_physical_devices()) == ["/physical_device:CPU:0"]
    assert logical_names() == ["/device:CPU:0"]


def test_case_157_growth_cant_be_switched_off_again(two_gpus: None) -> None:
    start(gpu_options(allow_growth=True))
    for gpu in gpus():
        tf.config.experimental.set_memory_growth(gpu, False)
    assert tf.config.experimental.get_memory_growth(gpus()[0]) is False
    assert reserved_by_first_allocation() == FIRST_REGION


def test_case_158_a_fraction_is_kept_and_contradicts_logical_devices(one_gpu: None) -> None:
    start(gpu_options(per_process_gpu_memory_fraction=0.5))
    tf.config.set_logical_device_configuration(gpus()[0], [L(100)])
    with refused(
        tf.errors.InvalidArgumentError,
        "It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set.",
    ):
        tf.config.list_logical_devices()


def test_a_fraction_holds_for_all_that_comes(two_gpus: None) -> None:
    start(gpu_options(per_process_gpu_memory_fraction=0.25))
    assert limits() == [20 * GIB, 20 * GIB]


def test_the_log_and_the_threads_are_taken_over(one_gpu: None) -> None:
    start(ConfigProto(log_device_placement=True, intra_op_parallelism_threads=3, inter_op_parallelism_threads=4))
    assert tf.debugging.get_log_device_placement() is True
    assert tf.config.threading.get_intra_op_parallelism_threads() == 3
    assert tf.config.threading.get_inter_op_parallelism_threads() == 4
    tf.debugging.set_log_device_placement(False)
    assert tf.debugging.get_log_device_placement() is False


def test_what_was_set_before_counts_more_than_what_a_program_started_with(one_gpu: None) -> None:
    tf.debugging.set_log_device_placement(False)
    start(ConfigProto(log_device_placement=True))
    tf.config.list_logical_devices()
    assert tf.debugging.get_log_device_placement() is False


def test_a_policy_and_a_mode_are_taken_over(one_gpu: None) -> None:
    tf1.enable_eager_execution(device_policy=0, execution_mode=1)
    assert tf.config.experimental.get_device_policy() == "explicit"
    assert tf.config.experimental.get_synchronous_execution() is False


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"config": {"device_count": {}}}, TypeError, "config must be a tf.ConfigProto, but got <class 'dict'>"),
        ({"device_policy": 4}, ValueError, "device_policy must be one of None, DEVICE_PLACEMENT_*"),
        ({"execution_mode": "async"}, ValueError, "execution_mode must be one of None, SYNC, ASYNC"),
    ],
)
def test_arguments_that_cant_be(arguments: dict[str, Any], kind: type[Exception], text: str) -> None:
    with refused(kind, text):
        tf1.enable_eager_execution(**arguments)


def test_a_program_starts_once(one_gpu: None) -> None:
    cpu()
    with refused(ValueError, "tf.enable_eager_execution must be called at program startup."):
        start(ConfigProto())
    tf.reset()
    start(ConfigProto(device_count={"CPU": 2}))
    with refused(ValueError, "tf.enable_eager_execution must be called at program startup."):
        start(ConfigProto(device_count={"CPU": 3}))
    assert len(logical_names("CPU")) == 2


def test_what_a_program_started_with_is_forgotten_by_a_reset(one_gpu: None) -> None:
    start(ConfigProto(device_count={"CPU": 2}))
    tf.reset()
    assert logical_names("CPU") == ["/device:CPU:0"]
