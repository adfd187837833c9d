# SPDX-License-Identifier: Apache-2.0
"""Comparisons of tensors and variables are elementwise, as TensorFlow 2.21's, and ``ref()`` is the key of a tensor.

``==`` was identity, so that ``if tf.reduce_sum(x) == 11.0`` took the wrong branch in silence. The answers here are
those of TensorFlow.
"""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Iterator

import gpuconf
import gpuconf.compat.v1 as tf1
import gpuconf.compat.v2 as tf
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _tensorflow_2() -> Iterator[None]:
    yield
    tf1.reset_default_graph()
    tf1.enable_v2_behavior()


X = [1.0, 2.0]
COMPARED = {
    "equal": (lambda x: x == [1.0, 3.0], [True, False]),
    "not equal": (lambda x: x != [1.0, 3.0], [False, True]),
    "less": (lambda x: x < 2.0, [True, False]),
    "at most": (lambda x: x <= (1.0, 2.0), [True, True]),
    "greater": (lambda x: x > [[1.0], [0.0]], [[False, True], [True, True]]),
    "at least": (lambda x: x >= 2, [False, True]),
    "a number before": (lambda x: 1.0 < x, [False, True]),  # noqa: SIM300
    "an array before": (lambda x: np.array([1.0, 3.0], "float32") == x, [True, False]),
    "an array of another type": (lambda x: x == np.array([1, 2]), [True, True]),
    "bools": (lambda x: (x == 1.0) == [True, True], [True, False]),
    "other shapes": (lambda x: x == [1.0, 2.0, 3.0], False),
    "other shapes, not equal": (lambda x: x != [1.0, 2.0, 3.0], True),
    "nothing": (lambda x: x == [], False),
}
KINDS = {"gpuconf": gpuconf.constant, "compat": tf.constant, "variable": tf.Variable}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("comparison", COMPARED)
def test_is_elementwise(kind: str, comparison: str) -> None:
    function, expected = COMPARED[comparison]
    found = function(KINDS[kind](X))
    assert isinstance(found, gpuconf.Tensor)
    assert found.dtype == "bool"
    assert found.numpy().tolist() == expected
    assert type(found) is (gpuconf.Tensor if kind == "gpuconf" else type(tf.constant(1.0)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_branch_is_the_right_one(kind: str) -> None:
    two = KINDS[kind](2.0)
    assert two == 2.0
    assert two != 3.0
    assert not two == 3.0  # noqa: SIM201
    assert not two != 2.0  # noqa: SIM202
    if kind == "variable":  # as in TensorFlow
        with pytest.raises(ValueError, match="Attempt to convert a value \\(None\\)"):
            assert two != None  # noqa: E711
    else:
        assert two != None  # noqa: E711
    assert two in (1, 2)
    assert two not in [gpuconf.constant(3.0)]
    assert [gpuconf.constant(2.0), gpuconf.constant(2.0), gpuconf.constant(1.0)].count(two) == 2
    assert max(gpuconf.constant(1.0), two) is two
    with pytest.raises(ValueError, match="truth value of an array"):
        bool(KINDS[kind](X) == X)


def test_nan_is_not_equal_to_itself() -> None:
    nan = gpuconf.constant(float("nan"))
    assert not bool(nan == nan)


@pytest.mark.parametrize("device", ["CPU:0", "GPU:0", "GPU:1"])
def test_the_result_is_on_the_device_of_the_scope(device: str) -> None:
    with gpuconf.simulate("2xA100-40GB"), gpuconf.device(device):
        found = gpuconf.constant(X) == X
        assert found.device.endswith(device)
        assert found.backing_device.endswith(device)
        assert gpuconf.identity(found).numpy().tolist() == [True, True]
        assert np.from_dlpack(found).tolist() == [True, True] if np.__version__ >= "2" else True
        assert pickle.loads(pickle.dumps(found)).numpy().tolist() == [True, True]
        del found


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (lambda: tf.constant([1, 2]) == tf.constant(X), ValueError, "cannot compute Equal as input #1"),
        (lambda: tf.constant([1, 2]) < tf.Variable(X), ValueError, "cannot compute Less as input #1"),
        (lambda: tf.constant(X) < [1.0, 2.0, 3.0], ValueError, "Incompatible shapes: [2] vs. [3] [Op:Less]"),
        (lambda: tf.constant([1, 2]) == 1.5, TypeError, "Cannot convert 1.5 to a Tensor of dtype int32"),
        (lambda: tf.constant(X) == "a", TypeError, "unsupported type (<class 'str'>)"),
        (lambda: tf.constant(True) == 1, TypeError, "Cannot convert 1 to a Tensor of dtype bool"),
        (lambda: tf.constant(True) < True, ValueError, "of bool is not in the list of allowed values"),
        (lambda: tf.constant(True) + True, ValueError, "of bool is not in the list of allowed values"),
        (lambda: tf.constant(True) * True, ValueError, "of bool is not in the list of allowed values"),
        (lambda: -tf.constant(True), ValueError, "of bool is not in the list of allowed values"),
        (lambda: tf.reduce_sum(tf.constant([True])), ValueError, "of bool is not in the list of allowed values"),
        (lambda: tf.matmul([[True]], [[True]]), ValueError, "of bool is not in the list of allowed values"),
        (lambda: tf1.add(True, True), TypeError, "has DataType bool not in list of allowed values"),
        (lambda: tf.random.uniform([1], dtype=tf.bool), ValueError, "Argument `dtype` got invalid value"),
    ],
)
def test_what_cannot_be_compared_or_computed_is_an_error(function: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        function()  # type: ignore[operator]
    assert text in str(caught.value)


def test_bools_are_made_and_converted(capsys: pytest.CaptureFixture[str]) -> None:
    flags = tf.constant(X) > 1.5
    assert tf.cast(flags, tf.float32).numpy().tolist() == [0.0, 1.0]
    assert tf.cast([0.0, 2.0], tf.bool).numpy().tolist() == [False, True]
    assert tf.zeros([1], tf.bool).numpy().tolist() == [False]
    assert tf.ones_like(flags).numpy().tolist() == [True, True]
    assert str(flags) == "tf.Tensor([False  True], shape=(2,), dtype=bool)"
    tf.print(flags, flags[1])
    assert capsys.readouterr().err == "[0 1] 1\n"
    assert gpuconf.constant(True).dtype == "bool"
    assert gpuconf.constant(True, "float32").numpy() == 1.0


def test_a_tensor_has_no_hash_but_a_reference() -> None:
    for x in (gpuconf.constant(X), tf.constant(X)):
        with pytest.raises(TypeError, match=r"^Tensor is unhashable. Instead, use tensor.ref\(\) as the key.$"):
            hash(x)
    v = tf.Variable(X)
    text = r"^Variable is unhashable. Instead, use variable.ref\(\) as the key. \(Variable: <tf.Variable 'Variable:0' "
    with pytest.raises(TypeError, match=text):
        hash(v)
    with tf.Graph().as_default():
        in_graph = [tf.constant(X), tf1.Variable(X)]
    for x in [gpuconf.constant(X), tf.constant(X), v, *in_graph]:
        other = tf.constant(X)
        assert x.ref().deref() is x
        assert {x.ref(): 1}[x.ref()] == 1
        assert x.ref() != other.ref()
        assert x.ref() is not None
        assert len({x.ref(), x.ref(), other.ref()}) == 2
        assert repr(x.ref()) == f"<Reference wrapping {x!r}>"
        with pytest.raises(TypeError, match="Cannot compare wrapped object with unwrapped object"):
            assert x.ref() == x


def test_in_a_graph_equality_is_identity() -> None:
    eager, same = tf.constant(X), tf.Variable(X)
    with tf.Graph().as_default(), tf1.Session() as session:
        x, y = tf.constant(X), tf.constant(X)
        v = tf1.Variable(X)
        session.run(v.initializer)
        assert x in [y, x]
        assert not x == y  # noqa: SIM201
        assert x != y
        assert {x: 1, y: 2}[y] == 2
        assert {v: 1}[v] == 1
        assert session.run({"x": x, "y": y}, feed_dict={x: [5.0, 6.0]})["x"].tolist() == [5.0, 6.0]
        assert session.run([x < 2.0, x < 2.0, x >= v, v <= 1.0])[0].tolist() == [True, False]
        flag = tf1.placeholder(tf.bool)
        assert session.run([flag, tf.cast(flag, tf.float32)], {flag: True}) == [True, 1.0]
        assert (x < 2.0).name == "Less_2:0"
        assert not eager == tf.constant(X)  # noqa: SIM201
        assert {same: 1}[same] == 1


def test_equality_can_be_that_of_tensorflow_1() -> None:
    x, y, v = tf.constant(X), tf.constant(X), tf.Variable(X)
    tf1.disable_tensor_equality()
    assert (x == y) is False
    assert (x != y) is True
    assert (x == x) is True
    assert (v == x) is False
    assert {v: 1}[v] == 1
    assert (x < 2.0).numpy().tolist() == [True, False]
    tf1.enable_tensor_equality()
    assert (x == y).numpy().tolist() == [True, True]
    tf1.disable_v2_behavior()
    assert (x == y) is False
    tf1.reset_default_graph()  # a variable has made it, after which TensorFlow cannot go back
    tf1.enable_v2_behavior()
    assert (v == x).numpy().tolist() == [True, True]


def test_comparisons_leave_no_memory() -> None:
    with gpuconf.simulate("A100-40GB"):
        x = gpuconf.constant(np.zeros(1 << 16, "float32"), name="x")
        held = gpuconf.memory.stats("GPU:0").bytes_in_use
        alive = weakref.ref(x)
        for _ in range(10):
            x == x  # noqa: B015
        assert gpuconf.memory.stats("GPU:0").bytes_in_use == held
        del x
        assert alive() is None
        assert gpuconf.memory.stats("GPU:0").bytes_in_use == 0
