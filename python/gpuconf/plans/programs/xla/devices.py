# SPDX-License-Identifier: Apache-2.0
"""JAX's CPU devices as the requested cards, for the program. JAX's own code sees the CPU. JAX is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable

import jax
from jax._src import xla_bridge
from jax._src.lib import _jax

from ...._typing import Any

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
