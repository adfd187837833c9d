"""The public names and signatures are TensorFlow's."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import gpuconf as tf
import pytest

CONFIG = """
LogicalDevice LogicalDeviceConfiguration PhysicalDevice experimental optimizer threading experimental_connect_to_cluster
experimental_connect_to_host experimental_functions_run_eagerly experimental_run_functions_eagerly functions_run_eagerly
get_logical_device_configuration get_soft_device_placement get_visible_devices list_logical_devices list_physical_devices
run_functions_eagerly set_logical_device_configuration set_soft_device_placement set_visible_devices
"""
EXPERIMENTAL = """
ClusterDeviceFilters VirtualDeviceConfiguration disable_mlir_bridge enable_mlir_bridge enable_op_determinism
enable_tensor_float_32_execution get_device_details get_device_policy get_memory_growth get_memory_info get_memory_usage
get_synchronous_execution get_virtual_device_configuration get_visible_devices list_logical_devices list_physical_devices
reset_memory_stats set_device_policy set_memory_growth set_synchronous_execution set_virtual_device_configuration
set_visible_devices tensor_float_32_execution_enabled
"""
THREADING = """
get_inter_op_parallelism_threads get_intra_op_parallelism_threads set_inter_op_parallelism_threads
set_intra_op_parallelism_threads
"""
OPTIMIZER = "get_experimental_options get_jit set_experimental_options set_jit"
DEBUGGING = (
    "disable_traceback_filtering enable_traceback_filtering get_log_device_placement is_traceback_filtering_enabled "
    "set_log_device_placement"
)  # those that concern devices, and tracebacks

MODULES = [
    pytest.param(tf.config, CONFIG, id="config"),
    pytest.param(tf.config.experimental, EXPERIMENTAL, id="config.experimental"),
    pytest.param(tf.config.threading, THREADING, id="config.threading"),
    pytest.param(tf.config.optimizer, OPTIMIZER, id="config.optimizer"),
    pytest.param(tf.debugging, DEBUGGING, id="debugging"),
]


OLDER = {"experimental_list_devices"}  # names that TensorFlow had until 2.2


@pytest.mark.parametrize(("module", "names"), MODULES)
def test_a_module_has_exactly_tensorflows_names(module: Any, names: str) -> None:
    assert sorted({*module.__all__} - OLDER) == sorted(names.split())
    for name in names.split():
        assert getattr(module, name) is not None


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_versioned_names_are_the_same_modules(version: str) -> None:
    compat = getattr(tf.compat, version)
    assert compat.config is tf.config
    assert importlib.import_module(f"gpuconf.compat.{version}.config") is tf.config
    assert compat.config.experimental is tf.config.experimental


@pytest.mark.parametrize(
    "name", ["list_physical_devices", "list_logical_devices", "get_visible_devices", "set_visible_devices"]
)
def test_the_older_name_is_the_same_function(name: str) -> None:
    assert getattr(tf.config.experimental, name) is getattr(tf.config, name)


def test_the_older_names_of_logical_devices() -> None:
    assert tf.config.experimental.VirtualDeviceConfiguration is tf.config.LogicalDeviceConfiguration
    assert tf.config.experimental.get_virtual_device_configuration is tf.config.get_logical_device_configuration


# In TensorFlow's notation; a parameter without a default is required.
SIGNATURES = {
    "config.list_physical_devices": "device_type=None",
    "config.list_logical_devices": "device_type=None",
    "config.get_visible_devices": "device_type=None",
    "config.set_visible_devices": "devices, device_type=None",
    "config.get_logical_device_configuration": "device",
    "config.set_logical_device_configuration": "device, logical_devices",
    "config.get_soft_device_placement": "",
    "config.set_soft_device_placement": "enabled",
    "config.run_functions_eagerly": "run_eagerly",
    "config.functions_run_eagerly": "",
    "config.experimental_run_functions_eagerly": "run_eagerly",
    "config.experimental_functions_run_eagerly": "",
    "config.experimental_connect_to_host": "remote_host=None, job_name='worker'",
    "config.experimental_connect_to_cluster": "cluster_spec_or_resolver, job_name='localhost', task_index=0, "
    "protocol=None, "
    "make_master_device_default=True, cluster_device_filters=None",
    "config.PhysicalDevice": "name, device_type",
    "config.LogicalDevice": "name, device_type",
    "config.LogicalDeviceConfiguration": "memory_limit=None, experimental_priority=None, "
    "experimental_device_ordinal=None",
    "config.experimental.ClusterDeviceFilters": "",
    "config.experimental.ClusterDeviceFilters.set_device_filters": "self, job_name, task_index, device_filters",
    "config.experimental.disable_mlir_bridge": "",
    "config.experimental.enable_mlir_bridge": "",
    "config.experimental.enable_op_determinism": "",
    "config.experimental.enable_tensor_float_32_execution": "enabled",
    "config.experimental.tensor_float_32_execution_enabled": "",
    "config.experimental.get_device_details": "device",
    "config.experimental.get_device_policy": "",
    "config.experimental.set_device_policy": "device_policy",
    "config.experimental.get_memory_growth": "device",
    "config.experimental.set_memory_growth": "device, enable",
    "config.experimental.get_memory_info": "device",
    "config.experimental.get_memory_usage": "device",
    "config.experimental.reset_memory_stats": "device",
    "config.experimental.get_synchronous_execution": "",
    "config.experimental.set_synchronous_execution": "enable",
    "config.experimental.get_virtual_device_configuration": "device",
    "config.threading.get_inter_op_parallelism_threads": "",
    "config.threading.get_intra_op_parallelism_threads": "",
    "config.threading.set_inter_op_parallelism_threads": "num_threads",
    "config.threading.set_intra_op_parallelism_threads": "num_threads",
    "config.optimizer.get_jit": "",
    "config.optimizer.set_jit": "enabled",
    "config.optimizer.get_experimental_options": "",
    "config.optimizer.set_experimental_options": "options",
    "debugging.disable_traceback_filtering": "",
    "debugging.enable_traceback_filtering": "",
    "debugging.get_log_device_placement": "",
    "debugging.is_traceback_filtering_enabled": "",
    "debugging.set_log_device_placement": "enabled",
    "device": "device_name",
}


def find(path: str) -> Any:
    found: Any = tf
    for name in path.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize(("path", "parameters"), SIGNATURES.items(), ids=SIGNATURES.keys())
def test_a_signature_is_tensorflows(path: str, parameters: str) -> None:
    signature = inspect.signature(find(path))
    shown = [str(p.replace(annotation=inspect.Parameter.empty)) for p in signature.parameters.values()]
    assert ", ".join(shown) == parameters
    assert {p.kind for p in signature.parameters.values()} <= {inspect.Parameter.POSITIONAL_OR_KEYWORD}


def test_the_signature_that_has_two_names() -> None:
    """The second parameter was first called virtual_devices, and is now logical_devices."""
    parameters = inspect.signature(tf.config.experimental.set_virtual_device_configuration).parameters
    assert list(parameters) == ["device", "virtual_devices", "logical_devices"]
    assert parameters["logical_devices"].kind is inspect.Parameter.KEYWORD_ONLY


def test_no_signature_is_forgotten() -> None:
    public = {f"{module}.{name}" for module, names in NAMES.items() for name in names.split()}
    functions = {path for path in public if not inspect.ismodule(find(path))}
    aliases = {
        "config.experimental.VirtualDeviceConfiguration",
        "config.experimental.get_visible_devices",
        "config.experimental.list_logical_devices",
        "config.experimental.list_physical_devices",
        "config.experimental.set_visible_devices",
    }
    assert functions - aliases - set(SIGNATURES) == {"config.experimental.set_virtual_device_configuration"}


NAMES = {
    "config": CONFIG,
    "config.experimental": EXPERIMENTAL,
    "config.threading": THREADING,
    "config.optimizer": OPTIMIZER,
    "debugging": DEBUGGING,
}


@pytest.mark.parametrize("path", sorted(SIGNATURES))
def test_everything_public_says_what_it_does(path: str) -> None:
    assert len((find(path).__doc__ or "").strip()) > 10
