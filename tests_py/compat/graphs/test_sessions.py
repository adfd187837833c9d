"""Graphs and sessions, and the runtime that they share with everything else."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import threading
from collections import OrderedDict, namedtuple
from typing import TYPE_CHECKING, Any

import gpuconf
import gpuconf.compat.v1 as tf
import numpy as np
import pytest
from gpuconf._core.native import core

if TYPE_CHECKING:
    pass

MIB, GIB = 1 << 20, 1 << 30
H100 = 85_019_590_656  # as CUDA reports it


def gpu_options(**fields: Any) -> tf.ConfigProto:
    return tf.ConfigProto(gpu_options=tf.GPUOptions(**fields))


GROWS, QUARTER = gpu_options(allow_growth=True), gpu_options(per_process_gpu_memory_fraction=0.25)


def nothing_held() -> bool:
    """Whether operations hold no memory anywhere."""
    live = json.loads(core.pybind_LiveTensors())
    pools = [gpuconf.memory.stats(d).live_blocks for d in gpuconf.config.list_logical_devices("GPU")]
    return (live["tensors"], live["host_blocks"], live["host_bytes"], sum(pools)) == ([], 0, 0, 0)


# Fetches.

Pair = namedtuple("Pair", ["first", "second"])


def test_fetches_of_every_structure(two_gpus: None) -> None:
    a, b = tf.constant([1.0, 2.0], name="a"), tf.constant(3, name="b")
    c = tf.add(a, a, name="c")
    with tf.Session() as session:
        assert session.run(c).tolist() == [2, 4]
        assert session.run("c:0").tolist() == [2, 4]
        scalar = session.run(b)
        assert (scalar, type(scalar)) == (3, np.int32)
        assert [x.tolist() for x in session.run([a, c])] == [[1, 2], [2, 4]]
        assert [x.tolist() for x in session.run([a, a])] == [[1, 2], [1, 2]]
        assert session.run((b, [b, (b,)], {"x": b, "y": [b]})) == (3, [3, (3,)], {"x": 3, "y": [3]})
        assert session.run(Pair(b, "b:0")) == Pair(3, 3)
        kept = session.run(OrderedDict([("z", b), ("a", b)]))
        assert isinstance(kept, OrderedDict)
        assert list(kept) == ["z", "a"]
        assert session.run([]) == []
        assert session.run({}) == {}
        assert session.run(c.op) is None
        assert session.run(["c", b]) == [None, 3]
    assert nothing_held()


@pytest.mark.parametrize(
    ("fetch", "kind", "text"),
    [
        (None, TypeError, "Argument `fetch` = None has invalid type \"NoneType\". Cannot be None"),
        (3, TypeError, "Argument `fetch` = 3 has invalid type \"int\" must be a string or Tensor. (Can not convert a "
                       "int into"),
        ([["a:0", 3.5]], TypeError, "Argument `fetch` = 3.5 has invalid type \"float\""),
        ("nothing:0", ValueError, "Argument `fetch` = nothing:0 cannot be interpreted as a Tensor. (\"The name "
                                  "'nothing:0' refers "
         "to a Tensor which does not exist. The operation, 'nothing', does not exist in the graph.\")"),
        ("a:1", ValueError, "The operation, 'a', exists but only has 1 outputs.\")"),
        ("a:x", ValueError, "looks a like a Tensor name, but is not a valid one."),
        ("nothing", ValueError, "The name 'nothing' refers to an Operation not in the graph.\")"),
        ("", ValueError, "The name '' refers to an Operation not in the graph.\")"),
        (np.zeros(2), TypeError, "must be a string or Tensor."),
    ],
)  # fmt: skip
def test_what_cant_be_fetched(one_gpu: None, fetch: Any, kind: type[Exception], text: str) -> None:
    tf.constant(1.0, name="a")
    with tf.Session() as session, pytest.raises(kind) as caught:
        session.run(fetch)
    assert type(caught.value) is kind
    assert text in str(caught.value)
    assert nothing_held()


def test_a_tensor_of_another_graph_cant_be_fetched(one_gpu: None) -> None:
    with tf.Graph().as_default():
        foreign = tf.constant(1.0, name="foreign")
    own = tf.constant(2.0)
    with tf.Session() as session:
        with pytest.raises(ValueError, match="is not an element of this graph"):
            session.run(foreign)
        with pytest.raises(ValueError, match="must be from the same graph as"):
            tf.add(own, foreign)
        with pytest.raises(TypeError, match="must be a string or Tensor"):
            session.run(gpuconf.constant(1.0))
        assert session.run(own) == 2


def test_what_a_session_has_not(one_gpu: None) -> None:
    x = tf.constant(1.0)
    with tf.Session() as session:
        for call in (session.run, session.make_callable(x, [x]), session.make_callable(x, accept_options=True)):
            arguments = [x] if call == session.run else []
            for name in ("options", "run_metadata"):
                kind, text = {
                    "options": (TypeError, "options must be a tf.RunOptions"),
                    "run_metadata": (NotImplementedError, "run_metadata is not supported"),
                }[name]
                with pytest.raises(kind, match=text):
                    call(*arguments, **{name: object()})
            options = tf.RunOptions(report_tensor_allocations_upon_oom=True)
            if call != session.make_callable(x, [x]):
                call(*arguments, options=options)
    with pytest.raises(NotImplementedError, match="sessions in this process only"):
        tf.Session("grpc://localhost:2222")


def test_a_session_that_was_not_entered_cant_be_left(one_gpu: None) -> None:
    with pytest.raises(RuntimeError, match="this Session is not in a `with` block"):
        tf.Session().__exit__(None, None, None)


def test_an_empty_graph_has_nothing_to_run(one_gpu: None) -> None:
    with tf.Session() as session, pytest.raises(RuntimeError, match=r"^The Session graph is empty"):
        session.run([])


# Lifetime.


def test_a_closed_session(one_gpu: None) -> None:
    x = tf.constant(1.0)
    session = tf.Session()
    assert session.run(x) == 1
    session.close()
    session.close()
    with session, pytest.raises(RuntimeError, match=r"^Attempted to use a closed Session\.$"):
        session.run(x)
    for call in (session.list_devices, lambda: session.make_callable(x)):
        with pytest.raises(gpuconf.errors.CancelledError, match=r"^Session has been closed\.$"):
            call()


def test_a_graph_outlives_its_session_and_a_reset(one_gpu: None) -> None:
    x = tf.constant([1.0, 2.0])
    with tf.Session() as first:
        first.run(x)
    y = x + x
    with tf.Session() as second:
        assert second.run(y).tolist() == [2, 4]
        gpuconf.reset()
        with pytest.raises(RuntimeError, match=r"the runtime of this Session was reset\. Open a new one"):
            second.run(y)
    with tf.Session() as third:
        assert third.run(y + 1).tolist() == [3, 5]


def test_operations_may_be_added_between_runs(one_gpu: None, capsys: pytest.CaptureFixture[str]) -> None:
    x = tf.constant(1.0, name="x")
    session = tf.Session(config=tf.ConfigProto(log_device_placement=True))
    assert "x: " not in capsys.readouterr().err
    session.run(x)
    assert capsys.readouterr().err == "x: /job:localhost/replica:0/task:0/gpu:0\n"
    y = tf.identity(x, name="y")
    assert session.run(y) == 1
    assert capsys.readouterr().err == "y: /job:localhost/replica:0/task:0/gpu:0\n"
    session.run([x, y])
    assert capsys.readouterr().err == ""


def test_sessions_and_graphs_that_are_dropped_leave_nothing(one_gpu: None) -> None:
    for _ in range(3):
        with tf.Graph().as_default():
            tf.Session().run(tf.constant(1.0))
    gc.collect()
    tf.Session()
    assert nothing_held()


def test_default_graphs_and_sessions(one_gpu: None) -> None:
    outer = tf.get_default_graph()
    assert tf.get_default_graph() is outer
    assert tf.get_default_session() is None
    x = tf.constant(1.0)
    with pytest.raises(ValueError, match="No default session is registered"):
        x.eval()
    inner = tf.Graph()
    with inner.as_default() as entered:
        assert tf.get_default_graph() is entered is inner
        with pytest.raises(AssertionError, match="to clear nested graphs"):
            tf.reset_default_graph()
        with tf.Session(graph=outer) as session:
            assert tf.get_default_graph() is outer
            assert tf.get_default_session() is session
            assert x.eval() == 1
            x.op.run()
        assert tf.get_default_graph() is inner
    assert tf.get_default_graph() is outer
    tf.reset_default_graph()
    assert tf.get_default_graph() is not outer
    with tf.Session(graph=outer).as_default() as session:
        assert x.eval() == 1
    assert session.run(x) == 1, "as_default does not close"
    a, b = tf.Graph().as_default(), tf.Graph().as_default()
    a.__enter__()
    b.__enter__()
    with pytest.raises(
        AssertionError, match=r"^Nesting violated for default stack of <class .*Graph.> objects$"
    ) as caught:
        a.__exit__(None, None, None)
    assert type(caught.value) is AssertionError
    b.__exit__(None, None, None)
    a.__exit__(None, None, None)


def test_names(one_gpu: None) -> None:
    made = [
        tf.constant(1.0),
        tf.constant(1.0),
        tf.constant(1.0, name="a"),
        tf.constant(1.0, name="A"),
        tf.add_n([1.0]),
        tf.add(1.0, 2.0),
    ]
    assert [t.name for t in made] == ["Const:0", "Const_1:0", "a:0", "A_1:0", "AddN:0", "Add:0"]
    graph = tf.get_default_graph()
    assert [op.name for op in graph.get_operations()] == [
        "Const",
        "Const_1",
        "a",
        "A_1",
        "Const_2",
        "AddN",
        "Add/x",
        "Add/y",
        "Add",
    ]
    assert graph.get_tensor_by_name("a:0") is made[2]
    assert graph.get_operation_by_name("AddN").type == "AddN"
    assert graph.get_operation_by_name("Add").inputs[1].name == "Add/y:0"
    for call in (lambda: graph.get_tensor_by_name("a"), lambda: graph.get_operation_by_name("a:0")):
        with pytest.raises(ValueError, match="'a"):
            call()
    with pytest.raises(KeyError):
        graph.get_tensor_by_name("b:0")
    assert tf.constant(1.0, name=b"of bytes".replace(b" ", b"_")).name == "of_bytes:0"
    with pytest.raises(ValueError, match="can't decode byte"):
        tf.constant(1.0, name=b"\xff")
    with pytest.raises(ValueError, match="can't decode byte"):
        graph.as_graph_element(b"\xff")
    for bad in ("_a", "a b", "é", "a:0"):
        with pytest.raises(ValueError, match="is not a valid node name"):
            tf.constant(1.0, name=bad)
    with pytest.raises(TypeError, match="name must be a string"):
        tf.constant(1.0, name=3)  # type: ignore[arg-type]
    assert len(graph.get_operations()) == 10


def test_a_tensor_of_a_graph(one_gpu: None) -> None:
    x = tf.constant([[1.0, 2.0]], name="x")
    assert str(x) == 'Tensor("x:0", shape=(1, 2), dtype=float32)'
    assert repr(x) == "<tf.Tensor 'x:0' shape=(1, 2) dtype=float32>"
    assert (x.dtype, x.shape, x.get_shape(), x.device, x.value_index) == (np.float32, (1, 2), (1, 2), "", 0)
    assert x.graph is x.op.graph is tf.get_default_graph()
    assert repr(x.op) == "<tf.Operation 'x' type=Const>"
    for call in (lambda: bool(x), lambda: list(x), lambda: iter(x)):
        with pytest.raises(TypeError, match="it in a Session") as caught:
            call()
        assert isinstance(caught.value, gpuconf.errors.OperatorNotAllowedInGraphError)
    with pytest.raises(NotImplementedError, match=r"^Cannot convert a symbolic tf\.Tensor \(x:0\) to a numpy array"):
        np.asarray(x)
    with tf.Session() as session:
        assert session.run([x + 1, 1 + x, x + x, np.float32([[5.0, 5.0]]) + x])[3].tolist() == [[6, 7]]
        assert session.run(x @ [[1.0], [1.0]]).tolist() == [[3]]
        assert session.run([[1.0], [1.0]] @ x).tolist() == [[1, 2], [1, 2]]
        assert session.run(gpuconf.constant([[1.0, 1.0]]) + x).tolist() == [[2, 3]], (
            "an eager tensor becomes a constant"
        )
    del session


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: tf.matmul([1.0], [[1.0]]), ValueError, "Shape must be rank 2 but is rank 1 for 'MatMul' (op: "
                                                        "'MatMul') with "
         "input shapes: [1], [1,1]."),
        (lambda: tf.matmul([[1.0]], [[1.0], [1.0]]), ValueError, "Dimensions must be equal, but are 1 and 2 for "
                                                                 "'MatMul'"),
        (lambda: tf.matmul(tf.constant([[1]]), tf.constant([[1.0]])), TypeError, "Input 'b' of 'MatMul' Op has type "
         "float32 that does not match type int32 of argument 'a'."),
        (lambda: tf.add([1.0, 2.0], [1.0, 2.0, 3.0]), ValueError,
         "Dimensions must be equal, but are 2 and 3 for 'Add'"),
        (lambda: tf.add_n([tf.constant(1), tf.constant(1.0)]), TypeError, "Tensors in list passed to 'inputs' of "
                                                                          "'AddN' Op have "
         "types [int32, float32] that don't all match."),
        (lambda: tf.add_n([[1.0], [1.0, 2.0]]), ValueError, "Dimension 0 in both shapes must be equal, but are 1 and "
                                                            "2."),
        (lambda: tf.add_n([]), ValueError, "Inputs must be an iterable"),
        (lambda: tf.constant([1.0, 2.0, 3.0], shape=[2]), ValueError, "Too many elements provided. Needed at most 2, "
                                                                      "but "
         "received 3"),
        (lambda: tf.constant([1.0], shape=[2], verify_shape=True), TypeError, "Expected Tensor's shape: (2,), got "
                                                                              "(1,)."),
        (lambda: tf.constant([], shape=[2]), ValueError, "Too few elements provided."),
    ],
)  # fmt: skip
def test_what_does_not_go_together_adds_nothing_wrong(
    one_gpu: None, call: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert text in str(caught.value)
    assert [op for op in tf.get_default_graph().get_operations() if op.type != "Const"] == []


def test_a_constant_repeats_its_last_element(one_gpu: None) -> None:
    with tf.Session() as session:
        assert session.run(tf.constant([1.0, 2.0], shape=[2, 2])).tolist() == [[1, 2], [2, 2]]


def test_results_are_numpys_own(one_gpu: None) -> None:
    x = tf.constant([1.0, 2.0])
    with tf.Session() as session:
        session.run(x)[0] = 9
        assert session.run(x).tolist() == [1, 2]


def test_nan_empty_and_every_type(two_gpus: None) -> None:
    with tf.Session() as session:
        for dtype in ("float32", "float64", "int32"):
            made = session.run(
                [tf.constant([1, 2], dtype), tf.constant(np.zeros((0, 3), dtype)), tf.constant(5, dtype)]
            )
            assert [x.dtype for x in made] == [np.dtype(dtype)] * 3
            assert [x.shape for x in made] == [(2,), (0, 3), ()]
        assert np.isnan(session.run(tf.matmul([[float("nan")]], [[0.0]]))).all()
    assert nothing_held()


def test_a_run_that_does_not_fit_leaves_nothing(one_gpu: None) -> None:
    x = tf.constant(1.0, shape=[1 << 20])
    y = x + x
    with tf.Session(config=gpu_options(per_process_gpu_memory_fraction=4 * MIB / H100)) as session:
        with pytest.raises(MemoryError, match=r"(?s)OOM when allocating tensor.* out of memory.*\[\[Node: add = Add"):
            session.run(y)
        assert nothing_held()
        assert session.run(x)[0] == 1
    assert nothing_held()


def test_soft_placement_of_a_session_is_its_own(one_gpu: None) -> None:
    with tf.device("/gpu:7"):
        x = tf.constant(1.0)
    gpuconf.config.set_soft_device_placement(True)
    with (
        tf.Session(config=tf.ConfigProto()) as session,
        pytest.raises(ValueError, match="Cannot assign a device to node 'Const'"),
    ):
        session.run(x)
    with tf.Session() as session:
        assert session.run(x) == 1, "without a ConfigProto the configuration says"
    gpuconf.config.set_soft_device_placement(None)
    with tf.Session() as session, pytest.raises(ValueError, match="Cannot assign a device to node 'Const'"):
        session.run(x)


def test_the_log_of_a_session_without_a_config_is_the_configurations(
    cpu_only: None, capsys: pytest.CaptureFixture[str]
) -> None:
    gpuconf.debugging.set_log_device_placement(True)
    with tf.Session() as session:
        session.run(tf.constant(1.0))
    assert (
        capsys.readouterr().err == "Device mapping: no known devices.\nConst: /job:localhost/replica:0/task:0/cpu:0\n"
    )


@pytest.fixture
def cpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a CPU only."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    gpuconf.simulate("T4")


def test_an_error_that_configuration_deserves_comes_from_the_session(two_gpus: None) -> None:
    gpuconf.config.experimental.set_memory_growth(gpuconf.config.list_physical_devices("GPU")[0], True)
    with pytest.raises(ValueError, match="Memory growth cannot differ between GPU devices"):
        tf.Session()


# One runtime.


def test_the_first_session_sets_the_gpus_up_and_a_later_call_initializes_the_runtime(one_gpu: None) -> None:
    tf.Session(config=QUARTER)
    assert gpuconf.memory.stats("GPU:0").bytes_limit == H100 // 4
    with pytest.raises(RuntimeError, match=r"the runtime was initialized by .*test_sessions\.py:\d+ \(memory\.stats\)"):
        gpuconf.config.set_visible_devices([], "GPU")


@pytest.mark.parametrize(
    "later", [None, tf.ConfigProto(), QUARTER, gpu_options(per_process_gpu_memory_fraction=0.25, allocator_type="BFC")]
)
def test_a_later_session_with_no_or_the_same_options_joins(one_gpu: None, later: tf.ConfigProto | None) -> None:
    tf.Session(config=QUARTER)
    with gpuconf.memory.allocate(1000, "GPU:0"), tf.Session(config=later) as session:
        assert session.run(tf.constant(1.0)) == 1
        assert gpuconf.memory.stats("GPU:0").live_blocks == 1
        assert gpuconf.memory.stats("GPU:0").bytes_limit == H100 // 4


def test_a_session_joins_what_the_configuration_set_up(one_gpu: None) -> None:
    gpuconf.config.experimental.set_memory_growth(gpuconf.config.list_physical_devices("GPU")[0], True)
    with gpuconf.memory.allocate(1, "GPU:0"):
        tf.Session(config=GROWS)


def test_other_options_set_empty_gpus_up_anew(one_gpu: None) -> None:
    first = tf.Session()
    first.run(tf.constant(1.0))
    assert gpuconf.memory.stats("GPU:0").bytes_reserved > 70 * GIB
    tf.Session(config=GROWS).run(tf.constant(1.0))
    assert gpuconf.memory.stats("GPU:0").bytes_reserved <= 2 * MIB
    tf.Session(config=QUARTER)
    assert gpuconf.memory.stats("GPU:0").bytes_limit == H100 // 4
    assert first.run(tf.constant(2.0)) == 2, "earlier sessions go on"


def test_other_options_are_refused_while_memory_is_in_use(one_gpu: None) -> None:
    tf.Session(config=GROWS)
    with gpuconf.device("GPU:0"):
        tensor = gpuconf.constant([1.0])
    with pytest.raises(RuntimeError) as caught:
        tf.Session(config=QUARTER)
    assert type(caught.value) is gpuconf.errors.FailedPreconditionError
    assert "this session's GPU options differ from those in force" in str(caught.value)
    assert "test_sessions.py:" in str(caught.value)
    assert "(Session)" in str(caught.value)
    assert "1 block on GPU:0" in str(caught.value)
    assert gpuconf.memory.stats("GPU:0").bytes_limit > 70 * GIB
    del tensor
    tf.Session(config=QUARTER)


def test_other_gpus_make_other_logical_devices(two_gpus: None) -> None:
    assert len(gpuconf.config.list_logical_devices("GPU")) == 2
    x = gpuconf.constant([1.0])
    del x
    with gpuconf.device("CPU:0"):
        held = gpuconf.constant([1.0])
    with pytest.raises(RuntimeError, match=r"GPU options differ[\s\S]*<gpuconf.Tensor: shape=\(1,\), dtype=float32"):
        tf.Session(config=gpu_options(visible_device_list="1"))
    del held
    session = tf.Session(config=gpu_options(visible_device_list="1"))
    assert [d.name for d in gpuconf.config.list_logical_devices()] == ["/device:CPU:0", "/device:GPU:0"]
    assert session.run(tf.constant(1.0)) == 1
    assert gpuconf.constant(1.0).device.endswith("GPU:0")
    with pytest.raises(ValueError, match="GPU:1"):
        gpuconf.memory.allocate(1, "GPU:1")


def test_the_number_of_devices_is_each_sessions_own(two_gpus: None, capsys: pytest.CaptureFixture[str]) -> None:
    x = tf.constant(1.0)
    for count, mapped in (({"GPU": 0}, 0), ({"GPU": 1}, 1), ({"GPU": 9}, 2), ({"CPU": 3}, 2), ({"TPU": 1}, 2)):
        with tf.Session(config=tf.ConfigProto(device_count=count, log_device_placement=True)) as session:
            assert session.run(x) == 1
        lines = capsys.readouterr().err.splitlines()
        assert sum(" -> device: " in line for line in lines) == mapped
        assert lines[-1].endswith("/cpu:0" if mapped == 0 else "/gpu:0")
    assert len(gpuconf.config.list_logical_devices("GPU")) == 2
    with tf.device("/cpu:2"):
        y = tf.identity(x)
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 3})) as session:
        assert session.run(y) == 1
    with tf.Session(config=tf.ConfigProto()) as session, pytest.raises(ValueError, match="'/cpu:2'"):
        session.run(y)
    with pytest.raises(LookupError, match="No CPU devices are available in this process"):
        tf.Session(config=tf.ConfigProto(device_count={"CPU": 0}))


def test_what_sessions_eager_operations_and_buffers_use_is_one_pool(one_gpu: None) -> None:
    tf.Session(config=gpu_options(per_process_gpu_memory_fraction=MIB / H100))
    buffer = gpuconf.memory.allocate(512 * 1024, "GPU:0")
    tensor = gpuconf.constant(1.0, shape=[64 * 1024])
    x = tf.constant(1.0, shape=[128 * 1024])
    with tf.Session() as session, pytest.raises(MemoryError, match=" out of memory"):
        session.run(x)
    buffer.free()
    with tf.Session() as session:
        assert session.run(x)[0] == 1
    del tensor


# Threads.


def test_threads_build_and_run_one_graph(two_gpus: None) -> None:
    session = tf.Session()
    graph = tf.get_default_graph()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(25):
                with graph.as_default(), tf.device(f"/gpu:{number % 2}"):
                    x = tf.constant([float(number)])
                    y = x + x
                assert session.run(y).tolist() == [2 * number]
                assert session.run(y.name).tolist() == [2 * number]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(graph.get_operations()) == 6 * 25 * 2
    assert len({op.name for op in graph.get_operations()}) == 300
    assert nothing_held()


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_graphs_and_sessions_can_not_be_copied(way: Any) -> None:
    """A shallow copy dropped the graph, or closed the session, because it was a second handle of it."""
    gpuconf.simulate("T4")
    with tf.Graph().as_default() as graph, tf.Session() as session:
        a = tf.constant(1.0)
        for owner in (graph, session):
            with pytest.raises(TypeError, match="cannot be copied or pickled: create it in the process that uses it"):
                way(owner)
        assert session.run(a) == 1.0


def test_only_what_runs_is_placed(cpu_only: None) -> None:
    """``graph_options.place_pruned_graph``, and interactive sessions."""
    with tf.device("/device:GPU:0"):
        a = tf.constant(1.0, name="a")
    b = tf.constant(2.0, name="b") + 1.0
    pruned = tf.ConfigProto(log_device_placement=True)
    pruned.graph_options.place_pruned_graph = True
    with tf.Session() as whole, pytest.raises(ValueError, match="Cannot assign a device to node 'a'"):
        whole.run(b)
    with tf.Session(config=pruned) as session:
        assert session.run(b) == 3
        assert session.run(a + b, feed_dict={a: 5.0}) == 8
        with pytest.raises(ValueError, match="Cannot assign a device to node 'a'"):
            session.run(a)
        assert session.run([b, b + b]) == [3, 6]
    session = tf.InteractiveSession()
    try:
        assert b.eval() == 3
        with pytest.raises(ValueError, match="Cannot assign a device to node 'a'"):
            a.eval()
    finally:
        session.close()


def test_a_pruned_placement_is_logged_once(one_gpu: None, capsys: pytest.CaptureFixture[str]) -> None:
    a = tf.constant([[1.0]], name="a")
    tf.constant(2.0, name="unused")
    c = tf.matmul(a, a, name="c")
    config = tf.ConfigProto(log_device_placement=True)
    config.graph_options.place_pruned_graph = True
    with tf.Session(config=config) as session:
        session.run(c)
        session.run(a)
        session.run([a, c])
    lines = [
        line.split(":")[0] for line in capsys.readouterr().err.splitlines() if "/gpu:0" in line and "->" not in line
    ]
    assert sorted(lines) == ["a", "c"]


def test_an_interactive_session_does_not_change_its_configuration(one_gpu: None) -> None:
    config = tf.ConfigProto()
    tf.InteractiveSession(config=config).close()
    assert config == tf.ConfigProto()
