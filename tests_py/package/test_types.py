"""The results of mypy for programs that use the installed package.

``LogicalDeviceConfiguration(memory_limit="x")`` and ``GPUOptions(alow_growth=True)`` passed: constructors accepted
anything. And every name was an attribute of ``gpuconf``.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from gpuconf.compat.v1 import ConfigProto, GPUOptions
from script import execute

# mypy rejects each line that ends with a comment, with that error code. The others pass with --strict.
PROGRAM = """\
import gpuconf as tf
import gpuconf.compat.v1 as tf1
import gpuconf.compat.v2 as tf2
from gpuconf.allocators import torch
from gpuconf.compat.v2.python.client import device_lib

gpus: list[tf.config.PhysicalDevice] = tf.config.list_physical_devices("GPU")
half = tf.config.LogicalDeviceConfiguration(memory_limit=1024, experimental_priority=-1)
tf.config.set_logical_device_configuration(gpus[0], [half, tf.config.LogicalDeviceConfiguration(512.5)])
tf.config.LogicalDeviceConfiguration(memory_limit="x")  # arg-type
tf.config.LogicalDeviceConfiguration(limit=5)  # call-arg
tf.config.experimental.VirtualDeviceConfiguration(experimental_priority=0.5)  # arg-type
tf.config.PhysicalDevice("/physical_device:GPU:0", 0)  # arg-type
tf.config.LogicalDevice("/device:GPU:0")  # call-arg
tf.config.set_logical_device_configuration(gpus[0], half.memory_limit)  # arg-type
tf.config.experimental.set_memory_growth("GPU:0", True)  # arg-type

options = tf1.GPUOptions(per_process_gpu_memory_fraction=0.4, allow_growth=True, visible_device_list="0")
options.experimental.virtual_devices.add(memory_limit_mb=[1024, 512])
options.experimental.virtual_devices[0].memory_limit_mb.append(256)
config = tf1.ConfigProto(gpu_options=options, device_count={"GPU": 1}, allow_soft_placement=True)
config = tf1.ConfigProto(gpu_options={"allow_growth": True})
config.gpu_options.allow_growth = True
config.device_count["CPU"] = 2
config.graph_options.optimizer_options.global_jit_level = tf1.OptimizerOptions.ON_1
config.graph_options.rewrite_options.custom_optimizers.add(name="x").parameter_map["k"].i = 3
config.graph_options.rewrite_options.memory_optimization = 2.5  # assignment
config.experimental.mlir_bridge_rollout = config.experimental.MLIR_BRIDGE_ROLLOUT_ENABLED
tf1.GPUOptions(per_process_gpu_memory_fraction="x")  # arg-type
tf1.GPUOptions(alow_growth=True)  # call-arg
tf1.GPUOptions(0.4)  # call-arg
tf1.GPUOptions.Experimental(use_unified_memory="yes")  # arg-type
tf1.ConfigProto(gpu_options=0.4)  # arg-type
tf1.ConfigProto(device_count={"GPU": "1"})  # dict-item
config.gpu_options = options  # misc
config.log_device_placement = "yes"  # assignment
tf1.Session(config={"allow_growth": True})  # arg-type

is_there: bool = tf2.test.is_gpu_available(min_cuda_compute_capability=(7, 0))
tf2.test.is_gpu_availabl()  # attr-defined
replicas: int = tf2.distribute.MirroredStrategy(["/gpu:0"]).num_replicas_in_sync
tf2.distribute.MirroredStrategy().num_replicas  # attr-defined
limits: list[int] = [d.memory_limit for d in device_lib.list_local_devices()]
tf1.InteractiveSession(tf1.ConfigProto())  # arg-type
shape: tf2.TensorShape = tf1.placeholder(tf2.float32, [None, 2]).shape
tf1.logging.set_verbosity(tf1.logging.ERROR)

with tf.device("GPU:0"), tf.memory.allocate("1MiB") as buffer:
    data: bytearray = buffer.copy_to_host()
    tf.memory.allocate(1.5)  # arg-type
    tf.memory.alocate(1)  # attr-defined
limit: int = tf.memory.stats().bytes_limit
name: str = tf.memory.stats().bytes_limit  # assignment
row = tf.memory.usage().rows[0]
tf.memory.UsageRow(row.library, row.tag, row.bytes_in_use, row.peak_bytes_in_use, "0")  # arg-type
tf.simulat("T4")  # attr-defined
x = tf.constant([1.0], dtype=tf.float32)
try:
    tf.simulate("T4")
except tf.errors.ResourceExhaustedError as error:
    code: str = error.code
torch.install("whole")
torch.install(5)  # arg-type
"""


def test_mypy_accepts_and_refuses(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = execute(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", tmp_path / "cache", "program.py"],
        cwd=tmp_path,
    )
    assert done.stderr == ""
    found = {
        int(line): code for line, code in re.findall(r"^program\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.M)
    }
    wanted = {
        number: text.partition("  # ")[2] for number, text in enumerate(PROGRAM.splitlines(), start=1) if "  # " in text
    }
    assert found == wanted, done.stdout


def test_the_signature_of_a_message_shows_its_fields() -> None:
    assert list(inspect.signature(GPUOptions).parameters) == list(GPUOptions.FIELDS)
    assert "gpu_options=None" in str(inspect.signature(ConfigProto))
