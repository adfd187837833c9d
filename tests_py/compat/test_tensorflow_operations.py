"""The operations, variables, settings and names that programs for TensorFlow use beside GPU configuration."""

from __future__ import annotations

import importlib.metadata
import io
import sys
from typing import Any

import gpuconf
import gpuconf.compat.v1 as tf1
import gpuconf.compat.v2 as tf
import numpy as np
import pytest
from gpuconf.compat import _as_tensorflow
from script import run_well


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (lambda: tf.constant([[2.0]]), "tf.Tensor([[2.]], shape=(1, 1), dtype=float32)"),
        (lambda: tf.constant([1, 2]) * 2, "tf.Tensor([2 4], shape=(2,), dtype=int32)"),
        (lambda: tf.constant(3.0) - 1, "tf.Tensor(2.0, shape=(), dtype=float32)"),
        (lambda: tf.constant([1, 2]) / 2, "tf.Tensor([0.5 1. ], shape=(2,), dtype=float64)"),
        (lambda: tf.zeros((2, 2)), "tf.Tensor(\n[[0. 0.]\n [0. 0.]], shape=(2, 2), dtype=float32)"),
        (lambda: tf.fill([2], 3), "tf.Tensor([3 3], shape=(2,), dtype=int32)"),
        (lambda: tf.cast(3.7, tf.int32), "tf.Tensor(3, shape=(), dtype=int32)"),
        (lambda: tf.reduce_sum([[1.0, 2.0]]), "tf.Tensor(3.0, shape=(), dtype=float32)"),
        (lambda: tf.reduce_sum([[1.0, 2.0]], axis=0), "tf.Tensor([1. 2.], shape=(2,), dtype=float32)"),
        (lambda: tf.Variable([1.0, 2.0]) + 1, "tf.Tensor([2. 3.], shape=(2,), dtype=float32)"),
    ],
)
def test_tensors_print_as_tensorflows(one_gpu: None, tensor: Any, text: str) -> None:
    """The texts are TensorFlow 2.21's."""
    assert str(tensor()) == text


def test_a_tensor_shows_itself_as_tensorflows(one_gpu: None) -> None:
    assert repr(tf.constant([1, 2])) == "<tf.Tensor: shape=(2,), dtype=int32, numpy=array([1, 2], dtype=int32)>"
    assert repr(tf.Variable(1.0)) == "<tf.Variable 'Variable:0' shape=() dtype=float32, numpy=1.0>"
    assert repr(tf.float32) == "tf.float32"
    assert str(tf.float32) == "<dtype: 'float32'>"


def test_shapes_and_types(one_gpu: None) -> None:
    tensor = tf.constant([[2.0]])
    assert repr(tensor.shape) == "TensorShape([1, 1])"
    assert tensor.get_shape().as_list() == [1, 1]
    assert tensor.shape == (1, 1)
    assert tensor.dtype == tf.float32
    assert tensor.dtype == np.float32
    assert tensor.dtype == "float32"
    assert tensor.dtype.is_floating
    assert not tf.int32.is_floating
    assert tf.float16.size == 2
    assert np.zeros(2, tf.int32).dtype == np.int32
    assert tf.as_dtype("float") is tf.as_dtype(np.float32)
    with pytest.raises(TypeError, match="Cannot convert"):
        tf.as_dtype("what")


def test_an_unknown_size_prints_as_in_both_versions() -> None:
    x = tf1.placeholder(tf1.float32, [None, 64])
    assert str(x.shape) == "(None, 64)"
    tf1.disable_v2_behavior()
    try:
        assert str(x) == f'Tensor("{x.name}", shape=(?, 64), dtype=float32)'
    finally:
        tf1.reset_default_graph()
        tf1.enable_v2_behavior()


def test_results_are_on_the_device_of_the_scope(two_gpus: None) -> None:
    with tf.device("/GPU:1"):
        for tensor in (tf.ones([2]), tf.random.normal([2]), tf.constant([1.0]) * 2, tf.Variable([1.0])):
            assert tensor.device.endswith("GPU:1")


def test_types_that_differ_are_an_error_of_the_operation(one_gpu: None) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"cannot compute Mul as input #1\(zero-based\)"):
        tf.constant([1.0]) * tf.constant([1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected to be a float tensor but is a int64 tensor"):
        tf.constant([1.0]) * tf.Variable(np.array([1], np.int64)).value()


def test_a_seed_repeats_the_numbers(one_gpu: None) -> None:
    tf.random.set_seed(7)
    first = tf.random.normal([3]).numpy(), tf.random.uniform([3]).numpy()
    tf.random.set_seed(7)
    again = tf.random.normal([3]).numpy(), tf.random.uniform([3]).numpy()
    np.testing.assert_array_equal(first, again)
    assert ((again[1] >= 0) & (again[1] < 1)).all()
    assert set(tf.random.uniform([50], 2, 5, tf.int32).numpy()) <= {2, 3, 4}
    with pytest.raises(ValueError, match="maxval"):
        tf.random.uniform([1], dtype=tf.int32)


def test_a_graph_computes_what_the_core_does_not(one_gpu: None) -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf1.float32, [None, 2])
        y = x * 2 + 1
        z = tf1.matmul(y * y, [[1.0], [1.0]]) - 3
        total = tf1.reduce_sum(z, axis=0)
        assert y.get_shape().as_list() == [None, 2]
        found = session.run([y, z, total], {x: [[1.0, 2.0], [0.0, 0.0]]})
        assert [each.tolist() for each in found] == [[[3.0, 5.0], [1.0, 1.0]], [[31.0], [-1.0]], [30.0]]
        assert session.run(total, {y: [[1.0, 1.0]]}).tolist() == [-1.0]  # fed in the middle
        with pytest.raises(ValueError, match="Dimensions must be equal"):
            tf1.constant([1.0, 2.0]) * tf1.constant([1.0, 2.0, 3.0])
        with pytest.raises(TypeError):
            tf1.constant([1.0]) * tf1.constant([1])


def test_random_numbers_are_drawn_in_each_run(one_gpu: None) -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        drawn = tf1.random_normal([3])
        first, same = session.run([drawn, drawn * 1.0])
        np.testing.assert_array_equal(first, same)
        assert (session.run(drawn) != first).any()


def test_an_operation_has_tensorflows_name_in_a_graph() -> None:
    with tf1.Graph().as_default():
        assert tf.stop_gradient([1.0]).name == "StopGradient:0"


def test_variables_belong_to_a_session(one_gpu: None) -> None:
    with tf1.Graph().as_default():
        v = tf1.get_variable("v", [2], initializer=lambda shape, dtype: tf1.zeros(shape, dtype))
        more = tf1.assign_add(v, [1.0, 2.0])
        with tf1.Session() as session:
            with pytest.raises(tf1.errors.FailedPreconditionError, match="uninitialized value v"):
                session.run(v)
            session.run(tf1.initialize_all_variables())
            assert session.run(more).tolist() == [1.0, 2.0]
            assert session.run([v * 2.0, v])[0].tolist() == [2.0, 4.0]
            assert session.run(tf1.assign_sub(v, [1.0, 1.0])).tolist() == [0.0, 1.0]
            two = tf1.assign(v, [2.0, 2.0])
            assert session.run([two.op, tf1.constant(1.0)]) == [None, 1.0]
            assert session.run(v).tolist() == [2.0, 2.0]
            assert session.run(tf1.assign(v, [5.0, 6.0], name="set")).tolist() == [5.0, 6.0]
        with tf1.Session() as another, pytest.raises(tf1.errors.FailedPreconditionError):
            another.run(v)
        assert tf1.global_variables() == tf1.trainable_variables() == [v]
        with pytest.raises(ValueError, match="already exists"):
            tf1.get_variable("v", [2])


def test_an_eager_variable_is_replaced(one_gpu: None) -> None:
    v = tf.Variable([1.0, 2.0])
    v.assign_add([1.0, 1.0]).assign_sub([0.0, 1.0])
    assert v.numpy().tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="Shape mismatch"):
        v.assign([1.0])


def test_print_writes_to_standard_error(capsys: pytest.CaptureFixture[str], one_gpu: None) -> None:
    tf.print("a", tf.constant([1.0, 2.5]), 3)
    assert capsys.readouterr() == ("", "a [1 2.5] 3\n")
    stream = io.StringIO()
    tf.print("x", output_stream=stream)
    assert stream.getvalue() == "x\n"


def test_a_function_runs(caplog: pytest.LogCaptureFixture, one_gpu: None) -> None:
    class Model:
        @tf.function(jit_compile=True)
        def twice(self, x: Any) -> Any:
            return x + x

    assert float(Model().twice(tf.constant(2.0))) == 4.0


def test_settings_of_keras() -> None:
    keras = tf.keras
    assert keras.mixed_precision.global_policy().name == "float32"
    keras.mixed_precision.set_global_policy("mixed_float16")
    policy = keras.mixed_precision.global_policy()
    assert (policy.compute_dtype, policy.variable_dtype, repr(policy)) == (
        "float16",
        "float32",
        '<DTypePolicy "mixed_float16">',
    )
    keras.backend.clear_session()
    assert keras.mixed_precision.global_policy().name == "float32"
    with pytest.raises(ValueError, match="Unknown `floatx` value"):
        keras.backend.set_floatx("x")
    with pytest.raises(ValueError, match="to be an integer"):
        keras.utils.set_random_seed("x")
    keras.utils.set_random_seed(1)
    assert issubclass(type("Mine", (keras.callbacks.Callback,), {}), keras.callbacks.Callback)
    with pytest.raises(AttributeError, match=r"needs TensorFlow\. Keras 3 runs without it"):
        keras.Model()


def test_there_is_no_tpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPU_NAME", raising=False)
    for find in (
        tf.distribute.cluster_resolver.TPUClusterResolver,
        tf.distribute.cluster_resolver.TPUClusterResolver.connect,
        tf.distribute.TPUStrategy,
        tf.distribute.experimental.TPUStrategy,
        tf.tpu.experimental.initialize_tpu_system,
    ):
        with pytest.raises(ValueError, match=r"^Please provide a TPU Name to connect to\.$") as caught:
            find()
        assert type(caught.value) is ValueError


def test_root_names_of_tensorflow(one_gpu: None) -> None:
    assert gpuconf.test is tf.test
    assert gpuconf.distribute is tf.distribute
    assert gpuconf.random is tf.random
    assert gpuconf.sysconfig is tf.sysconfig
    assert gpuconf.version is tf.version
    assert gpuconf.executing_eagerly() is True


def test_private_paths_of_public_code(two_gpus: None) -> None:
    from gpuconf.compat.v2.python.client import session
    from gpuconf.compat.v2.python.eager import context
    from gpuconf.compat.v2.python.framework import config, dtypes, errors, errors_impl

    assert tf.float16 is dtypes.float16
    assert dtypes.as_dtype("int32").name == "int32"
    with pytest.raises(AttributeError, match="no_such_type"):
        getattr(dtypes, "no_such_type")  # noqa: B009
    assert errors is errors_impl is tf.errors
    assert context.num_gpus() == context.context().num_gpus() == 2
    assert session.Session is tf1.Session
    assert config.set_memory_growth is tf.config.experimental.set_memory_growth


def test_the_context_has_the_functions_of_config(two_gpus: None) -> None:
    from gpuconf.compat.v2.python.client import device_lib
    from gpuconf.compat.v2.python.eager import context
    from gpuconf.compat.v2.python.framework import config as private
    from gpuconf.compat.v2.python.framework import gpu_util, ops

    ours = context.context()
    first = ours.list_physical_devices("GPU")[0]
    ours.set_visible_devices(first, "GPU")
    ours.set_logical_device_configuration(first, [context.LogicalDeviceConfiguration(memory_limit=64)] * 2)
    assert len(ours.get_logical_device_configuration(first)) == 2
    ours.soft_device_placement = False
    assert (tf.config.get_soft_device_placement(), ours.soft_device_placement) == (False, False)
    private.set_optimizer_jit("autoclustering")
    assert ours.optimizer_jit == private.get_optimizer_jit() == tf.config.optimizer.get_jit()
    private.set_optimizer_jit(False)
    with ops.device("/gpu:1"), context.device("/gpu:1"):
        assert ops.convert_to_tensor(1.0).device.endswith("GPU:1")
    with pytest.raises(AttributeError, match="'nothing' of TensorFlow's context"):
        _ = ours.nothing
    with pytest.raises(AttributeError, match="cannot set 'nothing'"):
        ours.nothing = 1
    found = [gpu_util.compute_capability_from_device_desc(each) for each in device_lib.list_local_devices()]
    assert found == [(None, (0, 0)), *[("NVIDIA H100 80GB HBM3", (9, 0))] * 2]


def test_classes_are_pythons_where_tensorflows_are(two_gpus: None) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.list_logical_devices()
    for kind, call in (
        (
            RuntimeError,
            lambda: tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2),
        ),
        (ValueError, lambda: tf.config.experimental.set_memory_growth(cpu, True)),
        (KeyError, lambda: tf.config.experimental.get_memory_growth(cpu)),
        (ValueError, lambda: tf.config.experimental.get_memory_info("GPU:9")),
        (ValueError, lambda: tf.device("what:is:this").__enter__()),
        (TypeError, lambda: tf1.Session(graph=3)),  # type: ignore[arg-type]
        (ValueError, lambda: tf1.ConfigProto(no_such_field=1)),
        (ValueError, lambda: tf1.matmul([[1.0]], [[1.0], [2.0]])),
    ):
        with pytest.raises(kind) as caught:
            call()
        assert type(caught.value) is kind
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.matmul([[1.0]], [[1.0], [2.0]])


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: tf.add_n([]), ValueError),
        (lambda: tf.constant([1.0, 2.0], shape=[3]), TypeError),
        (lambda: tf.constant(1.0, shape=[-1]), ValueError),
        (lambda: tf.constant(1.0, shape=[2.5]), TypeError),
        (lambda: tf.constant(1.0, shape=[2**63]), ValueError),
        (lambda: tf.constant(1.0, shape=[1] * 255), tf.errors.InvalidArgumentError),
        (lambda: tf.constant(10**400), ValueError),
        (lambda: tf.constant([[1, 2], [3]]), ValueError),
        (lambda: tf.constant(1, "nonsense"), TypeError),
        (lambda: tf.matmul([1.0], [[1.0]]), tf.errors.InvalidArgumentError),
        (lambda: tf1.add_n([]), ValueError),
    ],
)
def test_errors_of_operations_have_tensorflows_classes(one_gpu: None, call: Any, kind: type[Exception]) -> None:
    """The classes that TensorFlow 2.21 raises for these calls."""
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind


def test_tensorflow_1(one_gpu: None) -> None:
    program = """
    import gpuconf
    gpuconf.install_as_tensorflow(version=1)
    import tensorflow as tf
    from tensorflow.python.client import device_lib
    config = tf.ConfigProto()
    config.gpu_options.allow_growth = True
    x = tf.placeholder(tf.float32, [None, 2])
    print(tf.Session(config=config).run(x * 2 + 1, {x: [[1, 2]]}), x.shape)
    """
    assert run_well(program) == "[[3. 5.]] (?, 2)\n"


def test_a_finalized_graph_runs_and_does_not_grow(one_gpu: None) -> None:
    with tf1.Graph().as_default() as graph:
        total = tf1.constant([1.0]) + 1.0
        assert not graph.finalized
        graph.finalize()
        assert graph.finalized
        for add in (
            lambda: tf1.constant(1.0),
            lambda: tf1.placeholder("float32"),
            lambda: tf1.identity(total),
            tf1.no_op,
        ):
            with pytest.raises(RuntimeError, match=r"^Graph is finalized and cannot be modified\.$") as caught:
                add()
            assert type(caught.value) is RuntimeError
        with tf1.Session() as session:
            assert session.run(total) == [2.0]


def test_switches_are_accepted() -> None:
    for name in ("control_flow_v2", "resource_variables", "tensor_equality", "v2_tensorshape"):
        assert getattr(tf1, f"disable_{name}")() is getattr(tf1, f"enable_{name}")() is None
    assert tf.autograph is tf1.autograph
    assert tf.autograph.set_verbosity(0, True) is None  # type: ignore[func-returns-value]


def test_what_is_a_tensor(one_gpu: None) -> None:
    assert [tf.is_tensor(each) for each in (tf.constant(1.0), tf.Variable(1.0), [1.0], 1.0, None)] == [
        True,
        True,
        False,
        False,
        False,
    ]
    with tf1.Graph().as_default():
        assert tf.is_tensor(tf1.constant(1.0))


def test_a_program_for_both_versions(one_gpu: None) -> None:
    """In compat.v2, this switch exists; in TensorFlow's root it does not."""
    program = """
    import gpuconf
    gpuconf.install_as_tensorflow()
    import tensorflow.compat.v2 as tf
    from tensorflow.python.framework.dtypes import float32
    tf.enable_v2_behavior()
    print(tf.executing_eagerly(), float32)
    """
    assert run_well(program) == "True <dtype: 'float32'>\n"


def test_the_hint_for_tensorflow_1() -> None:
    program = """
    import gpuconf
    gpuconf.install_as_tensorflow()
    import tensorflow as tf
    try:
        tf.ConfigProto()
    except AttributeError as error:
        print(error)
    """
    assert "gpuconf run --as-tensorflow=1" in run_well(program)


def test_what_others_ask_of_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """importlib.metadata, as transformers asks it, and TensorBoard's module that selects its own stub."""
    finder = _as_tensorflow._Finder(2)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    assert importlib.metadata.version("tensorflow") == tf.__version__
    assert finder.find_spec("tensorboard.compat.notf") is not None
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("no-such-package")


def test_the_context_has_the_settings_as_a_message(two_gpus: None) -> None:
    from gpuconf.compat.v2.python.eager import context
    from gpuconf.compat.v2.python.framework import config as private

    gpus = tf.config.list_physical_devices("GPU")
    tf.config.experimental.set_memory_growth(gpus[0], True)
    with pytest.raises(ValueError, match="cannot differ"):
        _ = context.context().config
    tf.config.set_visible_devices(gpus[0], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(3)
    message = context.context().config
    assert isinstance(message, tf1.ConfigProto)
    assert (message.gpu_options.allow_growth, message.gpu_options.visible_device_list) == (True, "0")
    assert (message.intra_op_parallelism_threads, dict(message.device_count)) == (3, {"CPU": 1, "GPU": 1})
    tf.config.set_visible_devices(gpus[1], "GPU")
    tf.config.set_logical_device_configuration(gpus[1], [tf.config.LogicalDeviceConfiguration(memory_limit=1024)] * 2)
    message = context.context().config
    assert list(message.gpu_options.experimental.virtual_devices[0].memory_limit_mb) == [1024, 1024]
    assert message.device_count["GPU"] == 2
    private.enable_op_determinism()
    assert private.is_op_determinism_enabled()
    private.disable_op_determinism()
    assert not private.is_op_determinism_enabled()


def test_a_tensor_is_copied_to_a_device(two_gpus: None) -> None:
    with tf.device("CPU:0"):
        tensor = tf.constant([1.0])
    assert [each.device.rpartition("device:")[2] for each in (tensor.gpu(), tensor.gpu(1), tensor.gpu(1).cpu())] == [
        "GPU:0",
        "GPU:1",
        "CPU:0",
    ]
    whole = tf.constant(1).gpu()
    assert [each.rpartition("device:")[2] for each in (whole.device, whole.backing_device)] == ["GPU:0", "CPU:0"]


def test_generators_of_random_numbers(one_gpu: None) -> None:
    """The numbers are NumPy's (difference 49); those of a seed repeat, and no other generator's change them."""
    first, again = tf.random.Generator.from_seed(7), tf.random.Generator.from_seed(7)
    drawn = first.normal([2, 3])
    tf.random.normal([4])
    assert (drawn.shape, drawn.dtype) == ([2, 3], tf.float32)
    assert np.array_equal(drawn, again.normal([2, 3]))
    assert not np.array_equal(drawn, first.normal([2, 3]))
    copied = tf.random.Generator(copy_from=first)
    assert np.array_equal(copied.uniform([3]), first.uniform([3]))
    assert 0 <= int(first.uniform([], 0, 5, tf.int32)) < 5
    assert abs(first.truncated_normal([100]).numpy()).max() <= 2
    a, b = first.split(2)
    assert not np.array_equal(a.normal([3]), b.normal([3]))
    first.reset_from_seed(7)
    assert np.array_equal(drawn, first.normal([2, 3]))
    assert tf.random.get_global_generator() is tf.random.get_global_generator()
    tf.random.set_global_generator(first)
    assert tf.random.get_global_generator() is first


def test_what_can_be_imported_and_needs_tensorflow() -> None:
    from gpuconf.compat.v2.profiler import experimental
    from gpuconf.compat.v2.python.ops.resource_variable_ops import VariableSpec
    from gpuconf.compat.v2.python.profiler import model_analyzer, profiler_v2

    for needed in (experimental.start, experimental.Profile, model_analyzer.profile, profiler_v2.start, VariableSpec):
        with pytest.raises(AttributeError, match="needs TensorFlow"):
            needed("logs")
    with pytest.raises(AttributeError, match="needs TensorFlow"):
        experimental.server.start(6009)
