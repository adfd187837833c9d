"""Scopes: the device for a thread's allocations."""

from __future__ import annotations

import sys
import threading
from typing import Any

import gpuconf as tf
import pytest

from .helpers import TOO_LATE_VISIBLE, L, gpus, initialize, refused

HERE = "/job:localhost/replica:0/task:0"


def test_at_first_there_is_no_scope(two_gpus: None) -> None:
    assert tf.current_scope() == ""
    initialize()
    assert tf.current_scope() == ""


def test_a_scope_initializes_at_the_call(two_gpus: None) -> None:
    tf.device(None)
    with refused(RuntimeError, TOO_LATE_VISIBLE):
        tf.config.set_visible_devices(gpus()[0], "GPU")


def test_case_132_the_number_comes_from_the_outer_scope_and_the_type_from_the_inner(two_gpus: None) -> None:
    with tf.device("GPU:1"):
        with tf.device("CPU"):
            assert tf.current_scope() == HERE + "/device:CPU:1"
        assert tf.current_scope() == HERE + "/device:GPU:1"
    assert tf.current_scope() == ""


def test_case_133_the_device_comes_from_the_outer_scope_and_the_job_from_the_inner(two_gpus: None) -> None:
    with tf.device("GPU:1"), tf.device("/job:worker"):
        assert tf.current_scope() == "/job:worker/replica:0/task:0/device:GPU:1"


def test_case_134_none_places_automatically_and_a_scope_inside_it_starts_again(two_gpus: None) -> None:
    with tf.device("GPU:1"):
        with tf.device(None):
            assert tf.current_scope() == ""
            with tf.device("GPU"):
                assert tf.current_scope() == HERE + "/device:GPU:0"
            assert tf.current_scope() == ""
        assert tf.current_scope() == HERE + "/device:GPU:1"


def test_case_135_the_empty_string_is_the_cpu_at_the_top_and_nothing_inside(two_gpus: None) -> None:
    with tf.device(""):
        assert tf.current_scope() == HERE + "/device:CPU:0"
    with tf.device("GPU:1"), tf.device(""):
        assert tf.current_scope() == HERE + "/device:GPU:1"


def test_a_star_takes_the_number_of_the_outer_scope(two_gpus: None) -> None:
    with tf.device("GPU:1"), tf.device("GPU:*"):
        assert tf.current_scope() == HERE + "/device:GPU:1"


def test_case_136_leaving_the_outer_scope_first_is_a_runtime_error(two_gpus: None) -> None:
    outer, inner = tf.device("GPU:0"), tf.device("GPU:1")
    outer.__enter__()
    inner.__enter__()
    with refused(tf.errors.FailedPreconditionError, "Exiting device scope without proper scope nesting"):
        outer.__exit__(None, None, None)
    assert tf.current_scope() == HERE + "/device:GPU:1"
    inner.__exit__(None, None, None)
    outer.__exit__(None, None, None)
    assert tf.current_scope() == ""


def test_leaving_a_scope_that_was_never_entered_is_an_error_and_changes_nothing(two_gpus: None) -> None:
    with tf.device("GPU:1"):
        with pytest.raises((RuntimeError, IndexError)):
            tf.device("GPU:1").__exit__(None, None, None)
        assert tf.current_scope() == HERE + "/device:GPU:1"


def test_case_137_an_exception_leaves_the_scope(two_gpus: None) -> None:
    with tf.device("GPU:1"):
        with pytest.raises(ZeroDivisionError), tf.device("GPU:0"):
            raise ZeroDivisionError
        assert tf.current_scope() == HERE + "/device:GPU:1"
    assert tf.current_scope() == ""


def test_case_138_a_bad_string_is_refused_on_entering(two_gpus: None) -> None:
    scope = tf.device("bogus")
    with tf.device("GPU:1"):
        with refused(
            tf.errors.InvalidArgumentError,
            "Unknown attribute 'bogus' is encountered while parsing the device spec: 'bogus'.",
        ):
            scope.__enter__()
        assert tf.current_scope() == HERE + "/device:GPU:1"


@pytest.mark.parametrize(
    "device",
    [
        pytest.param(3, id="case 139: an int"),
        pytest.param(0, id="case 139: 0"),
        pytest.param(1.5, id="case 139: a float"),
        pytest.param(b"GPU:0", id="case 139: bytes"),
        pytest.param(["GPU:0"], id="case 139: a list"),
        pytest.param({}, id="case 139: a dict"),
    ],
)
def test_what_is_no_string_is_refused_on_entering(two_gpus: None, device: Any) -> None:
    scope = tf.device(device)
    with refused(tf.errors.InvalidArgumentError, f"Expecting a string device name. Got {type(device)}({device})"):
        scope.__enter__()
    assert tf.current_scope() == ""


def test_case_139_a_physical_cpu_is_refused_on_entering(two_gpus: None) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    with (
        refused(tf.errors.InvalidArgumentError, "Expecting a string device name. Got <class 'gpuconf."),
        tf.device(cpu),
    ):
        pytest.fail("entered")


def test_case_139_a_function_is_refused_at_the_call(two_gpus: None) -> None:
    with refused(tf.errors.FailedPreconditionError, "tf.device does not support functions."):
        tf.device(lambda: 0)
    with refused(tf.errors.FailedPreconditionError, "tf.device does not support functions."):
        tf.device(str)
    tf.config.set_visible_devices(gpus()[0], "GPU")  # refused before anything was initialized


def test_case_140_a_logical_device_will_do(two_gpus: None) -> None:
    for device in tf.config.list_logical_devices():
        with tf.device(device):
            assert tf.current_scope() == HERE + device.name


def test_case_141_a_new_thread_has_no_scope(two_gpus: None) -> None:
    seen: list[str] = []

    def look() -> None:
        seen.append(tf.current_scope())
        with tf.device("GPU:0"):
            seen.append(tf.current_scope())

    with tf.device("GPU:1"):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert tf.current_scope() == HERE + "/device:GPU:1"
    assert seen == ["", HERE + "/device:GPU:0"]


def test_a_scope_may_be_entered_again_and_inside_itself(two_gpus: None) -> None:
    scope = tf.device("GPU:1")
    for _ in range(2):
        with scope:
            with tf.device("CPU:0"):
                with scope:
                    assert tf.current_scope() == HERE + "/device:GPU:1"
                assert tf.current_scope() == HERE + "/device:CPU:0"
            assert tf.current_scope() == HERE + "/device:GPU:1"
        assert tf.current_scope() == ""


def test_whether_the_device_is_there_is_not_looked_at_on_entering(one_gpu: None) -> None:
    for name in ("GPU:7", "CPU:3", "/device:XPU:0", "/job:worker", "GPU:-1"):
        with tf.device(name):
            assert tf.current_scope() != ""


def test_a_scope_says_where_allocations_go(two_gpus: None) -> None:
    tf.config.set_logical_device_configuration(gpus()[1], [L(10), L(20)])
    for number in range(3):
        with tf.device(f"GPU:{number}"), tf.memory.allocate(1) as buffer:
            assert buffer.device.name == f"/device:GPU:{number}"
    with tf.device("GPU:2"), tf.memory.allocate(1, "GPU:1") as buffer:
        assert buffer.device.name == "/device:GPU:1"
    with tf.device("CPU:0"), tf.memory.allocate(1) as buffer:
        assert buffer.device.name == "/device:GPU:0"
    with tf.device("GPU:2"), tf.device(None), tf.memory.allocate(1) as buffer:
        assert buffer.device.name == "/device:GPU:0"


def test_an_allocation_in_the_scope_of_a_gpu_that_is_not_there_is_a_value_error(one_gpu: None) -> None:
    with tf.device("GPU:7"):
        with pytest.raises(ValueError, match="scope names an unknown device") as caught:
            tf.memory.allocate(1)
        assert type(caught.value) is tf.errors.InvalidArgumentError


def test_a_scope_that_could_not_be_entered_is_none(one_gpu: None) -> None:
    with tf.device("GPU:0"):
        for argument in ("what:is:this", 5):
            with pytest.raises(ValueError, match=r"what:is:this|Expecting a string"):
                tf.device(argument).__enter__()
            assert tf.current_scope() == HERE + "/device:GPU:0"
    assert tf.current_scope() == ""


def test_a_scope_object_outlives_a_reset(two_gpus: None) -> None:
    scope = tf.device("GPU:1")
    tf.reset()
    with scope, tf.memory.allocate(1) as buffer:
        assert tf.current_scope() == HERE + "/device:GPU:1"
        assert buffer.device.name == "/device:GPU:1"
    assert tf.current_scope() == ""


def test_scopes_that_a_reset_crosses_are_left_without_complaint(two_gpus: None) -> None:
    with tf.device("GPU:1"), tf.device("CPU:0"):
        tf.reset()
        assert tf.current_scope() == ""
        with tf.device("GPU:0"):
            assert tf.current_scope() == HERE + "/device:GPU:0"
    assert tf.current_scope() == ""


def test_scopes_beside_resets_are_refused_or_work_and_always_can_be_left(two_gpus: None) -> None:
    done = threading.Event()
    failures: list[BaseException] = []
    entered: list[int] = []
    refusals: set[str] = set()

    def enter_and_leave() -> None:
        count = 0
        try:
            while not done.is_set():
                scopes = [tf.device(name) for name in ("GPU:1", "CPU:0")]
                try:
                    with scopes[0], scopes[1]:
                        count += 1
                except tf.errors.FailedPreconditionError as error:
                    refusals.add(str(error))
                assert tf.current_scope() == ""
        except BaseException as error:
            failures.append(error)
        entered.append(count)

    threads = [threading.Thread(target=enter_and_leave) for _ in range(3)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(3_000):
            tf.reset()
    finally:
        done.set()
        for thread in threads:
            thread.join(30)
        sys.setswitchinterval(before)
    assert failures == []
    assert [text for text in refusals if "nesting" in text] == []
    assert sum(entered) > 0
