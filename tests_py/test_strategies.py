"""``tf.distribute``: how many replicas, on which devices. The recorded sessions of TensorFlow show the default strategy."""

from __future__ import annotations

from typing import Any

import gpuconf
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
        (["GPU:0", "/gpu:0"], AssertionError, f"No duplicates allowed in `devices` argument: ('{JOB}GPU:0', '{JOB}GPU:0')"),
        (["/job:worker/task:0/device:GPU:0"], ValueError, "/job:worker/replica:0/task:0/device:GPU:0 unknown device."),
        (3, TypeError, "'int' object is not iterable"),
        ([3], TypeError, "device must be a string"),
    ],
)
def test_bad_devices(two_gpus: None, devices: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        tf.distribute.MirroredStrategy(devices)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(text)


def test_logical_gpus_count(one_gpu: None) -> None:
    (gpu,) = tf.config.list_physical_devices("GPU")
    tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=1024)] * 3)
    assert tf.distribute.MirroredStrategy().num_replicas_in_sync == 3


def test_without_gpus_the_cpus_count() -> None:
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    assert names(tf.distribute.MirroredStrategy()) == ["CPU:0", "CPU:1"]


@pytest.mark.parametrize(
    ("call", "needs"),
    [
        (lambda s: s.run(lambda: 1), "Strategy.run needs TensorFlow to run a function on each device"),
        (lambda s: s.reduce("SUM", 1, axis=None), "Strategy.reduce needs TensorFlow's operations between devices"),
    ],
    ids=["run", "reduce"],
)
def test_what_needs_tensorflow(two_gpus: None, call: Any, needs: str) -> None:
    with pytest.raises(NotImplementedError) as caught:
        call(tf.distribute.MirroredStrategy())
    assert isinstance(caught.value, gpuconf.errors.UnimplementedError)
    assert str(caught.value).startswith(needs)
    assert "num_replicas_in_sync" in str(caught.value)


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
    with pytest.raises(NotImplementedError, match="with an axis"):
        strategy.reduce("SUM", [1, 2], axis=0)
    with pytest.raises(RuntimeError, match=r"^worker_devices\(\) method unsupported by default tf\.distribute\.Strategy\.$"):
        strategy.extended.worker_devices  # noqa: B018
