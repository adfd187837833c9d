"""InteractiveSession as notebooks and scripts use it; the recorded sessions of TensorFlow show its nesting."""

from __future__ import annotations

import gc
import logging
import threading
from typing import TYPE_CHECKING

import gpuconf
import gpuconf.compat.v1 as tf
import pytest

if TYPE_CHECKING:
    pass

ALREADY = "An interactive session is already active."


def test_memory_grows_unless_a_config_says_otherwise(one_gpu: None) -> None:
    session = tf.InteractiveSession()
    tf.constant(1.0).eval()
    assert gpuconf.memory.stats().bytes_reserved == 2 << 20
    session.close()
    session = tf.InteractiveSession(
        config=tf.ConfigProto(gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=0.25))
    )
    assert gpuconf.memory.stats().bytes_limit == 85_019_590_656 // 4
    session.close()


def test_devices_in_use_stay_as_they_are(one_gpu: None) -> None:
    """The default options, memory growth, were an error when eager tensors were alive."""
    x = gpuconf.constant([1.0, 2.0])
    limit = gpuconf.memory.stats().bytes_reserved
    session = tf.InteractiveSession()
    assert tf.constant(1.0).eval() == 1
    assert gpuconf.memory.stats().bytes_reserved == limit
    session.close()
    assert x.numpy().tolist() == [1.0, 2.0]


def test_a_second_session_logs_tensorflows_warning(one_gpu: None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        first = tf.InteractiveSession()
        assert caplog.records == []
        second = tf.InteractiveSession()
        (record,) = caplog.records
        assert (record.name, record.levelname) == ("tensorflow", "ERROR")
        assert record.getMessage().startswith(ALREADY)
        second.close()
        first.close()
        caplog.clear()
        tf.InteractiveSession().close()
        assert caplog.records == []


def test_the_warning_respects_the_level_of_the_logger(one_gpu: None, caplog: pytest.LogCaptureFixture) -> None:
    before = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.FATAL)
    try:
        first, second = tf.InteractiveSession(), tf.InteractiveSession()
        assert caplog.records == []
        second.close()
        first.close()
    finally:
        tf.get_logger().setLevel(before)


def test_sessions_that_are_closed_out_of_order_stay_open(one_gpu: None) -> None:
    """TensorFlow closes such a session, and the thread keeps the closed one as its default session."""
    first, second = tf.InteractiveSession(), tf.InteractiveSession()
    x = tf.constant(3.0)
    with pytest.raises(
        AssertionError, match=r"^Nesting violated for default stack of <class .*InteractiveSession'> objects$"
    ):
        first.close()
    assert (first.run(x), x.eval()) == (3, 3)
    second.close()
    assert tf.get_default_session() is first
    first.close()
    assert tf.get_default_session() is None


def test_a_thread_that_ends_takes_its_session_along(one_gpu: None, caplog: pytest.LogCaptureFixture) -> None:
    def work() -> None:
        tf.InteractiveSession()
        assert tf.constant(1.0).eval() == 1

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        gc.collect()
    tf.InteractiveSession().close()
    assert [record for record in caplog.records if record.getMessage().startswith(ALREADY)] == []


def test_a_session_that_was_refused_counts_for_nothing(one_gpu: None, caplog: pytest.LogCaptureFixture) -> None:
    for arguments in ({"graph": 3}, {"config": 3}, {"target": 37}):
        with pytest.raises(TypeError):
            tf.InteractiveSession(**arguments)  # type: ignore[arg-type]
    assert tf.get_default_session() is None
    tf.InteractiveSession().close()
    assert caplog.records == []


def test_a_notebook_that_runs_its_first_cell_again(one_gpu: None) -> None:
    for _ in range(3):
        tf.reset_default_graph()
        session = tf.InteractiveSession()
        x = tf.placeholder(tf.float32, [None])
        assert (x + x).eval({x: [1.0, 2.0]}).tolist() == [2.0, 4.0]
        assert session.graph is tf.get_default_graph()
        session.close()
    gpuconf.reset()
