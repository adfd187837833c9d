"""The parts of a session's run: feeds, targets, callables and the order of operations; and the errors."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from typing import TYPE_CHECKING, Any

import gpuconf
import gpuconf.compat.v1 as tf
import numpy as np
import pytest

if TYPE_CHECKING:
    pass

MIB = 1 << 20


def filled(mib: int, name: str) -> tf.Tensor:
    """A constant of this many MiB on GPU:0."""
    with tf.device("/gpu:0"):
        return tf.constant(1.0, shape=[mib * MIB // 4], name=name)


def taken(run: Any) -> list[int]:
    """The tensors for which a step allocates memory, in MiB, in order."""
    with gpuconf.memory.record() as recording:
        run()
    return [e.nbytes // MIB for e in recording.events if e.action == "allocate"]


def test_operations_wait_for_their_control_inputs(one_gpu: None) -> None:
    """They run although nothing reads them, and they run first."""
    first, unrelated = filled(1, "first"), filled(2, "unrelated")
    with tf.control_dependencies([first]):
        second = filled(3, "second")
    with tf.control_dependencies([second.op, "first"]):
        last = tf.identity(filled(4, "operand"), name="last")
    with tf.Session() as session:
        for run in (lambda: session.run(last), lambda: session.run(last.op), session.make_callable(last), last.op.run):
            assert taken(run) == [1, 3, 4]
        assert taken(lambda: session.run([unrelated.op, second.op])) == [1, 2, 3]
        assert taken(lambda: session.run(last, {second: np.zeros(second.shape)})) == [1, 4], (
            "what is fed waits for nothing"
        )
        assert gpuconf.memory.stats("GPU:0").bytes_in_use == 0


def test_a_tensor_that_nothing_reads_is_released_at_once(one_gpu: None) -> None:
    """So a hundred control inputs need no more memory than one."""
    tensors = [filled(8, f"t{i}") for i in range(100)]
    with tf.control_dependencies(tensors):
        last = tf.constant(1.0)
    with tf.Session() as session:
        session.run(last)
        assert gpuconf.memory.stats("GPU:0").peak_bytes_in_use < 32 * MIB


def test_control_dependencies_belong_to_their_thread(one_gpu: None) -> None:
    seen: list[Any] = []
    first = tf.constant(1.0)
    with tf.control_dependencies([first]):
        graph = tf.get_default_graph()
        thread = threading.Thread(
            target=lambda: seen.append(graph.constant(np.ones(1, np.float32), (1,), "").op.control_inputs)
        )
        thread.start()
        thread.join()
        assert tf.constant(2.0).op.control_inputs == [first.op]
    assert seen == [[]]


def test_a_block_that_is_left_out_of_order_can_still_be_left(one_gpu: None) -> None:
    x = tf.constant(1.0)
    outer, inner = tf.control_dependencies([x]), tf.control_dependencies(None)
    outer.__enter__()
    inner.__enter__()
    for _ in range(2):
        with pytest.raises(AssertionError, match="Nesting violated"):
            outer.__exit__(None, None, None)
    assert tf.constant(1.0).op.control_inputs == []
    inner.__exit__(None, None, None)
    assert tf.constant(1.0).op.control_inputs == [x.op]
    outer.__exit__(None, None, None)
    with pytest.raises(AssertionError, match="Nesting violated"):
        outer.__exit__(None, None, None)
    assert tf.constant(1.0).op.control_inputs == []


def test_a_target_stays_on_its_device(one_gpu: None) -> None:
    """Running an operation used to copy its result to the host, only to drop it."""
    x = filled(1, "x")
    with tf.Session() as session:
        from gpuconf._core.native import core

        step = f'{{"targets": [{x.op._number}]}}'
        assert core.pybind_RunSession(session._number, step) == "1 0 0", "one operation, no copy"
        assert session.run(x.op) is None


def test_feeds_go_through_devices(two_gpus: None) -> None:
    with tf.device("/gpu:0"):
        x = tf.constant([1.0, 2.0])
    with tf.device("/gpu:1"):
        y = x + x
    with tf.Session() as session:
        assert session.run(y, {x: [10, 20]}).tolist() == [20, 40]
        assert session.run([y, x], {y: [7, 8]})[0].tolist() == [7, 8]
        assert session.run(y + 1, {y: [7, 8]}).tolist() == [8, 9]
        with pytest.raises(TypeError, match="must be a string or Tensor"):
            session.run(gpuconf.constant(1.0), {x: [1, 2]})
        with pytest.raises(TypeError, match=r"cannot be a tf\.Tensor object"):
            session.run(y, {x: gpuconf.constant([1.0, 2.0])})
        for device in ("GPU:0", "GPU:1"):
            assert gpuconf.memory.stats(device).bytes_in_use == 0


def test_all_that_is_fed_runs_nothing(one_gpu: None) -> None:
    """As in TensorFlow, the graph is not even placed."""
    with tf.device("/gpu:9"):
        x = tf.constant(1.0)
    with tf.Session() as session:
        assert session.run(x, {x: 2}) == 2
        with pytest.raises(ValueError, match="Cannot assign a device"):
            session.run(x)


def test_callables_of_several_threads(one_gpu: None) -> None:
    x = tf.constant(0)
    wrong: list[Any] = []
    with tf.Session() as session:
        plus = session.make_callable(x + 1, [x])

        def work(number: int) -> None:
            wrong.extend(i for i in range(100) if plus(number * 1000 + i) != number * 1000 + i + 1)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_callable_keeps_its_session(one_gpu: None) -> None:
    x = tf.constant(3.0)
    session = tf.Session()
    call, gone = session.make_callable(x), weakref.ref(session)
    del session
    gc.collect()
    assert call() == 3
    del call
    gc.collect()
    assert gone() is None


def test_the_devices_of_a_session(two_gpus: None) -> None:
    gpus = gpuconf.config.list_physical_devices("GPU")
    configuration = gpuconf.config.LogicalDeviceConfiguration
    gpuconf.config.set_logical_device_configuration(gpus[0], [configuration(1024), configuration(512)])
    with tf.Session() as session:
        devices = session.list_devices()
        assert [(d.name, d.device_type, d.memory_limit_bytes) for d in devices[:3]] == [
            ("/job:localhost/replica:0/task:0/device:CPU:0", "CPU", 256 * MIB),
            ("/job:localhost/replica:0/task:0/device:GPU:0", "GPU", 1024 * MIB),
            ("/job:localhost/replica:0/task:0/device:GPU:1", "GPU", 512 * MIB),
        ]
        assert devices[3].memory_limit_bytes == gpuconf.memory.stats("GPU:2").bytes_limit
        assert repr(devices[0]) == f"_DeviceAttributes({devices[0].name}, CPU, {256 * MIB}, {devices[0].incarnation})"
        assert len({d.incarnation for d in devices}) == 4
        gpuconf.reset()
        with pytest.raises(RuntimeError, match="the runtime of this Session was reset"):
            session.list_devices()


def test_an_error_names_its_operation(one_gpu: None) -> None:
    """``error.op``, ``node_def`` and ``error_code``, as programs of TensorFlow read them."""
    gpu = gpuconf.config.list_physical_devices("GPU")[0]
    gpuconf.config.set_logical_device_configuration(gpu, [gpuconf.config.LogicalDeviceConfiguration(8)])
    small = tf.constant(1.0, shape=[1, 1])
    with tf.control_dependencies([small]):
        large = filled(16, "large")
    with tf.Session() as session:
        for run in (lambda: session.run(large), session.make_callable(large.op), lambda: large.op.run(session=session)):
            with pytest.raises(MemoryError, match="OOM when allocating tensor") as caught:
                run()
            error = caught.value
            assert isinstance(error, tf.OpError)
            assert error.error_code == tf.errors.RESOURCE_EXHAUSTED == 8
            assert error.op is large.op
            assert (error.node_def.name, error.node_def.op, error.node_def.input) == ("large", "Const", ["^Const"])
            assert error.message == str(error)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert (again.message, again.error_code, again.node_def, again.op) == (error.message, 8, error.node_def, None)
    with pytest.raises(MemoryError) as caught:
        gpuconf.memory.allocate(1 << 40)
    assert (caught.value.op, caught.value.node_def, caught.value.experimental_payloads) == (None, None, {})  # type: ignore[attr-defined]
