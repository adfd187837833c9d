"""``tf.compat.v1.train``: what threads beside a session use."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import gpuconf.compat.v1 as tf
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def graphs() -> Iterator[None]:
    """Build graphs, as programs with queues do."""
    tf.disable_v2_behavior()
    yield
    tf.reset_default_graph()
    tf.enable_v2_behavior()


def test_there_are_no_queues(one_gpu: None, caplog: pytest.LogCaptureFixture) -> None:
    with tf.Session() as session:
        assert tf.train.start_queue_runners(sess=session, coord=tf.train.Coordinator()) == []
        assert tf.train.start_queue_runners() == []
    assert "no queue runners" in caplog.text
    with pytest.raises(ValueError, match="Cannot start queue runners: No default session is registered"):
        tf.train.start_queue_runners()
    with pytest.raises(TypeError, match=r"sess must be a `tf\.Session` object"):
        tf.train.start_queue_runners(sess=3)
    tf.reset_default_graph()
    tf.enable_v2_behavior()
    with pytest.raises(RuntimeError, match="Queues are not compatible with eager execution"):
        tf.train.start_queue_runners()


def test_a_coordinator_stops_threads() -> None:
    coordinator = tf.train.Coordinator()
    assert not coordinator.should_stop()
    assert not coordinator.wait_for_stop(0.01)
    threads = [threading.Thread(target=coordinator.wait_for_stop) for _ in range(3)]
    for thread in threads:
        thread.start()
    coordinator.register_thread(threads[0])
    coordinator.request_stop()
    coordinator.join(threads)
    assert coordinator.should_stop()
    assert coordinator.joined
    assert not any(thread.is_alive() for thread in threads)
    coordinator.clear_stop()
    assert (coordinator.should_stop(), coordinator.joined) == (False, False)


def test_the_exception_of_a_thread_reaches_join() -> None:
    coordinator = tf.train.Coordinator()

    def fail() -> None:
        with coordinator.stop_on_exception():
            raise KeyError("it failed")

    thread = threading.Thread(target=fail)
    thread.start()
    with pytest.raises(KeyError, match="it failed"):
        coordinator.join([thread])
    coordinator.clear_stop()
    coordinator.request_stop(tf.errors.OutOfRangeError(None, None, "the end of the data"))
    coordinator.join()


def test_threads_that_do_not_stop_are_named() -> None:
    coordinator = tf.train.Coordinator()
    go = threading.Event()
    thread = threading.Thread(target=go.wait, name="stubborn", daemon=True)
    thread.start()
    coordinator.request_stop()
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="Coordinator stopped with threads still running: stubborn"):
        coordinator.join([thread], stop_grace_period_secs=0.1)
    assert time.monotonic() - begin < 60
    coordinator.join([thread], stop_grace_period_secs=0.1, ignore_live_threads=True)
    go.set()
