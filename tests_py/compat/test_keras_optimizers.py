"""``tf.keras.optimizers``: settings, as Keras 3 checks and writes them. What trains says that it needs TensorFlow."""

from __future__ import annotations

import gpuconf
import gpuconf.compat.v2 as tf
import pytest

optimizers = tf.keras.optimizers
RATE = 0.0010000000474974513  # 0.001 in float32


def test_settings_are_kept_and_written_as_keras_writes_them(one_gpu: None) -> None:
    adam = optimizers.Adam(1e-3, clipnorm=1.0, name="mine")
    assert adam.get_config() == {
        "name": "mine",
        "learning_rate": RATE,
        "weight_decay": None,
        "clipnorm": 1.0,
        "global_clipnorm": None,
        "clipvalue": None,
        "use_ema": False,
        "ema_momentum": 0.99,
        "ema_overwrite_frequency": None,
        "loss_scale_factor": None,
        "gradient_accumulation_steps": None,
        "beta_1": 0.9,
        "beta_2": 0.999,
        "epsilon": 1e-07,
        "amsgrad": False,
    }
    assert repr(adam.learning_rate) == f"<Variable path=mine/learning_rate, shape=(), dtype=float32, value={RATE}>"
    adam.learning_rate = 0.5
    assert adam.learning_rate.numpy() == 0.5
    assert adam.beta_1 == 0.9
    assert optimizers.SGD(0.1, 0.9, True).get_config()["nesterov"] is True


def test_names_count_up_as_in_keras(one_gpu: None) -> None:
    first, second = optimizers.RMSprop(), optimizers.RMSprop()
    assert first.name.startswith("rm_sprop")
    assert second.name == f"rm_sprop_{int(first.name.removeprefix('rm_sprop').strip('_') or 0) + 1}"
    assert optimizers.AdamW().name.startswith("adam_w")


def test_an_optimizer_initializes_the_runtime(two_gpus: None) -> None:
    optimizers.Adam()
    with pytest.raises(RuntimeError, match="cannot be modified after being initialized"):
        gpuconf.config.set_visible_devices([], "GPU")


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"lr": 0.1}, ValueError, "Argument(s) not recognized: {'lr': 0.1}"),
        ({"clipnorm": 1, "clipvalue": 1}, ValueError, "Only one of `clipnorm`"),
        ({"gradient_accumulation_steps": 1}, ValueError, "`gradient_accumulation_steps` must be an integer >= 2"),
        ({"use_ema": True, "ema_momentum": 2}, ValueError, "`ema_momentum` must be in the range"),
        ({"learning_rate": "x"}, ValueError, "Argument `learning_rate` should be float"),
        ({"momentum": 2}, ValueError, "`momentum` must be a float between [0, 1]."),
    ],
)
def test_what_keras_refuses(one_gpu: None, settings: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        optimizers.SGD(**settings)
    assert str(raised.value).startswith(message)
    assert type(raised.value) is error


def test_schedules_and_dicts(one_gpu: None) -> None:
    decay = optimizers.schedules.PiecewiseConstantDecay([10], values=[0.1, 0.01])
    sgd = optimizers.SGD(decay)
    with pytest.raises(gpuconf.errors.UnimplementedError, match="PiecewiseConstantDecay of step 0 needs TensorFlow"):
        _ = sgd.learning_rate
    written = optimizers.serialize(sgd)
    assert written["config"]["learning_rate"] == {
        "module": "keras.optimizers.schedules",
        "class_name": "PiecewiseConstantDecay",
        "config": {"boundaries": [10], "values": [0.1, 0.01], "name": "PiecewiseConstant"},
        "registered_name": None,
    }
    assert optimizers.deserialize(written).get_config() == sgd.get_config()
    with pytest.raises(ValueError, match="1 less than the length of values"):
        optimizers.schedules.PiecewiseConstantDecay([10], [0.1])
    with pytest.raises(TypeError, match="decay_steps"):
        optimizers.schedules.ExponentialDecay(0.1)
    with pytest.raises(gpuconf.errors.UnimplementedError, match="needs TensorFlow"):
        decay(5)
    assert isinstance(optimizers.get("adamw"), optimizers.AdamW)
    with pytest.raises(ValueError, match="Could not interpret optimizer identifier: none"):
        optimizers.get("none")


def test_loss_scaling(one_gpu: None) -> None:
    inner = optimizers.Adam(0.25)
    scaled = tf.keras.mixed_precision.LossScaleOptimizer(inner, dynamic=True)
    assert scaled.inner_optimizer is inner
    assert float(scaled.learning_rate) == 0.25
    assert scaled.get_config()["initial_scale"] == 32768.0
    assert optimizers.deserialize(optimizers.serialize(scaled)).inner_optimizer.get_config() == inner.get_config()
    with pytest.raises(ValueError, match="no longer supports `dynamic=False`"):
        tf.keras.mixed_precision.LossScaleOptimizer(inner, dynamic=False)
    with pytest.raises(AttributeError, match="'str' object has no attribute 'loss_scale_factor'"):
        tf.keras.mixed_precision.LossScaleOptimizer("adam")


def test_training_needs_tensorflow(one_gpu: None) -> None:
    with pytest.raises(AttributeError, match=r"Adam\.apply_gradients needs TensorFlow"):
        optimizers.Adam().apply_gradients([])
    with pytest.raises(AttributeError, match="'Adam' object has no attribute 'lr'"):
        _ = optimizers.Adam().lr
    with pytest.raises(ImportError, match="is not supported in Keras 3"):
        optimizers.legacy.Adam()


def test_policies_as_dicts() -> None:
    policy = tf.keras.mixed_precision.Policy("mixed_float16")
    written = tf.keras.utils.serialize_keras_object(policy)
    assert written == {
        "module": "keras",
        "class_name": "DTypePolicy",
        "config": {"name": "mixed_float16"},
        "registered_name": None,
    }
    assert tf.keras.utils.deserialize_keras_object(written) == policy
    assert tf.keras.mixed_precision.Policy(None).name == tf.keras.backend.floatx()
    with pytest.raises(gpuconf.errors.UnimplementedError, match="needs TensorFlow"):
        tf.keras.utils.serialize_keras_object(object())
