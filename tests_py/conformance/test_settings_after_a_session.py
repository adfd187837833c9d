"""Settings after a session of TensorFlow 1. Once, all setters were refused, as after a call that initializes the runtime.

In TensorFlow a session does not initialize the eager runtime: it accepts each setting, although the GPUs' memory remains as the
first session set it up. In gpuconf a setter may set the current value; others are refused, because they would have no effect.
"""

from __future__ import annotations

from typing import Any

import gpuconf as tf
import gpuconf.compat.v1 as tf1
import pytest

from .helpers import (
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
)

growth = tf.config.experimental.set_memory_growth


def session(**options: Any) -> None:
    """Open and close a session with these GPU options."""
    tf1.Session(config=tf1.ConfigProto(gpu_options=tf1.GPUOptions(**options)), graph=tf1.Graph()).close()


def test_growth_that_is_on_can_be_switched_on(two_gpus: None) -> None:
    session(allow_growth=True)
    for gpu in gpus():
        growth(gpu, True)
        assert tf.config.experimental.get_memory_growth(gpu) is True
    with refused(RuntimeError, TOO_LATE_GROWTH):
        growth(gpus()[0], False)
    assert logical_names("GPU") == ["/device:GPU:0", "/device:GPU:1"]


def test_growth_that_is_off_can_be_switched_off(one_gpu: None) -> None:
    session()
    growth(gpus()[0], False)
    with refused(RuntimeError, TOO_LATE_GROWTH):
        growth(gpus()[0], True)
    with pytest.raises(RuntimeError, match=rf"initialized by .*{__name__.rpartition('.')[2]}\.py:\d+ \(Session\)"):
        growth(gpus()[0], True)


def test_growth_set_on_one_of_two_gpus_differs(two_gpus: None) -> None:
    """As in TensorFlow, until the other GPU has the same value."""
    session(allow_growth=True)
    growth(gpus()[0], True)
    with refused(ValueError, GROWTH_DIFFERS):
        initialize()
    with refused(ValueError, GROWTH_DIFFERS):
        tf.memory.allocate(1)
    growth(gpus()[1], True)
    initialize()
    assert tf.memory.live_buffers() == []


def test_the_devices_that_are_visible_can_be_made_visible(two_gpus: None) -> None:
    session(visible_device_list="1")
    with refused(RuntimeError, TOO_LATE_VISIBLE):
        tf.config.set_visible_devices(gpus()[0], "GPU")
    tf.config.set_visible_devices(gpus()[1], "GPU")
    assert tf.config.get_visible_devices("GPU") == gpus()[1:]
    tf.config.set_logical_device_configuration(gpus()[0], [L(10)])  # it is hidden
    assert logical_names("GPU") == ["/device:GPU:0"]


def test_devices_in_another_order_are_others(two_gpus: None) -> None:
    session(visible_device_list="1,0")
    with refused(RuntimeError, TOO_LATE_VISIBLE):
        tf.config.set_visible_devices(gpus()[::-1], "GPU")


def test_the_logical_devices_there_are_can_be_asked_for(one_gpu: None) -> None:
    virtual = tf1.GPUOptions.Experimental.VirtualDevices(memory_limit_mb=[10, 20])
    session(experimental=tf1.GPUOptions.Experimental(virtual_devices=[virtual]))
    for others in ([L(10)], [L(10), L(20), L(30)], [L(20), L(10)], [L(10), L(20, -1)], []):
        with refused(RuntimeError, TOO_LATE_LOGICAL):
            tf.config.set_logical_device_configuration(gpus()[0], others)
    halves = [L(20, None, 1), L(10, None, 0)]
    tf.config.set_logical_device_configuration(gpus()[0], halves)
    assert tf.config.get_logical_device_configuration(gpus()[0]) is halves
    assert limits() == [10 << 20, 20 << 20]


def test_a_fraction_is_no_logical_device(one_gpu: None) -> None:
    session(per_process_gpu_memory_fraction=0.5)
    with refused(RuntimeError, TOO_LATE_LOGICAL):
        tf.config.set_logical_device_configuration(gpus()[0], [L(40 << 10)])


def test_threads_can_be_set_until_the_runtime_is_initialized(one_gpu: None) -> None:
    session()
    tf.config.threading.set_intra_op_parallelism_threads(3)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    initialize()
    assert tf.config.threading.get_intra_op_parallelism_threads() == 3
    with refused(RuntimeError, "Intra op parallelism cannot be modified after initialization."):
        tf.config.threading.set_intra_op_parallelism_threads(4)


def test_once_the_runtime_is_initialized_only_what_was_set_can_be_set(one_gpu: None) -> None:
    session(allow_growth=True)
    initialize()
    with refused(RuntimeError, TOO_LATE_GROWTH):
        growth(gpus()[0], True)


def test_the_last_session_counts(one_gpu: None) -> None:
    session(allow_growth=True)
    session(per_process_gpu_memory_fraction=0.5)  # rebuilds the empty pools
    with refused(RuntimeError, TOO_LATE_GROWTH):
        growth(gpus()[0], True)
    growth(gpus()[0], False)


def test_a_session_on_the_cpu_leaves_all_open(one_gpu: None) -> None:
    tf1.Session(config=tf1.ConfigProto(device_count={"GPU": 0}), graph=tf1.Graph()).close()
    growth(gpus()[0], True)
    session()
    assert tf.config.experimental.get_memory_growth(gpus()[0]) is True


def test_configure_asks_for_what_a_session_set_up(one_gpu: None) -> None:
    session(allow_growth=True)
    tf.configure(growth=True)
    assert tf.config.experimental.get_memory_growth(gpus()[0]) is True
