"""Tensors answer as TensorFlow 2.21's: comparisons, logic, types that only NumPy has, names, strategies, switches.

``tensors_of_tensorflow.txt`` has expressions with what TensorFlow itself answered.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gpuconf
import gpuconf.compat.v1 as tf1
import gpuconf.compat.v2 as tf
import numpy as np
import pytest
from script import run_well

ANSWERS = [
    line.rstrip("\n").split(" => ", 1)
    for line in (Path(__file__).parent / "tensors_of_tensorflow.txt").read_text().splitlines()
    if not line.startswith("#")
]
NAMES = {"tf": tf, "np": np}


@pytest.fixture(autouse=True)
def _cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    gpuconf.reset()


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_the_answer_is_tensorflows(expression: str, expected: str) -> None:
    try:
        answer = repr(eval(expression, dict(NAMES))).replace("\n", " ")
    except Exception as error:
        answer = f"! {type(error).__name__.replace('InvalidTypeError', 'TypeError')}"
    if "! InvalidArgumentError" in (answer, expected):  # a ValueError, too
        answer, expected = (text.replace("InvalidArgumentError", "ValueError") for text in (answer, expected))
    assert answer == expected


def test_numbers_beyond_int32_are_compared_by_value() -> None:
    """TensorFlow drops their upper half, so that 0 equals 2**40: a row of docs/differences.md."""
    zero = tf.constant(0)
    assert not bool(zero == 2**40)
    assert bool(zero != 2**40)
    assert bool(zero < 2**40)
    assert bool(zero > -(2**40))


def test_sessions_run_strings_and_int64() -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        hello = tf1.constant("hello, TensorFlow")
        assert str(hello) == 'Tensor("Const:0", shape=(), dtype=string)'
        assert session.run(hello) == b"hello, TensorFlow"
        numbers = tf1.placeholder(tf1.int64, [None])
        assert session.run(numbers + 2**40, {numbers: [1, 2]}).tolist() == [2**40 + 1, 2**40 + 2]
        assert session.run(tf1.reduce_sum(tf1.cast(numbers, tf1.float32)), {numbers: [1, 2]}) == 3.0
        text = tf1.placeholder(tf1.string)
        assert session.run(tf1.equal(text, "a"), {text: ["a", "b"]}).tolist() == [True, False]
        batches = tf1.matmul(tf1.ones([2, 2, 3]), tf1.ones([2, 4, 3]), transpose_b=True)
        assert session.run(batches).tolist() == np.full((2, 2, 4), 3.0).tolist()
        assert batches.shape == (2, 2, 4)
        flags = tf1.constant([True, False])
        assert session.run([flags & True, flags | True, ~flags])[2].tolist() == [False, True]


def test_other_types_take_memory_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    with gpuconf.simulate("T4"):
        x = tf.zeros([1 << 20], tf.int64)
        assert gpuconf.memory.stats("GPU:0").bytes_in_use == 8 << 20
        assert x.device.endswith("GPU:0")
        assert tf.constant("a").device.endswith("CPU:0")
        del x
        assert gpuconf.memory.stats("GPU:0").bytes_in_use == 0


@pytest.mark.parametrize("version", [1, 2])
def test_tensorflow_1_runs_eagerly(version: int) -> None:
    program = f"""
    import gpuconf
    gpuconf.install_as_tensorflow({version})
    import tensorflow as tf
    tf1 = tf.compat.v1
    tf1.enable_eager_execution(config=tf1.ConfigProto(device_count={{"CPU": 2}}))
    tf1.enable_eager_execution(config=tf1.ConfigProto(device_count={{"CPU": 3}}))
    print(tf1.executing_eagerly(), tf1.add(1., 2.).numpy(), tf1.reduce_sum([1, 2], reduction_indices=[0]).numpy())
    print(len(tf.config.list_logical_devices("CPU")), tf1.global_variables_initializer())
    print(tf1.get_variable("v", [2]).numpy().shape, tf1.Variable(1.0).numpy(), tf1.exp(0.0).numpy())
    with tf1.device("CPU:0"), tf1.name_scope("a"):
        print(tf1.constant(1).device)
    try:
        tf1.placeholder(tf1.float32)
    except RuntimeError as error:
        print(error)
    with tf1.Graph().as_default():
        print(tf1.add(1., 2.))
    """
    assert run_well(program).splitlines() == [
        "True 3.0 3",
        f"{2 if version == 1 else 1} None",
        "(2,) 1.0 1.0",
        "/job:localhost/replica:0/task:0/device:CPU:0",
        "tf.placeholder() is not compatible with eager execution.",
        'Tensor("Add:0", shape=(), dtype=float32)',
    ]


def test_names_beside_a_configuration() -> None:
    with tf1.Graph().as_default(), pytest.raises(ValueError, match="No variables to save"):
        tf1.train.Saver()
    with tf1.Graph().as_default():
        tf1.Variable(1.0)
        saver = tf1.train.Saver(max_to_keep=2)
        with tf1.Session() as session, pytest.raises(NotImplementedError, match="needs TensorFlow"):
            saver.save(session, "model.ckpt")
        config = tf1.ConfigProto(log_device_placement=False)
        assert tf1.Session(config=config)._config is config
        assert tf1.Session()._config.allow_soft_placement
        assert [tf1.squeeze(tf1.zeros([1, 2])).shape, tf1.reshape([1, 2], [2, 1]).shape] == [(2,), (2, 1)]
        assert tf1.math.exp(0.0).graph is tf1.get_default_graph()
        assert tf1.linalg.eye(2).shape == (2, 2)
    assert tf.sysconfig.get_link_flags()[0] == f"-L{tf.sysconfig.get_lib()}"
    assert Path(tf.sysconfig.get_include()).is_dir()
    for module in (tf.nn, tf.keras.layers, tf1.layers, tf.keras.callbacks, tf.keras.preprocessing.image):
        own = type("Own", (module.Anything,), {})
        with pytest.raises(AttributeError, match="Anything"):
            own()
    with pytest.raises(AttributeError, match=r"tf\.keras\.datasets\.mnist\.load_data: it needs TensorFlow"):
        tf.keras.datasets.mnist.load_data()
    with pytest.raises(AttributeError, match=r"tf\.keras\.Sequential: it needs TensorFlow"):
        tf.keras.Sequential()
    assert not hasattr(tf.keras, "Sequentail")
    assert not hasattr(tf.keras.utils, "anything")


def test_variables_are_on_parameter_servers() -> None:
    setter = tf1.train.replica_device_setter(cluster={"ps": ["a:1", "b:1"], "worker": ["c:1"]})
    with tf1.Graph().as_default(), tf1.device(setter):
        made = [tf1.Variable(1.0), tf1.Variable(1.0), tf1.constant(1.0), tf1.Variable(1.0)]
    assert [each.device for each in made] == ["/job:ps/task:0", "/job:ps/task:1", "/job:worker", "/job:ps/task:0"]
    assert tf1.train.replica_device_setter() is None
    with pytest.raises(TypeError, match="ps_strategy must be callable"):
        tf1.train.replica_device_setter(1, ps_strategy=3)


def initialized() -> bool:
    try:
        tf.config.threading.set_inter_op_parallelism_threads(3)
    except RuntimeError:
        return True
    return False


@pytest.mark.parametrize(
    ("make", "raises", "starts"),
    [
        (lambda: tf.distribute.OneDeviceStrategy("GPU:0"), None, True),
        (lambda: tf.distribute.OneDeviceStrategy(None), None, True),
        (lambda: tf.distribute.OneDeviceStrategy("GPUx:0"), ValueError, False),
        (lambda: tf.distribute.MirroredStrategy("CPU:0"), ValueError, False),
        (lambda: tf.distribute.MirroredStrategy(["CPU:0"]), None, True),
    ],
)
def test_strategies_initialize_where_tensorflows_do(make: Any, raises: Any, starts: bool) -> None:
    if raises is None:
        make()
    else:
        with pytest.raises(raises):
            make()
    assert initialized() == starts


def test_without_soft_placement_a_strategy_needs_its_devices() -> None:
    tf.config.set_soft_device_placement(False)
    for devices in (["GPU:0", "GPU:1"], ["CPU:0", "CPU:1"]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Could not satisfy device specification"):
            tf.distribute.MirroredStrategy(devices)
    assert tf.distribute.MirroredStrategy(["CPU:0", "GPU:1"]).num_replicas_in_sync == 2
    assert tf.distribute.OneDeviceStrategy("GPU:1").num_replicas_in_sync == 1


def test_determinism_needs_a_seed() -> None:
    from gpuconf.compat.v2.python.framework.config import disable_op_determinism, is_op_determinism_enabled

    tf.random.set_seed(None)
    tf.config.experimental.enable_op_determinism()
    try:
        assert is_op_determinism_enabled()
        with pytest.raises(RuntimeError, match="Random ops require a seed to be set when determinism is enabled"):
            tf.random.uniform([2])
        assert tf.random.uniform([2], seed=1).shape == (2,)
        tf.random.set_seed(1)
        assert tf.random.normal([2]).shape == (2,)
    finally:
        disable_op_determinism()
        tf.random.set_seed(None)


def test_switches_take_what_tensorflows_take() -> None:
    for value, expected in ((np.True_, "autoclustering"), (np.int64(1), "autoclustering"), (np.False_, ""), ([], "")):
        tf.config.optimizer.set_jit(value)
        assert tf.config.optimizer.get_jit() == expected
    for value in ([], "a", {}, object()):
        with pytest.raises(TypeError, match=re.escape("enable(): incompatible function arguments")):
            tf.config.experimental.enable_tensor_float_32_execution(value)
    for value in (None, 0, 1.5, np.True_):
        tf.config.experimental.enable_tensor_float_32_execution(value)
    tf.config.experimental.enable_tensor_float_32_execution(True)
    tf.config.optimizer.set_experimental_options({"min_graph_nodes": 3, "remapping": True, "constant_folding": False})
    assert [*tf.config.optimizer.get_experimental_options()][:2] == ["constant_folding", "remapping"]
    for device in (tf.config.PhysicalDevice("a", "CPU"), tf.config.LogicalDevice("a", "CPU")):
        device.mark = 1
        assert device.mark == 1
    for spec, error in ((1, AttributeError), (b"/gpu:0", TypeError), ([], TypeError)):
        with pytest.raises(error):
            tf.DeviceSpec.from_string(spec)


def test_a_programs_own_log_has_no_notices() -> None:
    program = """
    import logging, sys
    logging.basicConfig(level=logging.INFO, stream=sys.stdout)
    import gpuconf
    gpuconf.simulate("T4")
    import gpuconf.compat.v2 as tf
    tf.function(lambda: 1)()
    tf.config.list_logical_devices()
    logging.getLogger("gpuconf").setLevel(logging.INFO)
    gpuconf.reset()
    tf.config.list_logical_devices()
    """
    lines = run_well(program).splitlines()
    assert lines
    assert all(line.startswith("INFO:gpuconf:") for line in lines)
    assert len(lines) < 3
