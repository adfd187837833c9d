"""Device arguments: one rule for every function of gpuconf's own that takes one.

``stats()`` and ``memory_map()`` once used GPU:0 in any scope, while ``allocate`` and ``measure`` followed the scope, so
``with device("GPU:1"): allocate(...); stats()`` showed the numbers of another GPU. And ``allocate(1, gpus[0])`` was a
TypeError although the card was one logical GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gpuconf
import pytest
from gpuconf import memory
from gpuconf.config import LogicalDevice, LogicalDeviceConfiguration, PhysicalDevice

if TYPE_CHECKING:
    from collections.abc import Callable


def _allocated_on(*device: Any) -> str:
    with memory.allocate(1000, *device) as buffer:
        return buffer.device.name.rpartition("device:")[2]


def _measured_on(*device: Any) -> str:
    """The GPU on which a measurement notices an allocation."""
    for number in range(2):
        with memory.measure(*device) as measured:
            memory.allocate(1000, f"GPU:{number}").free()
        if measured.peak_increase:
            return f"GPU:{number}"
    return ""


def _counted_on(*device: Any) -> str:
    for number in range(2):
        with memory.allocate(1000, f"GPU:{number}"):
            if memory.stats(*device).bytes_in_use:
                return f"GPU:{number}"
    return ""


# Each function, as one that returns the GPU it used.
FUNCTIONS = {
    "allocate": _allocated_on,
    "measure": _measured_on,
    "stats": _counted_on,
    "memory_map": lambda *device: memory.memory_map(*device).device,
}
every_function = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=list(FUNCTIONS))


@every_function
def test_without_a_device_the_scope_says_which(two_gpus: None, function: Callable[..., str]) -> None:
    assert function() == "GPU:0"
    with gpuconf.device("GPU:1"):
        assert function() == "GPU:1"
        assert function(None) == "GPU:1"
        assert function("GPU:0") == "GPU:0"
        with gpuconf.device("CPU:0"):
            assert function() == "GPU:0"
        with gpuconf.device(None):
            assert function() == "GPU:0"
    assert function() == "GPU:0"


@every_function
@pytest.mark.usefixtures("two_gpus")
def test_a_scope_of_a_device_that_is_not_there_is_named_in_the_error(function: Callable[..., str]) -> None:
    with gpuconf.device("GPU:7"), pytest.raises(ValueError, match=r"device:GPU:7'. This process has GPU:0, GPU:1$"):
        function()


@every_function
def test_a_device_is_named_by_any_of_its_objects(two_gpus: None, function: Callable[..., str]) -> None:
    assert function("/device:GPU:1") == "GPU:1"
    assert function(gpuconf.config.list_logical_devices("GPU")[1]) == "GPU:1"
    assert function(gpuconf.config.list_physical_devices("GPU")[1]) == "GPU:1"
    assert function(gpuconf.visible_devices()[1]) == "GPU:1"
    assert function(PhysicalDevice("/physical_device:GPU:1", "GPU")) == "GPU:1"


@every_function
def test_a_card_goes_by_its_own_number(two_gpus: None, function: Callable[..., str]) -> None:
    """The second card is the first logical GPU here."""
    _, second = gpuconf.config.list_physical_devices("GPU")
    gpuconf.config.set_visible_devices(second, "GPU")
    assert function(second) == "GPU:0"
    assert function(gpuconf.visible_devices()[1]) == "GPU:0"


@every_function
def test_a_card_that_is_not_one_logical_gpu_is_refused(two_gpus: None, function: Callable[..., str]) -> None:
    first, second = gpuconf.config.list_physical_devices("GPU")
    gpuconf.config.set_visible_devices([second], "GPU")
    gpuconf.config.set_logical_device_configuration(second, [LogicalDeviceConfiguration(memory_limit=100)] * 2)
    there = "The logical GPUs are GPU:0, GPU:1$"
    for split in (second, gpuconf.visible_devices()[1]):
        with pytest.raises(
            ValueError, match=rf"GPU:1' is split into 2 logical GPUs \(GPU:0, GPU:1\); name one of them. {there}"
        ):
            function(split)
    for hidden in (first, gpuconf.visible_devices()[0]):
        with pytest.raises(ValueError, match=rf"GPU:0' is not visible. {there}"):
            function(hidden)
    for other in (
        PhysicalDevice("/physical_device:CPU:0", "CPU"),
        PhysicalDevice("GPU:0", "GPU"),
        PhysicalDevice(["GPU"], "GPU"),
    ):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=rf"is not a GPU of this process. {there}"):
            function(other)
    with pytest.raises(TypeError, match="device must be a string"):
        function(LogicalDevice(None, "GPU"))  # type: ignore[arg-type]


@every_function
def test_a_card_of_an_earlier_machine_is_refused(function: Callable[..., str]) -> None:
    gpuconf.simulate("H100")
    (gone,) = gpuconf.visible_devices()
    gpuconf.simulate("2xT4")
    with pytest.raises(ValueError, match=r"^VisibleDevice\(.*H100.* is not a GPU of this process"):
        function(gone)


def test_scopes_take_the_same_objects(two_gpus: None) -> None:
    for device in (gpuconf.config.list_physical_devices("GPU")[1], gpuconf.visible_devices()[1]):
        with gpuconf.device(device):
            assert gpuconf.current_scope().endswith("/device:GPU:1")
            assert _allocated_on() == "GPU:1"
    gpuconf.reset()
    gpu = gpuconf.config.list_physical_devices("GPU")[0]
    gpuconf.config.set_logical_device_configuration(gpu, [LogicalDeviceConfiguration(memory_limit=100)] * 2)
    with pytest.raises(ValueError, match=r"split into 2 logical GPUs"):
        gpuconf.device(gpu).__enter__()
    assert gpuconf.current_scope() == ""
