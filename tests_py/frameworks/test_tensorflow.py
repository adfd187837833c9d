"""TensorFlow itself follows the configuration: what it got is read back through its own ``tf.config``, before and after
it starts.

`make oracle` installs its CPU wheel. It finds no GPUs, so the imaginary ones of the oracle are registered with it, as
many as the driver of tests_go/machine/fakecuda shows to gpuconf. TensorFlow's context, its checks and its device
creation are real.
"""

import importlib.util
from pathlib import Path

import no_gpu
import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed; make oracle does that"
)

GPUS = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from oracle.cpp import build
imaginary = ctypes.CDLL(str(build.cpp("imaginary_gpus.cc", shared=True)))
imaginary.oracle_made_limit.restype = ctypes.c_int64
for _ in range(3):
    imaginary.oracle_add_card(b"NVIDIA Fake 1GB", 9, 0, ctypes.c_int64(1 << 30), -5)
def made():
    return [(imaginary.oracle_made_card(i), imaginary.oracle_made_limit(i) >> 20, bool(imaginary.oracle_made_growth(i)))
            for i in range(imaginary.oracle_made())]
def numbers(devices):
    return [int(device.name[-1]) for device in devices]
physical = gpuconf.config.list_physical_devices("GPU")
L = gpuconf.config.LogicalDeviceConfiguration
"""


def results(driver: Path, program: str, gpus: str = GPUS) -> list[str]:
    return no_gpu.run(driver, gpus + program, FAKECUDA_GPUS="3", TF_CPP_MIN_LOG_LEVEL="3").splitlines()


def test_settings_from_before_the_import(driver: Path) -> None:
    program = """
gpuconf.config.set_visible_devices([physical[2], physical[1]], "GPU")
gpuconf.config.set_logical_device_configuration(physical[1], [L(100), L(200)])
gpuconf.config.set_logical_device_configuration(gpuconf.config.list_physical_devices("CPU")[0], [L(), L()])
import tensorflow as tf
print(numbers(tf.config.get_visible_devices("GPU")))
theirs = tf.config.list_physical_devices("GPU")
print([one.memory_limit for one in tf.config.get_logical_device_configuration(theirs[1])])
print(tf.config.get_logical_device_configuration(theirs[0]), len(tf.config.list_logical_devices("CPU")))
print(len(tf.config.list_logical_devices("GPU")), made()[:2])
"""
    assert results(driver, program) == ["[2, 1]", "[100, 200]", "None 2", "3 [(1, 100, False), (1, 200, False)]"]


def test_configure_and_growth(driver: Path) -> None:
    program = """
import os
print(gpuconf.configure(growth=True).libraries["tensorflow"])
import tensorflow as tf
print([tf.config.experimental.get_memory_growth(gpu) for gpu in tf.config.list_physical_devices("GPU")])
print(len(tf.config.list_logical_devices("GPU")), [growth for _, _, growth in made()],
      os.environ["TF_FORCE_GPU_ALLOW_GROWTH"])
"""
    assert results(driver, program) == [
        "passed on at import (TF_FORCE_GPU_ALLOW_GROWTH=true): it uses its own allocator, outside gpuconf's limits",
        "[True, True, True]",
        "3 [True, True, True] true",
    ]


def test_settings_from_between_its_import_and_its_start(driver: Path) -> None:
    program = """
import logging
import tensorflow as tf
gpuconf.config.set_visible_devices(physical[:2], "GPU")
print(gpuconf.configure(limit="256MiB").libraries["tensorflow"])
gpuconf.configure(limit="128MiB")
print(len(tf.config.list_logical_devices("GPU")), made())
logging.getLogger("gpuconf").addHandler(logging.StreamHandler(sys.stdout))
gpuconf.config.set_visible_devices(physical[0], "GPU")
print(gpuconf.configure().libraries["tensorflow"], numbers(tf.config.get_visible_devices("GPU")))
try:
    gpuconf.configure(libraries="tensorflow")
except RuntimeError as error:
    print(error)
"""
    started = "not changed: it has already started, and it uses its own allocator"
    assert results(driver, program) == [
        "passed on through tf.config: it uses its own allocator, outside gpuconf's limits",
        "2 [(0, 128, False), (1, 128, False)]",
        f"TensorFlow: {started}",
        f"{started} [0, 1]",
        "gpuconf.configure() was called too late: TensorFlow has already started. Call it earlier, "
        "or leave 'tensorflow' out of libraries=",
    ]


def test_what_tensorflow_refuses_is_left_to_it(driver: Path) -> None:
    """The program has set something else in TensorFlow itself."""
    program = """
import tensorflow as tf
theirs = tf.config.list_physical_devices("GPU")[0]
tf.config.set_logical_device_configuration(theirs, [tf.config.LogicalDeviceConfiguration(300)])
print(gpuconf.configure(growth=True).libraries["tensorflow"])
print(tf.config.get_logical_device_configuration(theirs)[0].memory_limit)
"""
    assert results(driver, program) == [
        "not all passed on: ValueError: Cannot set memory growth on device when virtual devices configured",
        "300",
    ]


def test_a_tensorflow_that_sees_no_gpus(driver: Path) -> None:
    program = """
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s", level="INFO")
logging.getLogger("gpuconf").setLevel("INFO")
print(gpuconf.configure(limit="256MiB", libraries="tensorflow").libraries["tensorflow"])
import tensorflow as tf
print(tf.config.list_physical_devices("GPU"), gpuconf.configure(limit="256MiB").libraries["tensorflow"])
"""
    lines = [line for line in results(driver, program, gpus="") if "NVML" not in line]
    unseen = ", ".join(f"/physical_device:GPU:{i}" for i in range(3))
    assert lines == [
        "passed on at import: it uses its own allocator, outside gpuconf's limits",
        f"INFO TensorFlow: not passed on: it does not see {unseen}",
        f"[] not passed on: it does not see {unseen}",
    ]


def test_gpuconf_can_not_be_installed_beside_it(driver: Path) -> None:
    program = """
import tensorflow
try:
    gpuconf.install_as_tensorflow()
except RuntimeError as error:
    print("TensorFlow itself is already imported" in str(error), tensorflow.__file__ in str(error))
"""
    assert results(driver, program, gpus="") == ["True True"]


@pytest.mark.parametrize("mode", ["proxy", "preload"])
def test_its_cpu_wheel_runs_under_the_guard_as_without(driver: Path, mode: str) -> None:
    program = """
import tensorflow as tf
tf.random.set_seed(1)
weights = tf.Variable(tf.random.stateless_normal((64, 64), seed=(1, 2)))
for _ in range(5):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.tanh(weights @ tf.transpose(weights)) ** 2)
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
print(tf.config.list_physical_devices(), f"{float(loss):.3f}")
"""
    plain = no_gpu.under_guard(driver, "off", 0, "-c", program, TF_CPP_MIN_LOG_LEVEL="3")
    guarded = no_gpu.under_guard(driver, mode, 64 << 20, "-c", program, TF_CPP_MIN_LOG_LEVEL="3")
    assert plain.returncode == 0, plain.stderr
    assert (guarded.returncode, guarded.stdout) == (0, plain.stdout), guarded.stderr
