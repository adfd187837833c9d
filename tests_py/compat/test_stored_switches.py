"""Switches that programs set beside their configuration of GPUs: they are stored, with TensorFlow's defaults."""

from __future__ import annotations

import gpuconf.compat.v1 as tf1
import gpuconf.compat.v2 as tf
import pytest
from gpuconf.compat.v2.python.util import module_wrapper


def test_tracebacks_and_progress() -> None:
    for switch in (tf.debugging, tf.keras.config):
        assert switch.is_traceback_filtering_enabled()
        switch.disable_traceback_filtering()
        assert not switch.is_traceback_filtering_enabled()
        switch.enable_traceback_filtering()
    tf.keras.utils.disable_interactive_logging()
    assert not tf.keras.config.is_interactive_logging_enabled()
    tf.keras.utils.enable_interactive_logging()
    assert tf.keras.utils.is_interactive_logging_enabled()


def test_limits_of_keras() -> None:
    config = tf.keras.config
    assert (config.max_epochs(), config.max_steps_per_epoch()) == (None, None)
    config.set_max_epochs(3)
    config.set_max_steps_per_epoch(5)
    assert (config.max_epochs(), config.max_steps_per_epoch()) == (3, 5)
    config.set_max_epochs(None)
    config.set_max_steps_per_epoch(None)
    config.enable_unsafe_deserialization()
    assert tf.keras.version() == tf.keras.__version__
    assert tf.keras.DTypePolicy("mixed_float16").compute_dtype == "float16"


def test_keras_of_tensorflow_1() -> None:
    backend = tf1.keras.backend
    backend.set_floatx("float16")
    assert tf.keras.backend.floatx() == "float16"
    backend.set_floatx("float32")
    backend.set_learning_phase(0)
    backend.manual_variable_initialization(True)
    with pytest.raises(ValueError, match="Expected learning phase to be 0 or 1"):
        backend.set_learning_phase(2)


def test_options_and_constants() -> None:
    assert tf.distribute.InputOptions(experimental_fetch_to_device=False)[:2] == (
        False,
        tf.distribute.InputReplicationMode.PER_WORKER,
    )
    assert tf.distribute.RunOptions() == (True, False, None)
    assert (tf.data.INFINITE_CARDINALITY, tf.data.experimental.UNKNOWN_CARDINALITY) == (-1, -2)
    options = tf.data.Options()
    assert options.framework_type == []
    options.framework_type = ["TFDS"]
    assert tf.autograph.experimental.do_not_convert()(len) is len
    module_wrapper._PER_MODULE_WARNING_LIMIT = 0


def test_the_resolver_of_a_strategy(two_gpus: None) -> None:
    assert tf.distribute.MirroredStrategy().cluster_resolver is None
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    assert tf.distribute.MultiWorkerMirroredStrategy(resolver).cluster_resolver is resolver
    found = tf.distribute.MultiWorkerMirroredStrategy().cluster_resolver
    assert isinstance(found, tf.distribute.cluster_resolver.TFConfigClusterResolver)


def test_older_names_of_initializers() -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        variable = tf1.get_variable("v", initializer=1.0)
        assert tf1.all_variables() == [variable]
        assert tf1.local_variables() == []
        session.run([tf1.initialize_all_variables(), tf1.initialize_local_variables(), tf1.initialize_all_tables()])
        assert session.run(variable) == 1.0
