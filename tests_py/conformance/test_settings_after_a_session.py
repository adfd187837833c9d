"""Settings after a session of TensorFlow 1, or after a function that looks for GPUs as a session does.

As in TensorFlow, neither initializes the runtime: every setting is accepted, and in effect from initialization on.
Once, all were refused, with a message that blamed a session, even if the program had only called
``tf.test.is_gpu_available()``.
"""

from __future__ import annotations

from typing import Any

import gpuconf as tf
import gpuconf.compat.v1 as tf1
import pytest
from gpuconf.compat.v2.python.client import device_lib

from .helpers import (
    FIRST_REGION,
    GROWTH_DIFFERS,
    TOO_LATE_GROWTH,
    TOO_LATE_LOGICAL,
    TOO_LATE_VISIBLE,
    L,
    gpus,
    initialize,
    limits,
    logical_names,
    refused,
    reserved_by_first_allocation,
)

growth = tf.config.experimental.set_memory_growth


def session(**options: Any) -> None:
    """Open and close a session with these GPU options."""
    tf1.Session(config=tf1.ConfigProto(gpu_options=tf1.GPUOptions(**options)), graph=tf1.Graph()).close()


CHECKS = {
    "is_gpu_available": lambda: tf.test.is_gpu_available(),
    "gpu_device_name": lambda: tf.test.gpu_device_name(),
    "list_local_devices": lambda: device_lib.list_local_devices(),
    "a session": lambda: session(),
    "a session with growth": lambda: session(allow_growth=True),
    "a session with a fraction": lambda: session(per_process_gpu_memory_fraction=0.5),
    "a session that sees one GPU": lambda: session(visible_device_list="1"),
}


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("check", CHECKS.values(), ids=list(CHECKS))
class TestAfterACheck:
    def test_growth_is_in_effect(self, check: Any) -> None:
        check()
        for gpu in gpus():
            growth(gpu, True)
            assert tf.config.experimental.get_memory_growth(gpu) is True
        assert logical_names("GPU") == ["/device:GPU:0", "/device:GPU:1"]
        assert reserved_by_first_allocation() == FIRST_REGION

    def test_hidden_gpus_stay_hidden(self, check: Any) -> None:
        check()
        tf.config.set_visible_devices(gpus()[0], "GPU")
        assert tf.config.get_visible_devices("GPU") == gpus()[:1]
        assert logical_names("GPU") == ["/device:GPU:0"]

    def test_all_gpus_can_be_hidden(self, check: Any) -> None:
        check()
        tf.config.set_visible_devices([], "GPU")
        assert logical_names() == ["/device:CPU:0"]

    def test_limits_are_in_effect(self, check: Any) -> None:
        check()
        tf.config.set_logical_device_configuration(gpus()[0], [L(10), L(20)])
        tf.config.set_logical_device_configuration(gpus()[1], [L(30)])
        assert limits() == [10 << 20, 20 << 20, 30 << 20]

    def test_threads_and_cpus_are_in_effect(self, check: Any) -> None:
        check()
        tf.config.threading.set_intra_op_parallelism_threads(3)
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [L(), L()])
        assert logical_names("CPU") == ["/device:CPU:0", "/device:CPU:1"]
        assert tf.config.threading.get_intra_op_parallelism_threads() == 3

    def test_without_settings_the_devices_stay(self, check: Any) -> None:
        check()
        before = tf.memory.allocate(1)
        assert logical_names("GPU")
        before.free()


def test_without_gpus_the_cpu_can_be_split(cpu_only: None) -> None:
    assert tf.test.is_gpu_available() is False
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [L(), L()])
    assert logical_names() == ["/device:CPU:0", "/device:CPU:1"]


def test_growth_on_one_of_two_gpus_fails_at_initialization(two_gpus: None) -> None:
    """As in TensorFlow, until the other GPU has the same value. A session with a ConfigProto does not look at it."""
    growth(gpus()[0], True)
    session(allow_growth=True)
    assert tf.test.is_gpu_available()
    with refused(ValueError, GROWTH_DIFFERS):
        tf1.Session(graph=tf1.Graph())
    with refused(ValueError, GROWTH_DIFFERS):
        initialize()
    growth(gpus()[1], True)
    initialize()


def test_what_is_in_use_cannot_be_set_up_anew(one_gpu: None) -> None:
    """The class is TensorFlow's, which says that the GPU is being mapped to multiple devices."""
    session()
    with tf1.Graph().as_default(), tf1.Session() as open_session:
        tf.config.set_logical_device_configuration(gpus()[0], [L(10)])
        assert open_session.run(tf1.constant(1.0)) == 1.0
    assert limits() == [10 << 20]


def test_once_the_runtime_is_initialized_only_what_was_set_can_be_set(one_gpu: None) -> None:
    session(allow_growth=True)
    initialize()
    with refused(RuntimeError, TOO_LATE_GROWTH) as _:
        growth(gpus()[0], True)
    with pytest.raises(RuntimeError, match="list_logical_devices") as caught:
        tf.config.set_visible_devices([], "GPU")
    assert "Session" not in str(caught.value)
    assert str(caught.value).startswith(TOO_LATE_VISIBLE)
    with refused(RuntimeError, TOO_LATE_LOGICAL):
        tf.config.set_logical_device_configuration(gpus()[0], [L(10)])


def test_a_message_of_gpuconfs_own_functions_keeps_its_class(two_gpus: None) -> None:
    growth(gpus()[0], True)
    with pytest.raises(tf.errors.InvalidArgumentError, match=GROWTH_DIFFERS):
        tf.memory.allocate(1)


def test_configure_after_a_session(one_gpu: None) -> None:
    session(allow_growth=True)
    tf.configure(growth=True)
    assert tf.config.experimental.get_memory_growth(gpus()[0]) is True
