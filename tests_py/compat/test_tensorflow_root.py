"""``gpuconf.compat.v2`` as the root of TensorFlow, and the switches of ``gpuconf.compat.v1``, which apply to it.

``compat.v2`` had nothing but ``config``.
"""

from __future__ import annotations

import importlib
import sys
import threading
from typing import TYPE_CHECKING, Any

import gpuconf
import gpuconf.compat.v2 as tf
import numpy as np
import pytest
from script import run_well

if TYPE_CHECKING:
    from collections.abc import Iterator

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def eager_again() -> Iterator[None]:
    """Begin and end with an empty default graph, and with eager execution."""
    v1.reset_default_graph()
    yield
    v1.reset_default_graph()
    v1.enable_v2_behavior()


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("compat.v2.config", "config"),
        ("compat.v2.config.experimental", "config.experimental"),
        ("compat.v1.config.threading", "config.threading"),
        ("compat.v2.errors", "errors"),
        ("compat.v1.errors", "errors"),
        ("compat.v2.debugging", "debugging"),
        ("compat.v1.test", "compat.v2.test"),
        ("compat.v1.version", "compat.v2.version"),
        ("compat.v1.sysconfig", "compat.v2.sysconfig"),
        ("compat.v1.distribute", "compat.v2.distribute"),
        ("compat.v1.keras.backend", "compat.v1.keras.backend"),
        ("compat.v1.logging", "compat.v1.logging"),
        ("compat.v2.python.client.device_lib", "compat.v2.python.client.device_lib"),
        ("compat.v2.python.platform.build_info", "compat.v2.python.platform.build_info"),
        ("compat.v2.python.framework.ops", "compat.v2.python.framework.ops"),
        ("compat.v2.python.framework.dtypes", "compat.v2.python.framework.dtypes"),
        ("compat.v2.python.framework.errors_impl", "errors"),
    ],
)
def test_a_module_is_loaded_once(name: str, module: str) -> None:
    found = importlib.import_module(f"gpuconf.{name}")
    assert found is importlib.import_module(f"gpuconf.{module}")
    owner: Any = gpuconf
    for part in name.split("."):
        owner = getattr(owner, part)
    assert owner is found
    assert found.__name__ == f"gpuconf.{module}"


def test_nothing_is_loaded_under_a_second_name() -> None:
    out = run_well("""
        import gpuconf.compat.v2.config.experimental, gpuconf.compat.v1.config.optimizer, gpuconf.compat.v1.test, sys
        files = {}
        for name, module in sys.modules.items():
            if name.startswith("gpuconf") and getattr(module, "__file__", None):
                files.setdefault(module.__file__, set()).add(id(module))
        print([file for file, modules in files.items() if len(modules) > 1])
        """)
    assert out == "[]\n"


def test_versions_are_tensorflows_and_gpuconfs_stays(one_gpu: None) -> None:
    assert tf.__version__ == tf.version.VERSION == v1.__version__ == v1.VERSION == "2.21.0"
    assert int(tf.__version__.partition(".")[0]) >= 2
    assert tf.version.GIT_VERSION.startswith("v2.21.0")
    assert gpuconf.__version__ != tf.__version__


def test_build_info_is_that_of_the_release_for_gpus() -> None:
    info = tf.sysconfig.get_build_info()
    assert info is tf.python.platform.build_info.build_info
    assert (info["is_cuda_build"], info["is_rocm_build"]) == (True, False)
    assert [int(part) >= 0 for part in (*info["cuda_version"].split("."), info["cudnn_version"])]
    assert info["cuda_version"].startswith("12.")


def test_operations_run_eagerly_and_in_graphs(two_gpus: None) -> None:
    x = tf.constant([[1.0, 2.0]])
    assert isinstance(x, gpuconf.Tensor)
    assert tf.matmul(x, x, transpose_b=True).numpy().tolist() == [[5.0]]
    assert tf.add_n([x, tf.add(x, 1.0), tf.identity(x)]).numpy().tolist() == [[4.0, 7.0]]
    with tf.device("/gpu:1"):
        assert tf.constant(1.0).device.endswith("GPU:1")
    with tf.Graph().as_default() as graph, tf.device("/gpu:1"):
        y = tf.matmul(tf.constant([[1.0]]), [[2.0]], name="y")
        assert isinstance(y, v1.Tensor)
        assert (y.device, y.graph) == ("/device:GPU:1", graph)
        with tf.control_dependencies([y]):
            z = tf.add_n([y, tf.add(y, tf.identity(y))])
        assert isinstance(z.op, tf.Operation)
        with v1.Session() as session:
            assert session.run(z).tolist() == [[6.0]]
    with v1.Session(graph=graph):
        assert isinstance(tf.constant(1.0), v1.Tensor)
    assert isinstance(tf.constant(1.0), gpuconf.Tensor)


def test_the_type_of_tensors() -> None:
    with tf.Graph().as_default():
        symbolic = tf.constant(1.0)
    assert isinstance(symbolic, tf.Tensor)
    assert not isinstance(1.0, tf.Tensor)
    assert not isinstance(np.ones(2), tf.Tensor)
    assert issubclass(gpuconf.Tensor, tf.Tensor)
    with pytest.raises(TypeError, match="cannot be created directly"):
        tf.Tensor(1.0)


def test_an_eager_tensor_is_a_tensor(one_gpu: None) -> None:
    assert isinstance(tf.constant(1.0), tf.Tensor)


def test_control_dependencies_of_eager_code(one_gpu: None) -> None:
    called = []
    with tf.control_dependencies([tf.constant(1.0), lambda: called.append(1)]):
        assert tf.constant(2.0).numpy() == 2
    with tf.control_dependencies(None):
        pass
    assert called == [1]


def test_device_takes_no_functions(one_gpu: None) -> None:
    with pytest.raises(RuntimeError, match=r"^tf\.device does not support functions\.$"):
        tf.device(lambda _: "/gpu:0")
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match=r"^tf\.device does not support functions\.$"):
        tf.device(lambda _: "/gpu:0")


@pytest.mark.parametrize("switch", ["disable_v2_behavior", "disable_eager_execution"])
def test_a_program_of_tensorflow_1(one_gpu: None, switch: str) -> None:
    assert tf.executing_eagerly()
    assert v1.executing_eagerly()
    getattr(v1, switch)()
    assert not tf.executing_eagerly()
    assert not v1.executing_eagerly()
    assert not v1.executing_eagerly_outside_functions()
    x = tf.constant([1.0, 2.0], name="x")
    assert str(tf.add(x, x)) == 'Tensor("Add:0", shape=(2,), dtype=float32)'
    with v1.Session(config=v1.ConfigProto(log_device_placement=False)) as session:
        assert session.run(x + x).tolist() == [2.0, 4.0]
    elsewhere = []
    thread = threading.Thread(target=lambda: elsewhere.append(tf.executing_eagerly()))
    thread.start()
    thread.join()
    assert elsewhere == [False]
    assert gpuconf.constant(1.0).numpy() == 1, "gpuconf itself is always eager"


def test_eager_execution_is_switched_on_before_the_first_graph(one_gpu: None) -> None:
    v1.disable_v2_behavior()
    tf.constant(1.0)
    for switch in (v1.enable_v2_behavior, v1.enable_eager_execution):
        with pytest.raises(ValueError, match=r"^tf\.enable_eager_execution must be called at program startup\.$"):
            switch()
        assert not tf.executing_eagerly()
    v1.reset_default_graph()
    v1.enable_v2_behavior()
    assert tf.executing_eagerly()
    v1.get_default_graph()
    v1.enable_v2_behavior()


def test_the_functions_that_answers_on_the_web_import_from_ops(one_gpu: None) -> None:
    from gpuconf.compat.v2.python.framework import ops
    from gpuconf.compat.v2.python.framework.ops import disable_eager_execution

    by_mode = {"Tensor", "control_dependencies", "convert_to_tensor", "device", "name_scope"}  # eager, or in a graph
    for name in ops.__all__:
        assert getattr(ops, name) is getattr(tf if name in by_mode else v1, name)
    disable_eager_execution()
    assert not tf.executing_eagerly()
    graph = ops.get_default_graph()
    ops.reset_default_graph()
    assert ops.get_default_graph() is not graph


def test_default_graphs_belong_to_threads(one_gpu: None) -> None:
    """All threads shared one: reset_default_graph in one of them took it away from the others."""
    v1.disable_v2_behavior()
    x = tf.constant(1.0)
    names = []

    def work() -> None:
        v1.reset_default_graph()
        names.append(tf.constant(2.0).name)
        names.append(v1.get_default_graph() is x.graph)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert names == ["Const:0", False]
    assert v1.get_default_graph() is x.graph
    assert v1.Session().run(x) == 1


def test_seeds(one_gpu: None) -> None:
    tf.random.set_seed(1234)
    with tf.Graph().as_default() as graph:
        assert graph.seed is None
        tf.random.set_seed(1234)
        assert graph.seed == 1234
        v1.set_random_seed([5])
        assert graph.seed == [5]
        with pytest.raises(TypeError, match="unsupported operand type"):
            tf.random.normal([2])
    assert tf.random.normal([2]).shape == [2]
    for bad in ({}, np.array([1, 2]), [1, 2], [object()], []):
        with pytest.raises(TypeError, match="the seed must be an integer"):
            tf.random.set_seed(bad)
    with pytest.raises(ValueError, match="invalid literal for int"):  # as TensorFlow does
        tf.random.set_seed(["x"])


def test_dtypes_are_those_of_gpuconf() -> None:
    assert (tf.float32, tf.float64, tf.int32) == (np.dtype("float32"), np.dtype("float64"), np.dtype("int32"))


def test_importing_the_root_prints_nothing_and_loads_no_core() -> None:
    out = run_well("""
        import sys
        import gpuconf.compat.v2 as tf
        tf.__version__, tf.executing_eagerly(), tf.get_logger, tf.test
        tf.distribute.get_strategy().num_replicas_in_sync
        print("gpuconf._core._gpuconf" in sys.modules, "numpy" in sys.modules)
        """)
    assert out == "False False\n"
    assert sys.modules["gpuconf.compat"] is tf.compat
