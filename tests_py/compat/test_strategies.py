"""``tf.distribute``: how many replicas, on which devices.

The recorded sessions of TensorFlow show the default strategy.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import Any

import gpuconf
import gpuconf.compat.v1 as tf1
import gpuconf.compat.v2 as tf
import pytest

JOB = "/job:localhost/replica:0/task:0/device:"


def names(strategy: tf.distribute.Strategy) -> list[str]:
    assert strategy.num_replicas_in_sync == len(strategy.extended.worker_devices)
    assert strategy.extended.parameter_devices == strategy.extended.worker_devices
    return [name.removeprefix(JOB) for name in strategy.extended.worker_devices]


# What TensorFlow 2.21 answers to the same devices.
@pytest.mark.parametrize(
    ("devices", "found"),
    [
        (None, ["GPU:0", "GPU:1"]),
        ([], ["GPU:0", "GPU:1"]),
        (["/gpu:1"], ["GPU:1"]),
        (("GPU:0", "GPU:1"), ["GPU:0", "GPU:1"]),
        (["/cpu:0"], ["CPU:0"]),
        (["CPU"], ["CPU:0"]),
        ([""], ["CPU:0"]),
        (["/job:localhost/replica:0/task:0/device:GPU:0"], ["GPU:0"]),
        (["GPU:0", "CPU:0"], ["GPU:0", "CPU:0"]),
        (["GPU:7"], ["GPU:7"]),
        ([gpuconf.config.LogicalDevice("/device:GPU:1", "GPU")], ["GPU:1"]),
    ],
    ids=str,
)
def test_devices(two_gpus: None, devices: Any, found: list[str]) -> None:
    strategy = tf.distribute.MirroredStrategy(devices=devices)
    assert names(strategy) == found
    assert isinstance(strategy, tf.distribute.Strategy)


@pytest.mark.parametrize(
    ("devices", "kind", "text"),
    [
        ("GPU:0", ValueError, "Unknown attribute 'G' is encountered while parsing the device spec: 'G'."),
        (["x"], ValueError, "Unknown attribute 'x' is encountered while parsing the device spec: 'x'."),
        (
            ["GPU:0", "/gpu:0"],
            AssertionError,
            f"No duplicates allowed in `devices` argument: ('{JOB}GPU:0', '{JOB}GPU:0')",
        ),
        (["/job:worker/task:0/device:GPU:0"], ValueError, "/job:worker/replica:0/task:0/device:GPU:0 unknown device."),
        (3, TypeError, "'int' object is not iterable"),
        ([3], AttributeError, "'int' object has no attribute 'split'"),
    ],
)
def test_bad_devices(two_gpus: None, devices: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        tf.distribute.MirroredStrategy(devices)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(text)


def test_duplicates_come_first_in_a_graph(two_gpus: None) -> None:
    with tf1.Graph().as_default(), pytest.raises(AssertionError, match="No duplicates allowed"):
        tf.distribute.MirroredStrategy(["/job:worker/gpu:0"] * 2)


def test_logical_gpus_count(one_gpu: None) -> None:
    (gpu,) = tf.config.list_physical_devices("GPU")
    tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=1024)] * 3)
    assert tf.distribute.MirroredStrategy().num_replicas_in_sync == 3


def test_without_gpus_the_cpus_count() -> None:
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    assert names(tf.distribute.MirroredStrategy()) == ["CPU:0", "CPU:1"]


# The values are those of TensorFlow 2.21 with two logical CPUs.
def test_each_replica_runs_on_its_device(two_gpus: None) -> None:
    strategy = tf.distribute.MirroredStrategy()
    seen = []

    def work(scale: float) -> Any:
        replica = tf.distribute.get_replica_context()
        assert replica is not None
        seen.append((replica.replica_id_in_sync_group.numpy(), replica.num_replicas_in_sync, replica.devices))
        assert tf.distribute.get_strategy() is strategy
        assert not tf.distribute.in_cross_replica_context()
        return tf.constant([1.0, 2.0]) * scale

    found = strategy.run(work, args=(3.0,))
    assert seen == [(0, 2, (f"{JOB}GPU:0",)), (1, 2, (f"{JOB}GPU:1",))]
    results = strategy.experimental_local_results(found)
    assert [(each.numpy().tolist(), each.device) for each in results] == [
        ([3.0, 6.0], f"{JOB}GPU:0"),
        ([3.0, 6.0], f"{JOB}GPU:1"),
    ]
    assert str(strategy.run(lambda: tf.constant(1.0))) == (
        "PerReplica:{\n  0: tf.Tensor(1.0, shape=(), dtype=float32),\n  1: tf.Tensor(1.0, shape=(), dtype=float32)\n}"
    )
    assert strategy.reduce("SUM", found, axis=None).numpy().tolist() == [6.0, 12.0]
    assert strategy.reduce(tf.distribute.ReduceOp.MEAN, found, axis=None).numpy().tolist() == [3.0, 6.0]
    assert strategy.reduce("SUM", found, axis=0).numpy() == 18.0
    assert strategy.run(lambda: 5) == 5
    assert strategy.run(lambda: (1, None)) == (1, None)
    chosen = strategy.experimental_distribute_values_from_function(
        lambda context: context.replica_id_in_sync_group * 10
    )
    assert strategy.experimental_local_results(strategy.run(lambda x: x + 1, args=(chosen,))) == (1, 11)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda s: s.reduce("SUM", 1, axis=None), ValueError, "A non-DistributedValues value 1 cannot be reduced"),
        (lambda s: s.reduce("x", 1, axis=None), ValueError, "'X' is not a valid ReduceOp"),
        (
            lambda s: s.reduce("SUM", s.run(lambda: tf.constant(1.0)), axis=0),
            ValueError,
            "Invalid reduction dimension 0",
        ),
        (lambda s: s.run(3), TypeError, "'int' object is not callable"),
        (lambda s: s.run(lambda: {}["key"]), KeyError, "'key'"),
        (
            lambda s: s.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", 1)),
            NotImplementedError,
            "all_reduce of several replicas needs TensorFlow",
        ),
    ],
    ids=["a number", "an unknown reduction", "no such axis", "no function", "the function's error", "all_reduce"],
)
def test_errors_of_run_and_reduce(two_gpus: None, call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call(tf.distribute.MirroredStrategy())
    assert str(caught.value).startswith(text)
    assert tf.distribute.get_replica_context() is not None, "the replica and the scope are left"
    assert not tf.distribute.has_strategy()


def test_a_strategy_can_be_set(two_gpus: None) -> None:
    strategy = tf.distribute.MirroredStrategy()
    tf.distribute.experimental_set_strategy(strategy)
    try:
        assert tf.distribute.get_strategy() is strategy
        with strategy.scope(), pytest.raises(RuntimeError, match="Must not be called inside"):
            tf.distribute.experimental_set_strategy(None)
    finally:
        tf.distribute.experimental_set_strategy(None)
    assert not tf.distribute.has_strategy()


def test_a_scope_makes_its_strategy_the_current_one(two_gpus: None) -> None:
    one, two = (
        tf.distribute.OneDeviceStrategy("/gpu:1"),
        tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.NcclAllReduce()),
    )
    with one.scope() as entered:
        assert entered is one is tf.distribute.get_strategy()
        assert tf.distribute.has_strategy()
        with pytest.raises(RuntimeError, match="Already inside a scope"), two.scope():
            pass
    assert not tf.distribute.has_strategy()


def test_the_default_strategy_is_one_replica() -> None:
    strategy = tf.distribute.get_strategy()
    assert strategy is tf.compat.v1.distribute.get_strategy()
    assert strategy.num_replicas_in_sync == 1
    assert not tf.distribute.has_strategy()
    with strategy.scope():
        assert strategy.run(lambda x, y: x + y, args=(1,), kwargs={"y": 2}) == 3
    assert strategy.reduce("SUM", [1.0, 2.0], axis=0).numpy() == 3.0
    replica = tf.distribute.get_replica_context()
    assert replica is not None
    assert (replica.replica_id_in_sync_group, replica.devices, replica.all_reduce("SUM", 3)) == (0, ("",), 3)
    with pytest.raises(
        RuntimeError, match=r"^worker_devices\(\) method unsupported by default tf\.distribute\.Strategy\.$"
    ):
        strategy.extended.worker_devices  # noqa: B018


GPU = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")


# As in TensorFlow 2.21, where settings raise RuntimeError once the runtime is initialized.
@pytest.mark.parametrize(
    ("make", "eager", "graph"),
    [
        (lambda: tf.distribute.OneDeviceStrategy("/gpu:0"), True, False),
        (lambda: tf.distribute.OneDeviceStrategy("x"), False, False),
        (lambda: tf.distribute.MirroredStrategy(["/gpu:0"]), True, True),
        (lambda: tf.distribute.MirroredStrategy(["/gpu:0", "/cpu:0"]), True, False),
        (lambda: tf.distribute.MirroredStrategy(["/gpu:0", "GPU:0"]), True, False),
        (lambda: tf.distribute.MirroredStrategy(["/gpu:0", "x"]), False, False),
        (lambda: tf.distribute.experimental.CentralStorageStrategy(["/gpu:0"]), True, False),
        (lambda: tf.distribute.experimental.CentralStorageStrategy(), True, True),
    ],
)
@pytest.mark.parametrize("eagerly", [True, False])
def test_settings_after_a_strategy(one_gpu: None, eagerly: bool, make: Any, eager: bool, graph: bool) -> None:
    """Also after one that failed, and where operations build graphs."""
    if not eagerly:
        tf1.disable_eager_execution()
    try:
        with suppress(ValueError, AssertionError):
            make()
        initialized = eager if eagerly else graph
        with pytest.raises(RuntimeError, match="after being initialized") if initialized else nullcontext():
            tf.config.set_visible_devices([], "GPU")
    finally:
        tf1.reset_default_graph()  # of the tests before, which would be in use
        tf1.enable_eager_execution()


def test_a_job_in_the_names_of_devices(two_gpus: None) -> None:
    """TensorFlow takes them for several workers (difference 61)."""
    local, other = "/job:localhost/device:CPU:0", "/job:worker/gpu:0"
    assert names(tf.distribute.MirroredStrategy([local, "/gpu:0"])) == ["CPU:0", "GPU:0"]
    for devices in ([other, "/gpu:0"], ["/gpu:0", other]):
        with pytest.raises(ValueError, match="/job:worker/replica:0/task:0/device:GPU:0 unknown device"):
            tf.distribute.MirroredStrategy(devices)


def test_a_strategy_that_fails_has_made_the_default_graph(one_gpu: None) -> None:
    tf.distribute.experimental.CentralStorageStrategy(["GPU:0"])
    tf1.disable_eager_execution()
    tf1.enable_eager_execution()  # an eager one has not
    tf1.disable_eager_execution()
    try:
        with pytest.raises(TypeError):
            tf.distribute.experimental.CentralStorageStrategy(2)
        with pytest.raises(ValueError, match="must be called at program startup"):
            tf1.enable_eager_execution()
    finally:
        tf1.reset_default_graph()
        tf1.enable_eager_execution()


def test_a_call_at_which_tensorflow_ends_the_process(one_gpu: None) -> None:
    """A check in its native code fails (difference 62)."""
    tf1.disable_eager_execution()
    try:
        tf.config.experimental.set_memory_growth(GPU, True)
        with pytest.raises(ValueError, match="must be called at program startup"):
            tf1.enable_eager_execution(config=tf1.ConfigProto(device_count={"GPU": 0}))
    finally:
        tf1.reset_default_graph()  # of the tests before, which would be in use
        tf1.enable_eager_execution()
    assert tf.config.list_logical_devices("GPU") == [tf.config.LogicalDevice("/device:GPU:0", "GPU")]


def test_the_placement_log_leaves_soft_placement_as_it_is(one_gpu: None) -> None:
    """TensorFlow sets both, once the runtime is initialized (difference 64)."""
    tf.config.list_logical_devices()
    tf.debugging.set_log_device_placement(False)
    assert tf.config.get_soft_device_placement()
    assert names(tf.distribute.MirroredStrategy(["/gpu:7"])) == ["GPU:7"]
