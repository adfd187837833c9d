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
    L,
    gpus,
    limits,
    logical_names,
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
