"""Operands of other types: TensorFlow's error for each, instead of a value or of NumPy's error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import gpuconf.compat.v1 as tf1
import gpuconf.compat.v2 as tf
import numpy as np
import pytest

WRONG = tf.errors.InvalidArgumentError
GPU = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")


# The classes and beginnings of messages are those of TensorFlow 2.21.
@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        ("t @ 'x'", WRONG, "cannot compute MatMul as input #1(zero-based) was expected to be a float tensor"),
        (
            "t + GPU",
            WRONG,
            "cannot compute Add as input #1(zero-based) was expected to be a float tensor but is a string",
        ),
        ("None + t", ValueError, "Attempt to convert a value (None) with an unsupported type"),
        ("v < [None]", ValueError, "Attempt to convert a value"),
        ("t | GPU", AttributeError, "'PhysicalDevice' object has no attribute '__ror__'"),
        ("v | None", AttributeError, "'NoneType' object has no attribute '__ror__'"),
        ("t | 1.5", WRONG, "Value for attr 'T' of float is not in the list of allowed values"),
        ("tf.subtract([1], v)", ValueError, "Incompatible type conversion requested to type int32 for `tf.Variable of"),
        ("tf.equal('x', v)", ValueError, "Incompatible type conversion requested to type string for `tf.Variable of"),
        ("tf.add(1, t)", WRONG, "cannot compute AddV2 as input #1(zero-based) was expected to be a int32 tensor but"),
        ("t / tf.constant(1)", TypeError, "`x` and `y` must have the same dtype, got tf.float32 != tf.int32."),
        ("t / 'x'", TypeError, "`x` and `y` must have the same dtype, got tf.float32 != tf.string."),
        ("tf.constant(True) / True", TypeError, "Invalid dtype tf.bool in __truediv__."),
        ("tf.logical_and(1, t)", TypeError, "Cannot convert 1 to "),
        ("tf.logical_and(t, [1])", ValueError, "Tensor conversion requested dtype bool for Tensor with dtype float32"),
        (
            "tf.logical_and(True, t)",
            WRONG,
            "cannot compute LogicalAnd as input #1(zero-based) was expected to be a bool",
        ),
        ("tf.convert_to_tensor(t, tf.int32)", ValueError, "Tensor conversion requested dtype int32 for Tensor with"),
        ("tf.convert_to_tensor(v, tf.int32)", ValueError, "Incompatible type conversion requested to type int32 for"),
        (
            "tf.constant(t, tf.int32)",
            TypeError,
            "Expected tensor [1. 2.] with dtype tf.int32, but got dtype tf.float32.",
        ),
        (
            "tf.strings.length(t)",
            WRONG,
            "cannot compute StringLength as input #0(zero-based) was expected to be a string",
        ),
        (
            "tf.strings.join([t, 'x'])",
            ValueError,
            "Tensor conversion requested dtype string for Tensor with dtype float32",
        ),
        ("tf.strings.join([t, 1])", TypeError, "Cannot convert 1 to EagerTensor of dtype string"),
        ("tf.strings.join([['a'], ['b', 'c']])", WRONG, "Input shapes do not match: [1] vs. [2]"),
        ("tf.logical_and(v, 2**70)", ValueError, "Can't convert Python sequence with out-of-range integer to Tensor."),
        ("tf.nn.softmax([1j])", WRONG, "Value for attr 'T' of complex128 is not"),
        ("tf.floor(1j)", WRONG, "Value for attr 'T' of complex128 is not"),
        ("in_graph(None)", ValueError, "None values not supported."),
    ],
)
def test_an_operand_of_another_type(one_gpu: None, call: str, kind: type[Exception], text: str) -> None:
    def in_graph(value: Any) -> Any:
        with tf1.Graph().as_default():
            return tf1.constant(value)

    names = {"tf": tf, "GPU": GPU, "in_graph": in_graph, "t": tf.constant([1.0, 2.0]), "v": tf.Variable([1.0, 2.0])}
    with pytest.raises(kind) as caught:
        eval(call, names)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(text)


def test_operands_that_take_the_type_of_the_other(one_gpu: None) -> None:
    t, v = tf.constant([1.0, 2.0]), tf.Variable([1.0, 2.0])
    assert (1 + t).numpy().tolist() == (np.array([1, 1]) + t).numpy().tolist() == [2.0, 3.0]
    assert tf.subtract(np.ones(2), v).numpy().tolist() == [0.0, -1.0]
    assert tf.subtract([1], t).numpy().tolist() == tf.subtract(1, v).numpy().tolist() == [0.0, -1.0]
    assert tf.constant(v, tf.int32).numpy().tolist() == [1, 2]
    assert tf.abs(-3j).dtype == tf.float64


def test_zeros_of_a_negative_divisor(one_gpu: None) -> None:
    assert str(tf.math.floormod(np.array([2.0, -2.0, 3.0]), -2.0).numpy()) == "[ 0. -0. -1.]"


def test_the_largest_of_nothing(one_gpu: None) -> None:
    assert tf.reduce_max([]).numpy() == -np.inf
    assert tf.reduce_min(np.zeros((0, 2), "int32"), 0).numpy().tolist() == [2**31 - 1] * 2
    assert tf.nn.softmax(np.zeros((1, 0), "float32")).shape == (1, 0)


def test_a_tensor_in_place_of_a_device(one_gpu: None) -> None:
    """TensorFlow compares the devices with it, and raises TypeError (difference 59)."""
    for odd in (tf.constant([1.0, 2.0]), tf.Variable([1.0, 2.0])):
        with pytest.raises(ValueError, match="Unrecognized device: "):
            tf.config.set_visible_devices(odd)
        with pytest.raises(ValueError, match="Invalid argument `device_policy`"):
            tf.config.experimental.set_device_policy(odd)
    assert tf.config.get_visible_devices("GPU") == [GPU]


def test_an_eager_value_becomes_a_constant_of_a_graph(one_gpu: None) -> None:
    """``compat.v1.constant`` of TensorFlow raises NotImplementedError (difference 60)."""
    eager = tf.constant([1.0, 2.0]), tf.Variable([1.0, 2.0])
    with tf1.Graph().as_default(), tf1.Session() as session:
        assert [session.run(tf1.constant(each)).tolist() for each in eager] == [[1.0, 2.0]] * 2


def test_settings_of_other_types(one_gpu: None) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments"):
        tf.config.experimental.enable_tensor_float_32_execution(np.ones(2))
    with pytest.raises(TypeError, match="enabled must be True or False"):
        tf.config.set_soft_device_placement(2**70)
    for soft in (False, None):  # None is TensorFlow's False after initialization (difference 65)
        tf.config.set_soft_device_placement(soft)
        with nullcontext() if soft is None else pytest.raises(WRONG), tf.device("/gpu:7"):
            tf.constant(1.0)
    with pytest.raises(ValueError, match="invalid literal for int"):
        tf.random.set_seed(["a"])
    for seed in (tf.float32, [1]):  # stored, until it is needed
        tf.random.set_seed(seed)
        with pytest.raises(TypeError, match="unsupported operand type"):
            tf.random.normal([2])
    tf.random.set_seed(None)
    assert int(tf.float32) == 1 == tf.float32
    tf.config.optimizer.set_jit(tf.float32)
    assert tf.config.optimizer.get_jit() == "autoclustering"


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        ("t | 0", TypeError, ""),
        ("t < 'x'", TypeError, ""),
        ("t - GPU", TypeError, ""),
        ("t + None", ValueError, "None values not supported."),
        ("tf.cos([1])", TypeError, ""),
        ("tf.abs('x')", TypeError, ""),
        ("tf1.constant(t, tf.int32)", TypeError, "Expected int32, but got Tensor("),
        ("v.assign([])", ValueError, "Cannot assign value to variable"),
        ("v.assign(1.0)", ValueError, "Cannot assign value to variable"),
        ("t @ np.ones(2)", NotImplementedError, "Cannot convert a symbolic tf.Tensor"),
        ("v + np.arange(3)", NotImplementedError, "Cannot convert a symbolic tf.Tensor"),
        ("v // np.arange(3)", NotImplementedError, "Cannot convert a symbolic tf.Tensor"),
        ("t | [1.5]", AttributeError, "'list' object has no attribute '__ror__'"),
        ("t & ()", TypeError, ""),
        ("tf.equal('x', np.arange(3))", TypeError, ""),
        ("tf.logical_and([1], True)", TypeError, ""),
        ("tf.math.log(tf.float32)", TypeError, ""),
        ("tf.cumsum('')", TypeError, ""),
        ("tf.argmax([1j])", TypeError, ""),
        ("tf.ones_like('x')", TypeError, ""),
        ("tf.nn.softmax(1.5)", ValueError, "Shape must be at least rank 1 but is rank 0"),
        ("tf.strings.join([['a'], None])", TypeError, ""),
        ("tf.strings.join([v, 'a'])", TypeError, ""),
        ("tf.strings.join([['a'], ()])", ValueError, ""),
        ("tf.zeros(None)", ValueError, "None values not supported."),
        ("tf.zeros([[2, 3]])", ValueError, "Shape must be rank 1 but is rank 2"),
        ("tf.zeros([None])", TypeError, ""),
        ("bool(v)", tf.errors.OperatorNotAllowedInGraphError, "Using a symbolic `tf.Tensor` as a Python `bool`"),
        ("tf.nn.softmax(1)", TypeError, ""),
        ("tf.cumsum(1)", ValueError, ""),
        ("tf.argmax([])", ValueError, ""),
        ("tf.logical_and(True, {})", TypeError, ""),
        ("tf.matmul('x', t)", TypeError, ""),
        ("tf1.constant(None, -0.5)", TypeError, ""),
        ("tf1.constant(None, [])", ValueError, "None values not supported."),
        ("tf.nn.softmax(1j)", TypeError, ""),
        ("tf.less('', None)", TypeError, ""),
        ("list(v)", tf.errors.OperatorNotAllowedInGraphError, "Iterating over a symbolic `tf.Tensor` is not allowed."),
        ("tf.reduce_max([1j])", TypeError, ""),
        ("tf.divide(np.arange(3), np.zeros((1, 0)))", NotImplementedError, "Cannot convert a symbolic tf.Tensor"),
        ("tf1.placeholder_with_default([1.0], [None, 2])", ValueError, "Shapes (1,) and (None, 2) are not compatible"),
        ("tf.zeros(v)", ValueError, "Incompatible type conversion requested to type int32"),
        ("tf.zeros(t)", TypeError, "Value passed to parameter 'dims' has DataType float32"),
        ("tf1.constant([[1, 2], [3]], tf.string)", TypeError, ""),
        ("tf1.constant(1, 0)", AttributeError, "'int' object has no attribute 'is_integer'"),
        ("tf1.constant(1, np.zeros(2))", ValueError, "The truth value of an array"),
    ],
)
def test_an_operand_in_a_graph(one_gpu: None, call: str, kind: type[Exception], text: str) -> None:
    """A variable took a value of another shape."""
    with tf1.Graph().as_default():
        t, v = tf1.constant([1.0, 2.0]), tf1.Variable([1.0, 2.0])
        with pytest.raises(kind) as caught:
            eval(call, {"tf": tf, "tf1": tf1, "np": np, "GPU": GPU, "t": t, "v": v})
    assert type(caught.value) is kind
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("call", "name", "dtype"),
    [
        ("tf.divide([], -1)", "truediv:0", "float32"),
        ("tf.greater_equal(2, np.ones(2, 'float32'))", "GreaterEqual:0", "bool"),
        ("tf.add(2, np.ones(2))", "Add:0", "int32"),
        ("tf.multiply(1.5, np.arange(2))", "Mul:0", "float32"),
        ("tf.matmul([[1.0]], [[2]])", "MatMul:0", "float32"),
        ("tf.divide(2, tf.constant(1.5))", "truediv:0", "float32"),
        ("2 * tf.constant(1.5)", "mul:0", "float32"),
        ("tf.concat([[1.0], [2]], 0)", "concat:0", "float32"),
        ("tf.where([True], [1.0], [2.0])", "SelectV2:0", "float32"),
        ("tf.one_hot([1], 2)", "one_hot:0", "float32"),
        ("tf.linalg.inv([[2.0]])", "MatrixInverse:0", "float32"),
        ("tf.strings.join(['a', 'b'])", "StringJoin:0", "string"),
        ("tf.constant([1.0, 2.0])[0]", "strided_slice:0", "float32"),
        ("tf.zeros_like([1])", "zeros_like:0", "int32"),
        ("tf.constant(True) & True", "and:0", "bool"),
        ("tf.split([1.0, 2.0], 2)[0]", "split:0", "float32"),
    ],
)
def test_values_beside_each_other_in_a_graph(one_gpu: None, call: str, name: str, dtype: str) -> None:
    """A value takes the type of the one before it, and its constant has a name of its own, not ``Const``."""
    with tf1.Graph().as_default():
        made = eval(call, {"tf": tf, "np": np})
        assert (made.name, made.dtype.name) == (name, dtype)
        number = sum(each.name.startswith("Const") for each in made.graph.get_operations())
        assert tf.constant(1.0).name == (f"Const_{number}:0" if number else "Const:0")
        with tf1.Session() as session:
            eager = eval(f"session.run({call})", {"tf": tf, "np": np, "session": session})
    with suppress(TypeError, WRONG):  # eagerly TensorFlow converts fewer arrays
        assert np.array_equal(eager, eval(call, {"tf": tf, "np": np}).numpy())


def test_a_number_before_a_tensor_has_its_own_type_in_a_graph(one_gpu: None) -> None:
    with tf1.Graph().as_default():
        for call in (tf.add, tf.multiply, tf.less):
            with pytest.raises(TypeError, match="has type float32 that does not match type int32 of argument 'x'"):
                call(2, tf.constant(1.5))
        with pytest.raises(ValueError, match="out of bounds"):
            tf.constant([1.0])[3]


def test_shapes_in_a_graph(one_gpu: None) -> None:
    """The result of ``softmax`` had no dimensions, and only integers were sizes."""
    with tf1.Graph().as_default():
        v = tf1.Variable([1.0, 2.0])
        assert tf.nn.softmax(np.ones((2, 3), "float32")).shape == tf.zeros([2.5, 3]).shape == [2, 3]
        assert tf.zeros(np.float32(2)).shape == tf.nn.log_softmax(v).shape == [2]
        assert tf.cast(v, tf.float32) is v
        assert (tf.abs(-3j).dtype, tf1.Session().run(tf.abs(-3j))) == (tf.float64, 3.0)
        assert tf.convert_to_tensor(v).dtype == tf.float32
    tf1.disable_v2_behavior()
    assert repr(tf.zeros([2]).shape) == "TensorShape([Dimension(2)])"
    tf1.reset_default_graph()
    tf1.enable_v2_behavior()


def test_a_variable_of_a_variable_of_another_graph(one_gpu: None) -> None:
    """It had the name of an operation of that graph."""
    with tf1.Graph().as_default():
        v = tf1.Variable(1.0)
    with tf1.Graph().as_default():
        assert tf1.Variable(v).name == "Variable_1:0"
        assert tf.add(1.5, v).graph is tf.reduce_sum(v).graph is v.graph  # difference 68


@pytest.mark.parametrize(
    "use",
    [
        "tf.Variable(1)",
        "tf.distribute.MirroredStrategy()",
        "tf.distribute.has_strategy()",
        "device('/gpu:0')",
        "device(1)",
    ],
)
def test_what_makes_the_default_graph(one_gpu: None, use: str) -> None:
    """``enable_eager_execution`` comes before it."""
    tf1.reset_default_graph()
    if "()" not in use and "Variable" not in use:
        tf1.disable_eager_execution()
    with suppress(AttributeError):
        eval(use, {"tf": tf, "device": tf.distribute.OneDeviceStrategy})
    tf1.disable_eager_execution()
    with pytest.raises(ValueError, match="must be called at program startup"):
        tf1.enable_eager_execution()
    tf1.reset_default_graph()
    tf1.enable_eager_execution()


def test_many_operations_of_a_name(one_gpu: None) -> None:
    """Each looked through all names before it."""
    with tf1.Graph().as_default():
        x = tf.constant(1.0)
        for _ in range(3000):
            x = x + 1.0
        assert (x.name, x.op.inputs[1].name) == ("add_2999:0", "add_2999/y:0")


def test_what_assign_returns(one_gpu: None) -> None:
    """The variable, under TensorFlow's name of it: programs print it."""
    v = tf.Variable(1.0)
    same = v.assign_add(2.0)
    assert repr(same) == "<tf.Variable 'UnreadVariable' shape=() dtype=float32, numpy=3.0>"
    assert same is not v
    assert v.assign(5.0, read_value=False) is None
    assert (float(same), v.name) == (5.0, "Variable:0")
    same.assign_sub(1.0)
    assert float(v) == 4.0


def test_print_in_a_graph(one_gpu: None, capsys: pytest.CaptureFixture[str]) -> None:
    """It printed the symbolic tensor at once."""
    with tf1.Graph().as_default(), tf1.Session() as session:
        printing = tf.print("x =", tf.constant([1.0, 2.0]), 3)
        assert capsys.readouterr().err == ""
        session.run(printing)
        session.run(tf1.Variable(1.0).initializer)
    assert capsys.readouterr().err == "x = [1 2] 3\n"


@contextmanager
def building_graphs() -> Iterator[None]:
    """Let operations build graphs."""
    tf1.disable_eager_execution()
    try:
        yield
    finally:
        tf1.reset_default_graph()
        tf1.enable_eager_execution()


def test_a_list_that_is_not_rectangular_where_graphs_are_built(one_gpu: None) -> None:
    """TensorFlow raises TypeError of a float's bits (difference 69)."""
    tensor = tf.constant([1.0, 2.0])
    with building_graphs(), pytest.raises(ValueError, match="non-rectangular"):
        tensor & [[1, 2], [3]]


def test_a_constant_that_fails_has_made_the_default_graph(one_gpu: None) -> None:
    tf1.reset_default_graph()
    with building_graphs():
        with pytest.raises(TypeError):
            tf.constant([1.0], tf.string)
        with pytest.raises(ValueError, match="must be called at program startup"):
            tf1.enable_eager_execution()


def test_no_text_where_graphs_are_built(one_gpu: None) -> None:
    with building_graphs():
        for value, kind in ((None, ValueError), ([["a"], ["b", "c"]], ValueError), ([1, "a"], TypeError)):
            with pytest.raises(kind):
                tf.strings.length(value)
        with pytest.raises(TypeError):
            tf.strings.join([None, "a"])


def test_a_quotient_where_graphs_are_built(one_gpu: None) -> None:
    """TensorFlow raises ValueError or NotImplementedError, by what it converts first (difference 70)."""
    with building_graphs():
        for x, y in ((True, None), ("x", np.ones(2, "float32"))):
            with pytest.raises(TypeError):
                tf.divide(x, y)


def test_a_seed_that_is_no_number(one_gpu: None) -> None:
    """With TensorFlow no later call draws a random number (difference 71)."""
    with pytest.raises(ValueError, match="invalid literal"):
        tf.random.set_seed(["a"])
    assert tf.random.normal([2]).shape == (2,)
