"""``compat.v1.keras.backend``: the session that programs give to Keras."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import gpuconf
import gpuconf.compat.v1 as tf
import pytest
from gpuconf.compat.v1.keras import backend as K  # noqa: N812 - as everybody calls it

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Begin and end without a session."""
    K.clear_session()
    yield
    K.clear_session()


def test_the_idiom(two_gpus: None) -> None:
    config = tf.ConfigProto()
    config.gpu_options.allow_growth = True
    config.gpu_options.visible_device_list = "1"
    session = tf.Session(config=config)
    K.set_session(session)
    assert K.get_session() is session
    assert len(gpuconf.config.list_logical_devices("GPU")) == 1
    x = tf.constant(1.0)
    K.get_session().run(x)
    assert gpuconf.memory.stats().bytes_reserved == 2 << 20
    assert tf.keras.backend is K


def test_a_session_is_made_where_there_is_none(one_gpu: None) -> None:
    session = K.get_session()
    assert K.get_session() is session
    assert session.graph is tf.get_default_graph()
    with tf.device("/gpu:7"):
        x = tf.constant(3.0)
    assert session.run(x) == 3, "with soft placement"


def test_a_session_of_another_graph_is_replaced(one_gpu: None) -> None:
    first = K.get_session()
    tf.reset_default_graph()
    second = K.get_session()
    assert second is not first
    assert second.graph is tf.get_default_graph()
    x = tf.constant(1.0)
    assert K.get_session([x]) is K.get_session(x) is second


def test_the_default_session_comes_first(one_gpu: None) -> None:
    K.set_session(tf.Session())
    with tf.Session() as inner:
        assert K.get_session() is inner
    assert K.get_session() is not inner


def test_clear_session(one_gpu: None) -> None:
    session, graph = K.get_session(), tf.get_default_graph()
    K.clear_session()
    assert tf.get_default_graph() is not graph
    assert K.get_session() is not session
    with graph.as_default(), pytest.raises(AssertionError, match="to clear nested graphs"):
        K.clear_session()


def test_sessions_belong_to_threads(one_gpu: None) -> None:
    K.set_session(tf.Session())
    found = []
    thread = threading.Thread(target=lambda: found.append(K.get_session()))
    thread.start()
    thread.join()
    assert found[0] is not K.get_session()
