"""For any arguments, operations, graphs and sessions succeed or raise a documented error, and nothing is held
afterwards.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import gpuconf
import gpuconf.compat.v1 as tf1
import numpy as np
import pytest
from gpuconf._core.native import core
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

if TYPE_CHECKING:
    from collections.abc import Callable

ALLOWED = (gpuconf.errors.GpuconfError, AttributeError)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.sampled_from(
        [object(), int, len, Exception(), 10**400, float("nan"), np.float16(1), np.datetime64(1, "s"), np.str_("x")]
    ),
)
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
ARRAYS = st.one_of(
    arrays.arrays(st.sampled_from(["f4", "f8", "i4", ">f4", ">i4"]), SHAPES),
    arrays.arrays(arrays.scalar_dtypes(), SHAPES),
)
VALUES = st.recursive(
    st.one_of(SCALARS, ARRAYS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner, inner), st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=5,
)
TYPES = st.one_of(st.none(), st.sampled_from(["float32", "float64", "int32", np.float32, "int64", "O", "U3"]), SCALARS)

relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)


def nothing_held() -> bool:
    live = json.loads(core.pybind_LiveTensors())
    return (live["tensors"], live["host_blocks"], gpuconf.memory.stats("GPU:0").live_blocks) == ([], 0, 0)


@pytest.fixture
def small_gpu() -> None:
    """A machine with a GPU that is initialized."""
    gpuconf.simulate("T4")
    gpuconf.config.list_logical_devices()


def attempt(call: Callable[[], Any]) -> Any:
    """The result of a call, or None if it raises an allowed error: one of gpuconf's, or Python's class."""
    try:
        return call()
    except Exception as error:
        if not str(error) or not (isinstance(error, ALLOWED) or type(error) in (TypeError, ValueError)):
            raise
        return None


@relaxed
@given(value=VALUES, dtype=TYPES, shape=st.one_of(st.none(), SHAPES, VALUES))
def test_constants(small_gpu: None, value: Any, dtype: Any, shape: Any) -> None:
    for constant in (gpuconf.constant, tf1.constant):
        with tf1.Graph().as_default():
            made = attempt(lambda: constant(value, dtype, shape))  # noqa: B023
        if made is None:
            continue
        if constant is gpuconf.constant:
            assert made.dtype in (np.float32, np.float64, np.int32, np.bool_)
        if isinstance(value, np.ndarray) and shape is None and isinstance(made, gpuconf.Tensor):
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(made.numpy(), value.astype(made.dtype))
        del made
    assert nothing_held()


@relaxed
@given(a=VALUES, b=VALUES, name=st.one_of(st.none(), SCALARS), flag=st.booleans())
def test_operations(small_gpu: None, a: Any, b: Any, name: Any, flag: bool) -> None:
    def compute(tf: Any) -> None:
        attempt(lambda: tf.matmul(a, b, flag, not flag, name=name))
        attempt(lambda: tf.add(a, b, name=name))
        attempt(lambda: tf.add_n([a, b], name=name))
        attempt(lambda: tf.add_n(a, name=name))
        attempt(lambda: tf.identity(a, name=name))

    compute(gpuconf)
    with tf1.Graph().as_default() as graph, tf1.Session() as session:
        compute(tf1)
        for operation in graph.get_operations():
            assert np.shape(session.run(operation.outputs[0])) == operation.outputs[0].shape
    assert nothing_held()


@relaxed
@given(fetch=VALUES, device=SCALARS.filter(lambda v: not callable(v)), config=SCALARS)
def test_sessions(small_gpu: None, fetch: Any, device: Any, config: Any) -> None:
    def scoped() -> None:
        with tf1.device(device):
            tf1.constant(1.0)

    with tf1.Graph().as_default():
        attempt(scoped)
        x = tf1.constant(1.0)
        if config is not None:
            with pytest.raises(TypeError):
                tf1.Session(config=config)
        with tf1.Session(config=tf1.ConfigProto(allow_soft_placement=True)) as session:
            attempt(lambda: session.run(fetch))
            assert session.run(x) == 1
    assert nothing_held()


@relaxed
@given(
    message=st.sampled_from([tf1.ConfigProto, tf1.GPUOptions, tf1.GPUOptions.Experimental]),
    value=VALUES,
    data=st.data(),
)
def test_messages(message: Any, value: Any, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(message.FIELDS)))
    made = message()
    attempt(lambda: setattr(made, name, value))
    assert isinstance(repr(made), str)
    filled = attempt(lambda: message(**{name: value}))
    if filled is not None:
        same = message()
        same.CopyFrom(filled)
        assert repr(same) == repr(filled)
