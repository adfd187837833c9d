"""Where eager operations run, and device scopes in graphs."""

from __future__ import annotations

import logging
from typing import Any

import gpuconf as tf
import gpuconf.compat.v1 as tf1
import pytest

from .helpers import TOO_LATE_VISIBLE, L, cpu, gpus, initialize, refused

HERE = "/job:localhost/replica:0/task:0"
CPU0, GPU0, GPU1 = (f"{HERE}/device:{name}" for name in ("CPU:0", "GPU:0", "GPU:1"))


@pytest.fixture(autouse=True)
def fresh_graph() -> None:
    """Start with an empty default graph."""
    tf1.reset_default_graph()


def one(device: str | None = None) -> tf.Tensor:
    """A matrix on a device."""
    if device is None:
        return tf.constant([[1.0]])
    with tf.device(device):
        return tf.constant([[1.0]])


def test_case_028_029_hidden_gpus_cant_be_asked_for(one_gpu: None) -> None:
    tf.config.set_soft_device_placement(False)
    tf.config.set_visible_devices(cpu())
    with (
        refused(
            tf.errors.InvalidArgumentError, f"Could not satisfy device specification '{GPU0}'. enable_soft_placement=0."
        ),
        tf.device("/device:GPU:0"),
    ):
        tf.constant(1.0)
    with refused(RuntimeError, TOO_LATE_VISIBLE):
        tf.config.set_visible_devices(gpus())
    tf.config.set_visible_devices(cpu())


@pytest.mark.parametrize(("machine", "soft"), [("one_gpu", GPU0), ("cpu_only", CPU0)])
def test_case_056_operations_run_on_logical_cpus(request: pytest.FixtureRequest, machine: str, soft: str) -> None:
    request.getfixturevalue(machine)
    tf.config.set_logical_device_configuration(cpu(), [L(), L()])
    for number in (0, 1):
        assert one(f"CPU:{number}").device == f"{HERE}/device:CPU:{number}"
    assert one("CPU:2").device == soft, "soft placement prefers a GPU, whatever was asked for"


def test_case_094_soft_placement_is_in_force_at_once(one_gpu: None) -> None:
    tf.config.set_soft_device_placement(False)
    with refused(tf.errors.InvalidArgumentError, "Could not satisfy device specification"):
        one("GPU:7")
    tf.config.set_soft_device_placement(True)
    assert one("GPU:7").device == GPU0
    tf.config.set_soft_device_placement(False)
    with refused(tf.errors.InvalidArgumentError, "Could not satisfy device specification"):
        one("GPU:7")


def test_case_095_the_placement_log_is_in_force_at_once(one_gpu: None, capsys: pytest.CaptureFixture[str]) -> None:
    x = one()
    tf.debugging.set_log_device_placement(True)
    tf.matmul(x, x)
    tf.debugging.set_log_device_placement(False)
    tf.matmul(x, x)
    assert capsys.readouterr() == ("", f"Executing op MatMul in device {GPU0}\n")


@pytest.mark.parametrize("policy", ["explicit", "silent_for_int32"])
@pytest.mark.parametrize("operation", [tf.matmul, tf.add])
def test_case_100_tensors_on_conflicting_devices(two_gpus: None, policy: str, operation: Any) -> None:
    tf.config.experimental.set_device_policy(policy)
    x, y = one("GPU:0"), one("GPU:1")
    op = {"matmul": "MatMul", "add": "AddV2"}[operation.__name__]
    text = (
        f"Tensors on conflicting devices: cannot compute {op} as input #1 was expected to be on {GPU0} but is "
        f"actually on {GPU1} "
        f"(operation running on {GPU0}) Tensors can be copied explicitly using: `with tf.device(device_name): x = "
        "tf.identity(x)` "
    )
    with refused(tf.errors.InvalidArgumentError, text), tf.device("GPU:0"):
        operation(x, y)
    with tf.device("GPU:0"):
        assert operation(x, tf.identity(y)).device == GPU0


def test_case_100_silent_for_int32_lets_int32_pass(one_gpu: None) -> None:
    with tf.device("CPU:0"):
        x, y = tf.constant([1]), tf.constant([1.0])
    tf.config.experimental.set_device_policy("silent_for_int32")
    with tf.device("GPU:0"):
        assert tf.add(x, x).numpy().tolist() == [2]
        with refused(
            tf.errors.InvalidArgumentError, "Tensors on conflicting devices: cannot compute AddV2 as input #0"
        ):
            tf.add(y, y)


@pytest.mark.parametrize("policy", ["silent", "warn", None])
def test_case_100_silent_and_warn_let_tensors_pass(
    two_gpus: None, policy: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    tf.config.experimental.set_device_policy(policy)
    x, y = one("GPU:0"), one("GPU:1")
    with tf.device("GPU:1"), caplog.at_level(logging.WARNING, "gpuconf"):
        assert tf.matmul(x, y).device == GPU1
    warned = [
        f"before computing MatMul input #0 was expected to be on {GPU1} but is actually on {GPU0} (operation running "
        f"on {GPU1}). "
        "This triggers a copy which can be a performance bottleneck."
    ]
    assert [record.message for record in caplog.records] == (warned if policy == "warn" else [])


def test_case_146_a_device_that_is_not_there(one_gpu: None) -> None:
    tf.config.set_soft_device_placement(False)
    text = (
        f"Could not satisfy device specification '{HERE}/device:GPU:99'. enable_soft_placement=0. Supported device "
        "types "
        f"[GPU, CPU]. All available devices [{GPU0}, {CPU0}]. [Op:MatMul] name: "
    )
    x = one()
    with refused(tf.errors.InvalidArgumentError, text), tf.device("GPU:99"):
        tf.matmul(x, x)
    tf.config.set_soft_device_placement(True)
    with tf.device("GPU:99"):
        assert tf.matmul(x, x).device == GPU0


def test_an_operations_name_is_in_its_error(one_gpu: None) -> None:
    with pytest.raises(ValueError, match=r" \[Op:MatMul\] name: product$"):
        tf.matmul([[1.0]], [[1.0], [2.0]], name="product")


def test_case_148_without_a_constraint_the_gpu_is_taken(two_gpus: None) -> None:
    x = one()
    assert x.device == tf.matmul(x, x).device == GPU0
    with tf.device(None):
        assert one().device == GPU0


@pytest.mark.parametrize("name", ["/job:123", "/replica:-1", "GPU:-1"])
def test_a_name_that_no_device_can_have_fails_when_an_operation_runs(one_gpu: None, name: str) -> None:
    x = one()
    with tf.device(name), refused(tf.errors.InvalidArgumentError, "Malformed device specification '"):
        tf.identity(x)


def test_a_constant_on_a_cpu_that_no_process_can_have_is_on_an_unknown_device(one_gpu: None) -> None:
    """Once reported as a malformed name.

    TensorFlow first creates the tensor, in the memory of CPU:0, then looks up its device.
    """
    for name, full in (("/job:123", "/job:123/replica:0/task:0"), ("/replica:-1", "/job:localhost/replica:-1/task:0")):
        with tf.device(name), refused(tf.errors.InvalidArgumentError, f"{full}/device:CPU:0 unknown device."):
            tf.constant(1.0)
    with tf.device("GPU:-1"), refused(tf.errors.InvalidArgumentError, "Malformed device specification '"):
        tf.constant(1.0)


def test_int32_of_a_gpu_is_in_host_memory(one_gpu: None) -> None:
    with tf.device("GPU:0"):
        x = tf.constant([1, 2])
    assert x.device == GPU0
    assert x.backing_device == CPU0
    assert tf.memory.stats("GPU:0").live_blocks == 0


def test_a_product_of_int32_is_the_cpus(one_gpu: None) -> None:
    assert tf.matmul([[2]], [[3]]).device == CPU0
    tf.config.set_soft_device_placement(False)
    with refused(tf.errors.InvalidArgumentError, "Could not satisfy device specification"), tf.device("GPU:0"):
        tf.matmul([[2]], [[3]])


# Scopes in graphs.


def always(answer: Any) -> Any:
    """A device function that always returns the same device."""
    return lambda _: answer


def device_in(*scopes: Any) -> str:
    """The device that an operation requests inside graph scopes."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(tf1.device(scope))
        return tf1.constant(1.0).device


@pytest.mark.parametrize(
    ("scopes", "device"),
    [
        pytest.param(["/device:GPU:7", "/device:GPU:*"], "/device:GPU:7", id="case 142: a star keeps the number"),
        pytest.param(["/device:CPU:*", "/device:CPU:5"], "/device:CPU:5", id="case 142: a number fills a star"),
        pytest.param(["/gpu:1", None], "", id="case 143: None ends all that is outside"),
        pytest.param([always("/gpu:1"), None], "", id="case 143: functions too"),
        pytest.param(["/gpu:1", None, "/cpu:0"], "/device:CPU:0", id="case 143: inside None it begins again"),
        pytest.param(
            [always("/gpu:3"), "/gpu:1"], "/device:GPU:3", id="case 144: a function overwrites what is inside"
        ),
        pytest.param([always("/gpu:3"), None, "/gpu:1"], "/device:GPU:1", id="case 144: but not inside None"),
        pytest.param(["/gpu:1", always("/gpu:3")], "/device:GPU:3", id="a function inside a string"),
        pytest.param(
            ["/job:worker", always("/gpu:3")],
            "/job:worker/device:GPU:3",
            id="a string fills what a function leaves open",
        ),
        pytest.param([always("/gpu:3"), always(None)], "/device:GPU:3", id="a function without an answer"),
        pytest.param(["/job:worker/replica:2", ""], "/job:worker/replica:2", id="nothing is filled in"),
        pytest.param(["/job:a/gpu:1", "/job:b"], "/job:b/device:GPU:1", id="field by field"),
        pytest.param([], "", id="no scope"),
    ],
)
def test_scopes_in_graphs(one_gpu: None, scopes: list[Any], device: str) -> None:
    assert device_in(*scopes) == device


def test_a_function_sees_the_operation_and_what_is_inside(one_gpu: None) -> None:
    seen: list[tuple[str, str, str, int]] = []

    def choose(op: Any) -> str:
        seen.append((op.type, op.name, op.device, len(op.inputs)))
        return "/gpu:0" if op.type == "MatMul" else "/cpu:0"

    with tf1.device(choose):
        a = tf1.constant([[1.0]], name="a")
        with tf1.device("/gpu:5"):
            product = tf1.matmul(a, a)
    assert seen == [("Const", "a", "", 0), ("MatMul", "MatMul", "/device:GPU:5", 2)]
    assert (a.device, product.device) == ("/device:CPU:0", "/device:GPU:0")


@pytest.mark.parametrize("outer", [None, always("")])
def test_a_string_that_does_not_parse_is_refused_on_entering_a_graphs_scope(one_gpu: None, outer: Any) -> None:
    with tf1.device(outer), refused(ValueError, "Unknown attribute 'bogus'"), tf1.device("bogus"):
        pytest.fail("entered")
    assert tf1.constant(1.0).device == ""


@pytest.mark.parametrize(("answer", "kind"), [("bogus", ValueError), (3, TypeError), ("GPU:\0", ValueError)])
def test_a_function_whose_answer_is_no_device(one_gpu: None, answer: Any, kind: type[Exception]) -> None:
    with tf1.device(always(answer)), pytest.raises(kind):
        tf1.constant(1.0)
    assert tf1.get_default_graph().get_operations() == []


def test_a_functions_own_error_comes_through(one_gpu: None) -> None:
    with tf1.device(lambda _: 1 / 0), pytest.raises(ZeroDivisionError):
        tf1.constant(1.0)


@pytest.mark.parametrize("argument", [3, b"/gpu:0", ["/gpu:0"]])
def test_what_is_no_device_is_refused_by_a_graph(one_gpu: None, argument: Any) -> None:
    with refused(TypeError, "device name must be a string"):
        tf1.device(argument)


def test_graph_scopes_belong_to_their_graph_and_thread(one_gpu: None) -> None:
    import threading

    seen: list[str] = []
    with tf1.device("/gpu:0"):
        with tf1.Graph().as_default():
            assert tf1.constant(1.0).device == ""
        thread = threading.Thread(target=lambda: seen.append(tf1.constant(1.0).device))
        thread.start()
        thread.join()
        assert tf1.constant(1.0).device == "/device:GPU:0"
    assert seen == [""]


def test_leaving_a_graphs_outer_scope_first_is_a_runtime_error(one_gpu: None) -> None:
    outer, inner = tf1.device("/gpu:0"), tf1.device("/gpu:1")
    outer.__enter__()
    inner.__enter__()
    with refused(RuntimeError, "Exiting device scope without proper scope nesting."):
        outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    outer.__exit__(None, None, None)


def test_eager_scopes_and_graph_scopes_are_apart(two_gpus: None) -> None:
    with tf.device("GPU:1"):
        assert tf1.constant(1.0).device == ""
    with tf1.device("/gpu:1"):
        assert one().device == GPU0


def test_a_logical_device_will_do_in_a_graph_too(two_gpus: None) -> None:
    with tf1.device(initialize()[2]):
        assert tf1.constant(1.0).device == "/device:GPU:1"
