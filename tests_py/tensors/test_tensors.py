"""Eager tensors and operations."""

from __future__ import annotations

import copy
import gc
import json
import pickle
from pathlib import Path
from typing import Any

import gpuconf as tf
import gpuconf.compat.v1 as tf1
import numpy as np
import pytest
from conformance.helpers import kind_of
from gpuconf._core.native import core
from script import run_well

CPU0, GPU0, GPU1 = (f"/job:localhost/replica:0/task:0/device:{name}" for name in ("CPU:0", "GPU:0", "GPU:1"))


def books() -> tuple[Any, ...]:
    """The resources of operations: tensors, blocks and bytes of host memory, and the blocks and bytes of each pool."""
    tf.config.list_logical_devices()
    live = json.loads(core.pybind_LiveTensors())
    pools = [tf.memory.stats(device) for device in tf.config.list_logical_devices("GPU")]
    return (
        len(live["tensors"]),
        live["host_blocks"],
        live["host_bytes"],
        [(p.live_blocks, p.bytes_in_use) for p in pools],
    )


EMPTY = (0, 0, 0, [(0, 0), (0, 0)])


# Conversion of values.


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, None, "int32"),
        (1.5, None, "float32"),
        ([1, 2], None, "int32"),
        ([1, 2.5], None, "float32"),
        ([], None, "float32"),
        ([[1.0, 2.0], [3.0, 4.0]], None, "float32"),
        (((1, 2), (3, 4)), None, "int32"),
        (np.float64(1.5), None, "float64"),
        (np.arange(3, dtype=np.int32), None, "int32"),
        (np.arange(3.0), None, "float64"),
        ([np.arange(3.0), np.arange(3.0)], None, "float64"),
        (np.arange(3, dtype=">f4"), None, "float32"),
        (np.arange(12.0).reshape(3, 4).T, None, "float64"),
        (np.broadcast_to(np.float32(7), (3, 2)), None, "float32"),
        (np.arange(10, dtype=np.float32)[::-2], None, "float32"),
        (memoryview(np.arange(3, dtype=np.float32)), None, "float32"),
        ([1, 2], "float64", "float64"),
        ([1, 2], np.float32, "float32"),
        (np.arange(3), "int32", "int32"),
        (np.array([1.9]), "int32", "int32"),
        (range(3), np.float32, "float32"),
        (3, tf1.float64, "float64"),
        (np.zeros((0, 3), np.float32), None, "float32"),
        ([float("nan"), float("inf"), -0.0, 1e40], None, "float32"),
        (2**31 - 1, None, "int32"),
        (-(2**31), None, "int32"),
    ],
)
def test_a_value_becomes_a_tensor(two_gpus: None, value: Any, dtype: Any, expected: str) -> None:
    for device in ("CPU:0", "GPU:1"):
        with tf.device(device):
            tensor = tf.constant(value, dtype)
        with np.errstate(all="ignore"):
            wanted = np.asarray(value).astype(expected)
        assert tensor.dtype == np.dtype(expected)
        assert tensor.shape == wanted.shape
        np.testing.assert_array_equal(tensor.numpy(), wanted)
        assert tensor.numpy().dtype == np.dtype(expected)


@pytest.mark.parametrize(
    ("value", "dtype", "kind", "text"),
    [
        ("x", None, TypeError, "unsupported type"),
        (b"x", None, TypeError, "unsupported type"),
        (None, None, TypeError, "unsupported type"),
        ([None], None, TypeError, "unsupported type"),
        (1j, None, TypeError, "unsupported type"),
        ({}, None, TypeError, "unsupported type"),
        (object(), None, TypeError, "unsupported type"),
        ([1, "x"], None, TypeError, "unsupported type"),
        (np.arange(3), None, TypeError, "unsupported dtype int64"),
        (np.zeros(3, np.float16), None, TypeError, "unsupported dtype float16"),
        (1, "int64", TypeError, "unsupported dtype int64"),
        (1, "nonsense", TypeError, "to a DType"),
        (1, object(), TypeError, "to a DType"),
        ([1.5], "int32", TypeError, "Cannot convert [1.5] to a Tensor of dtype int32"),
        ([[1, 2], [3]], None, ValueError, "Can't convert non-rectangular Python sequence to Tensor"),
        (2**31, None, ValueError, "do not fit in int32"),
        (-(2**31) - 1, None, ValueError, "do not fit in int32"),
        (10**400, None, ValueError, "do not fit in int32"),
        (np.array([2**40]), "int32", ValueError, "do not fit in int32"),
    ],
)
def test_a_value_that_is_none(two_gpus: None, value: Any, dtype: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        tf.constant(value, dtype)
    assert type(caught.value) is kind_of(tf.constant, kind)
    assert text in str(caught.value)
    assert books() == EMPTY


@pytest.mark.parametrize(
    ("value", "shape", "expected"),
    [
        ([1.0, 2.0, 3.0, 4.0], [2, 2], [[1, 2], [3, 4]]),
        (7.0, (2, 3), [[7, 7, 7], [7, 7, 7]]),
        ([7.0], 3, [7, 7, 7]),
        ([[1.0], [2.0]], (2,), [1, 2]),
        (1.0, (), 1),
        (1.0, [0, 5], np.zeros((0, 5))),
        ([1.0, 2.0], np.array([2, 1]), [[1], [2]]),
    ],
)
def test_a_shape_is_filled(two_gpus: None, value: Any, shape: Any, expected: Any) -> None:
    np.testing.assert_array_equal(tf.constant(value, shape=shape).numpy(), np.array(expected, np.float32))


@pytest.mark.parametrize(
    ("value", "shape", "kind"),
    [
        ([1.0, 2.0], [3], TypeError),
        ([1.0, 2.0, 3.0], [2], TypeError),
        ([], [2], TypeError),
        (1.0, [-1], ValueError),
        (1.0, [2.5], TypeError),
        (1.0, "23", TypeError),
        (1.0, [None], TypeError),
        (1.0, [2**63], ValueError),
        (1.0, [2**40, 2**40], ValueError),
        (1.0, [1] * 255, ValueError),
    ],
)
def test_a_shape_that_cant_be(two_gpus: None, value: Any, shape: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        tf.constant(value, shape=shape)
    assert type(caught.value) is kind_of(tf.constant, kind)
    assert books() == EMPTY


def test_a_huge_tensor_is_out_of_memory(two_gpus: None) -> None:
    for device in ("CPU:0", "GPU:0"):
        with (
            tf.device(device),
            pytest.raises(
                MemoryError, match=r"OOM when allocating tensor with shape\[1099511627776,1024\].* out of memory"
            ),
        ):
            tf.constant(1.0, shape=[2**40, 2**10])
    assert books() == EMPTY


# Tensors.


def test_a_tensor_tells_what_it_is(two_gpus: None) -> None:
    with tf.device("GPU:1"):
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    assert (x.device, x.backing_device, x.shape, x.ndim, len(x)) == (GPU1, GPU1, (2, 2), 2, 2)
    assert x.dtype == tf.float32 == np.float32
    assert repr(x).startswith("<gpuconf.Tensor: shape=(2, 2), dtype=float32, numpy=array([[1., 2.],")
    assert str(x) == "gpuconf.Tensor(\n[[1. 2.]\n [3. 4.]], shape=(2, 2), dtype=float32)"
    assert str(tf.constant(7)) == "gpuconf.Tensor(7, shape=(), dtype=int32)"
    assert bool(tf.constant(7)) is True
    assert bool(tf.constant(0.0)) is False
    with pytest.raises(TypeError, match="Scalar tensor"):
        len(tf.constant(7))
    with pytest.raises(TypeError, match=r"directly: use gpuconf\.constant"):
        tf.Tensor()


def test_types_by_name() -> None:
    assert [tf.float32, tf.float64, tf.int32] == [np.dtype(name) for name in ("float32", "float64", "int32")]
    with pytest.raises(AttributeError, match="no attribute 'float128'"):
        _ = tf.float128


def test_a_tensor_is_an_array_to_numpy(two_gpus: None) -> None:
    x = tf.constant([1.0, 2.0])
    np.testing.assert_array_equal(np.asarray(x), [1, 2])
    assert np.asarray(x, np.float64).dtype == np.float64
    assert np.array(x, copy=True).flags.writeable
    x.numpy()[0] = 9
    assert x.numpy()[0] == 1, "a tensor never changes"
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(x, copy=False)


def test_operators(two_gpus: None) -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    rows: Any = [[1, 2], [3, 4]]
    for both in (x + x, x + np.asarray(x), np.asarray(x) + x, x + rows, rows + x):
        assert isinstance(both, tf.Tensor)
        assert both.numpy().tolist() == [[2, 4], [6, 8]]
    assert (x + 1).numpy().tolist() == (1.0 + x).numpy().tolist() == [[2, 3], [4, 5]]
    assert (x @ x).numpy().tolist() == (np.asarray(x) @ x).numpy().tolist() == [[7, 10], [15, 22]]
    assert (tf.constant(1) + 1).dtype == tf.int32
    for bad in (1.5, "x", None):
        with pytest.raises(TypeError):
            _ = tf.constant(1) + bad
    with pytest.raises(ValueError, match="cannot compute AddV2 as input #1"):
        _ = tf.constant(1) + tf.constant(1.0)


def test_operations(two_gpus: None) -> None:
    a, b = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.arange(12.0, dtype=np.float32).reshape(3, 4)
    np.testing.assert_allclose(tf.matmul(a, b).numpy(), a @ b)
    np.testing.assert_allclose(tf.matmul(a.T, b, transpose_a=True).numpy(), a @ b)
    np.testing.assert_allclose(tf.matmul(a, b.T, transpose_b=True).numpy(), a @ b)
    np.testing.assert_allclose(tf.matmul(a.T, b.T, True, True).numpy(), a @ b)
    np.testing.assert_allclose(tf.add(a, a[:1]).numpy(), a + a[:1])
    np.testing.assert_allclose(tf.add(a[:, :1], a[:1]).numpy(), a[:, :1] + a[:1])
    np.testing.assert_allclose(tf.add_n([a, a, a]).numpy(), 3 * a)
    np.testing.assert_allclose(tf.add_n((a,)).numpy(), a)
    np.testing.assert_allclose(tf.identity(a).numpy(), a)
    big = np.array([2**31 - 1], np.int32)
    assert tf.add(big, tf.constant([1])).numpy().tolist() == [-(2**31)], "int32 wraps around"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_goes_through(two_gpus: None, dtype: str) -> None:
    x = tf.constant([[float("nan"), 0.0], [0.0, 1.0]], dtype)
    product = tf.matmul(x, x).numpy()
    assert np.isnan(product).tolist() == [[True, True], [True, False]]
    assert np.isnan((x + 1).numpy()).tolist() == [[True, False], [False, False]]


@pytest.mark.parametrize("device", ["CPU:0", "GPU:0"])
def test_empty_tensors(two_gpus: None, device: str) -> None:
    with tf.device(device):
        a, b = tf.constant(np.zeros((0, 3), np.float32)), tf.constant(np.zeros((3, 0), np.float32))
        assert tf.matmul(a, b).shape == (0, 0)
        assert tf.matmul(b, a).numpy().tolist() == [[0.0] * 3] * 3
        assert (a + a).shape == (0, 3)
        assert tf.identity(a).numpy().shape == np.from_dlpack(a).shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda: tf.matmul([1.0], [[1.0]]),
            ValueError,
            "In[0] is not a matrix. Instead it has shape [1] [Op:MatMul] name: ",
        ),
        (
            lambda: tf.matmul([[1.0]], [[1.0], [1.0]]),
            ValueError,
            "Matrix size-incompatible: In[0]: [1,1], In[1]: [2,1]",
        ),
        (
            lambda: tf.matmul([[1]], np.array([[1.0]])),
            ValueError,
            "cannot compute MatMul as input #1(zero-based) was expected",
        ),
        (lambda: tf.add([1.0, 2.0], [1.0, 2.0, 3.0]), ValueError, "Incompatible shapes: [2] vs. [3]"),
        (
            lambda: tf.add_n([[1.0], [1.0, 2.0]]),
            ValueError,
            "Inputs to operation AddN of type AddN must have the same size and shape.",
        ),
        (lambda: tf.add_n([]), ValueError, "Inputs must be an iterable of at least one Tensor"),
        (lambda: tf.add_n(3), ValueError, "Inputs must be an iterable of at least one Tensor"),
        (lambda: tf.identity(None), TypeError, "unsupported type"),
        (lambda: tf.identity(1, name=3), TypeError, "name must be a string"),
        (lambda: tf.matmul(tf1.constant([[1.0]]), [[1.0]]), TypeError, "evaluate it with Session.run()"),
    ],
)
def test_what_does_not_go_together(two_gpus: None, call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind_of(tf.matmul, kind)
    assert text in str(caught.value)
    assert books() == EMPTY


def test_a_dropped_tensor_gives_its_memory_back(two_gpus: None) -> None:
    with tf.device("GPU:0"):
        x = tf.constant(1.0, shape=[1000])
        y = tf.identity(x)
    assert books()[3][0] == (1, 4096), "identity shares the memory"
    del x
    assert books()[3][0] == (1, 4096)
    del y
    assert books() == EMPTY


def test_a_copy_between_devices_is_given_back_too(two_gpus: None) -> None:
    with tf.device("GPU:0"):
        x = tf.constant([[1.0]])
    with tf.device("GPU:1"):
        y = tf.matmul(x, x)
    assert books()[3] == [(1, 256), (1, 256)]
    del x, y
    assert books() == EMPTY


def test_a_limit_holds_for_tensors(two_gpus: None) -> None:
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=1)])
    kept = [tf.constant(1.0, shape=[64 * 1024]) for _ in range(4)]
    with pytest.raises(
        MemoryError, match=r"OOM when allocating tensor with shape\[1\] and type float on .*GPU:0: .* out of memory"
    ):
        tf.constant([1.0])
    kept.pop()
    tf.constant([1.0])


# Other libraries.


@pytest.mark.parametrize("device", ["CPU:0", "GPU:1"])
def test_dlpack_shares_the_memory_and_keeps_it(two_gpus: None, device: str) -> None:
    with tf.device(device):
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    before = books()
    assert x.__dlpack_device__() == (1, 0)
    shared = np.from_dlpack(x)
    assert not shared.flags.writeable
    assert books() == before, "no copy was made"
    del x
    assert shared.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(RuntimeError, match="cannot reset"):
        tf.reset()
    del shared
    assert books() == EMPTY


def test_dlpack_of_the_older_protocol_and_copies(two_gpus: None) -> None:
    x = tf.constant([1.0, 2.0])

    class Old:
        def __dlpack__(self, **_: Any) -> Any:
            return x.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return x.__dlpack_device__()

    assert np.from_dlpack(Old()).tolist() == [1, 2]
    np.from_dlpack(x, copy=True)[0] = 9
    assert x.numpy().tolist() == [1, 2]
    for bad in ({"stream": 1}, {"dl_device": (2, 0)}, {"dl_device": (2, 0), "max_version": (1, 0)}):
        with pytest.raises((BufferError, ValueError)):
            x.__dlpack__(**bad)


def test_memory_that_is_no_real_gpus_has_no_cuda_array_interface(two_gpus: None) -> None:
    for device in ("CPU:0", "GPU:0"):
        with tf.device(device):
            assert not hasattr(tf.constant([1.0]), "__cuda_array_interface__")


# The log.


def test_the_log_is_todays(two_gpus: None, capsys: pytest.CaptureFixture[str]) -> None:
    tf.debugging.set_log_device_placement(True)
    a = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    b = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    with tf.device("GPU:1"):
        c = tf.matmul(a, b)
    print(c)
    assert capsys.readouterr() == (
        "gpuconf.Tensor(\n[[22. 28.]\n [49. 64.]], shape=(2, 2), dtype=float32)\n",
        2 * f"Executing op _EagerConst in device {GPU0}\n" + f"Executing op MatMul in device {GPU1}\n",
    )


def test_the_log_does_without_standard_error(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    tf.debugging.set_log_device_placement(True)
    monkeypatch.setattr("sys.stderr", None)
    assert tf.constant(1).numpy() == 1


# Resets, threads, children.


def test_a_reset_is_refused_while_tensors_are_held_and_names_them(two_gpus: None) -> None:
    with tf.device("CPU:0"):
        x = tf.constant([[1.0, 2.0]])
    with pytest.raises(RuntimeError, match=r"cannot reset") as caught:
        tf.reset()
    assert f"<gpuconf.Tensor: shape=(1, 2), dtype=float32, device={CPU0}>" in str(caught.value)
    with pytest.raises(RuntimeError, match="cannot change the simulation"):
        tf.simulate("T4")
    assert x.numpy().tolist() == [[1, 2]]
    kept = [tf.constant(1) for _ in range(20)]
    with pytest.raises(RuntimeError, match="and 11 more"):
        tf.reset()
    del x, kept
    tf.reset()
    assert tf.constant(1).numpy() == 1


def test_a_tensor_in_a_cycle_that_nobody_reaches_does_not_stop_a_reset(two_gpus: None) -> None:
    gc.disable()
    try:
        cycle: list[Any] = [tf.constant(1.0)]
        cycle.append(cycle)
        del cycle
        tf.reset()
    finally:
        gc.enable()


def test_a_number_of_another_runtime_is_no_tensor(two_gpus: None) -> None:
    x = tf.constant(1.0)
    number = x._receipt[0] >> 1
    del x
    tf.reset()
    tf.config.list_logical_devices()
    y = tf.constant(1.0)
    assert y._receipt[0] >> 1 != number or y.numpy() == 1
    with pytest.raises(ValueError, match="there is no tensor"):
        core.pybind_Execute("Identity", str(number + 1000), 0, "", "")


def test_without_numpy_the_error_names_the_extra_and_all_else_works() -> None:
    out = run_well("""
        import sys
        sys.modules["numpy"] = None
        import gpuconf as tf
        import gpuconf.compat.v1 as tf1
        tf.simulate("T4")
        tf.memory.allocate(1000).free()
        tf1.Session(config=tf1.ConfigProto(log_device_placement=False)).close()
        for call in (lambda: tf.constant(1), lambda: tf1.constant(1), lambda: tf.float32):
            try:
                call()
            except tf.errors.MissingPackageError as error:
                print(error)
        """)
    assert out.splitlines() == ["tensors and sessions need NumPy: pip install 'gpuconf[numpy]'"] * 3


def test_a_tensor_is_its_own_copy_and_pickles_its_elements(two_gpus: None) -> None:
    """A second owner of the same memory would release it under the first.

    A tensor is immutable, so it needs no copy.
    """
    tensor = tf.constant([[1.0, 2.0]])
    assert copy.copy(tensor) is tensor
    assert copy.deepcopy({"weights": [tensor]})["weights"][0] is tensor
    with tf.device("GPU:1"):
        again = pickle.loads(pickle.dumps(tensor))
    assert (again.device, again.dtype, again.numpy().tolist()) == (GPU1, np.dtype("float32"), [[1.0, 2.0]])
    del again
    assert tensor.numpy().tolist() == [[1.0, 2.0]]
    del tensor
    assert books() == EMPTY


def test_with_a_broken_numpy_the_error_says_what_failed(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('its library is missing')")
    out = run_well(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import gpuconf
        gpuconf.simulate("T4")
        try:
            gpuconf.constant(1)
        except gpuconf.errors.MissingPackageError as error:
            print(error)
        """)
    assert out == "tensors and sessions need NumPy (its library is missing): pip install 'gpuconf[numpy]'\n"
