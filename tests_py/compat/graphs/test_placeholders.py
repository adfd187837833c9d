"""Placeholders and operations without a tensor: what the recorded sessions of TensorFlow do not show.

Programs of TensorFlow 1 feed their inputs: there was no ``placeholder``, and ``global_variables_initializer`` was
missing.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import gpuconf
import gpuconf.compat.v1 as tf
import numpy as np
import pytest
from gpuconf._core.native import core

if TYPE_CHECKING:
    pass


def nothing_held() -> bool:
    live = json.loads(core.pybind_LiveTensors())
    return (live["tensors"], live["host_blocks"], live["host_bytes"]) == ([], 0, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_a_graph_is_run_with_batches_of_different_sizes(one_gpu: None, dtype: str) -> None:
    x = tf.placeholder(dtype, [None, 3], name="x")
    y = tf.add(x, x)
    assert (x.dtype, y.shape, y.get_shape()) == (np.dtype(dtype), (None, 3), (None, 3))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for rows in (1, 5, 0, 2):
            fed = np.arange(rows * 3).reshape(rows, 3)
            result = session.run(y, feed_dict={x: fed})
            assert (result.dtype, result.shape) == (np.dtype(dtype), (rows, 3))
            assert result.tolist() == (2 * fed).tolist()
    assert nothing_held()


def test_the_layers_of_a_network(one_gpu: None) -> None:
    x = tf.placeholder(tf.float32, [None, 4])
    hidden = tf.matmul(x, tf.constant(0.5, shape=[4, 8])) + tf.constant(1.0, shape=[8])
    out = tf.matmul(hidden, tf.constant(1.0, shape=[8, 2]))
    assert (hidden.shape, out.shape) == ((None, 8), (None, 2))
    step = tf.Session().make_callable([out, hidden], feed_list=[x])
    for rows in (1, 7):
        result, between = step(np.ones((rows, 4)))
        assert result.tolist() == [[24.0, 24.0]] * rows
        assert between.tolist() == [[3.0] * 8] * rows
    assert nothing_held()


def test_a_placeholder_of_any_shape(one_gpu: None) -> None:
    x = tf.placeholder(tf.float32, name="x")
    assert (x.shape, x.get_shape()) == (None, None)
    assert str(x) == 'Tensor("x:0", dtype=float32)'
    assert repr(x) == "<tf.Tensor 'x:0' shape=<unknown> dtype=float32>"
    session = tf.Session()
    for value in (7.0, [1.0, 2.0], [[1.0], [2.0]], []):
        assert session.run(x + 1.0, {x: value}).tolist() == (np.array(value) + 1).tolist()
    one = session.run(x + 1.0, {x: 1.0})
    assert (one, type(one)) == (2, np.float32)


def test_a_fetched_placeholder_is_what_was_fed(one_gpu: None) -> None:
    x = tf.placeholder(tf.float64)
    fed = np.array([[1.0, 2.0]])
    assert tf.Session().run(x, {x: fed}) is fed


def test_a_run_that_fails_says_what_and_holds_nothing(one_gpu: None) -> None:
    x, y = tf.placeholder(tf.float32, [None, 2], name="x"), tf.placeholder(tf.float32, name="y")
    total = tf.add(x, y, name="total")
    session = tf.Session()
    with pytest.raises(
        ValueError, match=r"^You must feed a value for placeholder tensor 'y' with dtype float\n"
    ) as caught:
        session.run(total, {x: [[1.0, 2.0]]})
    assert type(caught.value) is gpuconf.errors.InvalidArgumentError
    assert (caught.value.op, caught.value.error_code) == (y.op, gpuconf.errors.INVALID_ARGUMENT)
    assert caught.value.node_def.name == "y"
    with pytest.raises(ValueError, match=r"^Incompatible shapes: \[1,2\] vs\. \[3\]") as caught:
        session.run(total, {x: [[1.0, 2.0]], y: [1.0, 2.0, 3.0]})
    assert caught.value.op is total.op
    with pytest.raises(MemoryError, match="OOM when allocating tensor"):
        session.run(tf.matmul(y, y, transpose_b=True).op, {y: np.zeros((200_000, 1), np.float32)})
    assert nothing_held()
    assert session.run(total, {x: [[1.0, 2.0]], y: 1.0}).tolist() == [[2.0, 3.0]]


def test_scopes_and_the_placement_log(two_gpus: None, capsys: pytest.CaptureFixture[str]) -> None:
    with tf.device("/gpu:1"):
        x = tf.placeholder(tf.float32, name="x")
        n = tf.no_op("n")
    near = tf.placeholder(tf.int32, name="near")
    with tf.device("/cpu:0"):
        y = tf.add(near, 1, name="y")
    assert (x.device, n.device, near.device) == ("/device:GPU:1", "/device:GPU:1", "")
    session = tf.Session(config=tf.ConfigProto(log_device_placement=True))
    session.run([n, tf.global_variables_initializer()])
    assert session.run([x + 1.0, y], {x: 1.0, near: 2}) == [2, 3]
    log = [line.partition(": ") for line in capsys.readouterr().err.splitlines()]
    place = {name: device.rpartition("/")[2] for name, _, device in log}
    # As in TensorFlow, a placeholder is placed where its only reader is.
    assert (place["x"], place["n"], place["near"], place["y"], place["init"]) == (
        "gpu:1",
        "gpu:1",
        "cpu:0",
        "cpu:0",
        "gpu:0",
    )


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ((None,), TypeError, "Expected DataType for argument 'dtype' not None"),
        (("datetime64",), TypeError, "unsupported dtype datetime64: gpuconf supports float32, float64, int32, bool"),
        (("float32", [-1, 3]), ValueError, "Error converting shape to a TensorShape: Dimension -1 must be >= 0."),
        (
            ("float32", [3.5]),
            TypeError,
            "Error converting shape to a TensorShape: Dimension value must be integer or None",
        ),
        (("float32", [True]), TypeError, "expected an int, got a boolean"),
        (("float32", 3.5), TypeError, "3.5 is not a sequence of sizes"),
        (("float32", [2**64]), ValueError, "Dimension 18446744073709551616 does not fit in 63 bits"),
        (("float32", [2**40, 2**40]), ValueError, "more than 2**63 - 1 bytes"),
        (("float32", [None] * 255), ValueError, "shape has more than 254 dimensions"),
        (("float32", (None for _ in iter(int, 1))), ValueError, "shape has more than 254 dimensions"),
        (("float32", None, "a b"), ValueError, "'a b' is not a valid node name"),
        (("float32", None, 3), TypeError, "name must be a string"),
    ],
)
def test_bad_placeholders_add_nothing(one_gpu: None, arguments: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        tf.placeholder(*arguments)
    assert type(caught.value) is kind
    assert text in str(caught.value)
    assert tf.get_default_graph().get_operations() == []


def test_the_initializers_wait_for_nothing_and_give_nothing(one_gpu: None) -> None:
    session = tf.InteractiveSession()
    init = tf.global_variables_initializer()
    assert (init.name, init.type, init.outputs, init.inputs) == ("init", "NoOp", [], ())
    assert init.run() is None
    assert session.run([init, tf.local_variables_initializer(), tf.tables_initializer()]) == [None] * 3
    assert tf.global_variables() == []
    session.close()
    with pytest.raises(TypeError, match="with an unsupported type"):
        tf.add(init, 1.0)


def test_a_fed_result_takes_effect_even_where_tensorflow_folds_constants(one_gpu: None) -> None:
    a = tf.constant(1.0)
    doubled = a + a
    result = doubled + 1.0
    session = tf.Session()
    assert session.run(result) == 3
    assert session.run(result, {doubled: 100.0}) == 101
    assert session.run([doubled, result], {doubled: 100.0}) == [100, 101]


def test_the_blocks_of_a_thread_are_its_own(one_gpu: None) -> None:
    tf.disable_v2_behavior()
    graph = tf.Graph()
    seen = []

    def work() -> None:
        with graph.as_default():
            b = tf.constant(2.0)
            seen.append((b.device, b.op.control_inputs))

    try:
        with graph.as_default():
            a = tf.constant(1.0)
            with tf.device("/gpu:0"), tf.control_dependencies([a]):
                thread = threading.Thread(target=work)
                thread.start()
                thread.join()
                c = tf.constant(3.0)
    finally:
        tf.reset_default_graph()
        tf.enable_v2_behavior()
    assert seen == [("", [])]
    assert (c.device, c.op.control_inputs) == ("/device:GPU:0", [a.op])
