"""Public classes name a public module, and pickles made before the package was split into subpackages can be loaded."""

from __future__ import annotations

import inspect
import pickle

import gpuconf
import gpuconf.compat.v1
import pytest
from gpuconf.plans.fleets import fleet
from gpuconf.plans.programs import needs
from gpuconf.plans.recordings import replay

PUBLIC = [gpuconf, gpuconf.config, gpuconf.memory, gpuconf.errors, gpuconf.compat.v1]


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_public_classes_name_public_modules(module: object) -> None:
    classes = [getattr(module, name) for name in module.__all__ if inspect.isclass(getattr(module, name))]  # type: ignore[attr-defined]
    assert classes
    named = {f"{cls.__module__}.{cls.__qualname__}" for cls in classes}
    assert not [name for name in named if name.rpartition(".")[0] not in {each.__name__ for each in PUBLIC}]


@pytest.mark.parametrize(
    ("module", "name", "now"),
    [
        ("_types", "PhysicalDevice", gpuconf.config.PhysicalDevice),
        ("_types", "LogicalDevice", gpuconf.config.LogicalDevice),
        ("_types", "LogicalDeviceConfiguration", gpuconf.config.LogicalDeviceConfiguration),
        ("_visible", "VisibleDevice", gpuconf.VisibleDevice),
        ("_configure", "Configuration", gpuconf.Configuration),
        ("_memory_stats", "MemoryStats", gpuconf.memory.MemoryStats),
        ("_memory_map", "Chunk", gpuconf.memory.Chunk),
        ("_memory_map", "MemoryMap", gpuconf.memory.MemoryMap),
        ("_trace", "Trace", gpuconf.memory.Trace),
        ("_trace", "TraceEvent", gpuconf.memory.TraceEvent),
        ("_plan", "Plan", gpuconf.Plan),
        ("_ops", "constant", gpuconf.constant),
        ("planning.plan", "PlanResult", replay.PlanResult),
        ("planning.fleet.plan", "FleetJob", fleet.FleetJob),
        ("rehearsal.needs", "Verdict", needs.Verdict),
    ],
)
def test_an_old_pickles_names_are_found(module: str, name: str, now: object) -> None:
    assert pickle.loads(f"cgpuconf.{module}\n{name}\n.".encode()) is now


def test_a_message_of_an_old_pickle_equals_one_of_today() -> None:
    text = (
        "cgpuconf.compat._proto.message\n_rebuilt\n(cgpuconf.compat.v1._config_proto\nSessionMetadata\n"
        "(dVname\nVx\nstR."
    )
    message = pickle.loads(text.encode())
    assert (
        message
        == gpuconf.compat.v1.ConfigProto(experimental={"session_metadata": message}).experimental.session_metadata
    )
    assert message.name == "x"


def test_a_device_of_an_old_pickle_equals_one_of_today() -> None:
    old = (
        b"\x80\x02cgpuconf._types\nPhysicalDevice\nX\x16\x00\x00\x00/physical_device:GPU:0X\x03\x00\x00\x00GPU\x86\x81."
    )
    assert pickle.loads(old) == gpuconf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    assert b"gpuconf.config" in pickle.dumps(pickle.loads(old))
