# SPDX-License-Identifier: Apache-2.0
"""JAX's CPU devices as the requested cards, for the program. JAX's own code sees the CPU. JAX is imported."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import sys
from collections.abc import Callable

import jax
from jax._src import xla_bridge
from jax._src.lib import _jax

from ...._core import texts
from ...._typing import Any

FIRST = (0, 10, 2)  # 0.10.0 differs for meshes and for kernels of Pallas
_USED = {
    "jax._src.interpreters.pxla": ("lower_sharding_computation", "UnloadedMeshExecutable", "batched_device_put"),
    "jax._src.compiler": ("compile_or_get_cached",),
    "jax._src.xla_bridge": ("devices", "local_devices", "device_count", "local_device_count", "get_backend"),
}
_PARAMETERS = {
    ("jax._src.interpreters.pxla", "lower_sharding_computation"): ("closed_jaxpr", "fun_name", "lowering_platforms"),
    ("jax._src.compiler", "compile_or_get_cached"): ("backend", "computation", "devices", "compile_options"),
}


def why_not() -> str:
    """Return why the imported JAX cannot be rehearsed; "" if it can."""
    import jax

    if jax.__version_info__ < FIRST:
        first = ".".join(map(str, FIRST))
        return (
            f"gpuconf plan needs JAX {first} or newer, and this is JAX {jax.__version__}: pip install --upgrade "
            "'jax[cuda13]'"
        )
    for module, names in _USED.items():
        namespace: Any = importlib.import_module(module)
        lacks = [name for name in names if not hasattr(namespace, name)]
        lacks += [
            f"{name}({parameter})"
            for (owner, name), parameters in _PARAMETERS.items()
            if owner == module and name not in lacks
            for parameter in parameters
            if parameter not in inspect.signature(getattr(namespace, name)).parameters
        ]
        if lacks:
            return (
                f"gpuconf does not know JAX {jax.__version__}: {module} has no {lacks[0]}; it is tested with JAX 0.10.2"
            )
    return ""


def plugin() -> tuple[int, str]:
    """Return the CUDA version of JAX's plugin, and "". Without it: 0 and an error that names the extra."""
    error: ImportError | None = None
    for cuda in (13, 12):
        try:
            importlib.import_module(f"jax_plugins.xla_cuda{cuda}")  # JAX initializes it
        except ImportError as missing:
            error = error or missing
            continue
        has, needs = (importlib.metadata.version(name) for name in (f"jax-cuda{cuda}-plugin", "jaxlib"))
        if has.split(".")[:3] != needs.split(".")[:3]:
            return (
                0,
                f"jax-cuda{cuda}-plugin {has} does not match jaxlib {needs}: pip install --upgrade 'jax[cuda{cuda}]'",
            )
        return cuda, ""
    assert error is not None
    return 0, str(texts.missing("gpuconf plan of a JAX program needs", "JAX's plugin for CUDA", "jax-plan", error))


_GPU = ("gpu", "cuda")
_PLATFORMS = ("jax_platforms", "jax_platform_name")
_JAX = ("jax.", "jaxlib.", "jax_plugins.")


class Devices:
    """The cards of a process: CPU devices 0 to ``count`` - 1. The next one is the host."""

    def __init__(self, count: int, product: str, statistics: Callable[[int], dict[str, int]]) -> None:
        self.count: int = count
        self.product: str = product
        self._statistics = statistics
        self.wants_cpu = False  # the program's own choice

    @property
    def host(self) -> int:
        """The number of the CPU device that is the host's."""
        return self.count

    def install(self) -> None:
        """Take the place of JAX's functions."""
        self._watch_settings()
        jax.config.update("jax_num_cpu_devices", self.count + 1)
        self._lists()
        self._properties()

    def _watch_settings(self) -> None:
        """Leave out the settings that would ask JAX for a GPU, or for other CPU devices."""
        kind = type(jax.config)
        update = kind.update
        devices = self

        def updated(config: Any, name: str, value: Any) -> None:
            if name in _PLATFORMS and not _from_jax():
                devices.wants_cpu |= str(value).split(",")[0] == "cpu"
            elif name != "jax_num_cpu_devices" or not xla_bridge.backends_are_initialized():
                update(config, name, devices.count + 1 if name == "jax_num_cpu_devices" else value)

        update(jax.config, "jax_platforms", "cpu")
        kind.update = updated

    def _lists(self) -> None:
        all_of, local_of, backend_of = xla_bridge.devices, xla_bridge.local_devices, xla_bridge.get_backend

        def chosen(found: list[Any], backend: Any) -> list[Any]:
            on_host = backend == "cpu"
            return [device for device in found if (device.id == self.host) == on_host]

        def get_backend(platform: Any = None) -> Any:
            return backend_of(None if platform in _GPU else platform)

        def devices(backend: Any = None) -> list[Any]:
            return chosen(all_of(None if backend in _GPU else backend), backend)

        def local_devices(
            process_index: int | None = None, backend: Any = None, host_id: int | None = None
        ) -> list[Any]:
            return chosen(local_of(process_index, None if backend in _GPU else backend, host_id), backend)

        def device_count(backend: Any = None) -> int:
            return len(devices(backend))

        def local_device_count(backend: Any = None) -> int:
            return len(local_devices(backend=backend))

        for function in (devices, local_devices, device_count, local_device_count):
            function.__doc__ = getattr(xla_bridge, function.__name__).__doc__
            setattr(xla_bridge, function.__name__, function)
            setattr(jax, function.__name__, function)
        xla_bridge.get_backend = get_backend
        jax.default_backend = lambda: "gpu"

    def _properties(self) -> None:
        kind = _jax.Device
        platform, product, statistics = kind.platform, kind.device_kind, kind.memory_stats
        devices = self

        def told(device: Any, original: Any, on_card: Any) -> Any:
            return original.__get__(device) if device.id == devices.host or _from_jax(2) else on_card

        def memory_stats(device: Any) -> Any:
            if device.id == devices.host:
                return statistics(device)
            return devices._statistics(device.id)

        kind.platform = property(lambda device: told(device, platform, "gpu"))
        kind.device_kind = property(lambda device: told(device, product, devices.product))
        kind.memory_stats = memory_stats


def _from_jax(depth: int = 1) -> bool:
    """Whether the caller's caller is JAX."""
    name = str(sys._getframe(depth + 1).f_globals.get("__name__", ""))
    return name == "jax" or name.startswith(_JAX)
