# SPDX-License-Identifier: Apache-2.0
"""The configuration of a process, kept while a lease replaces it."""

from __future__ import annotations

from .. import config
from .._core import runtime
from .._core.native import core
from .._typing import Any
from ..machine.visible import visible_devices

# The switches of gpuconf.config that a reset discards.
_SETTINGS = (
    "soft_device_placement",
    "log_device_placement",
    "synchronous_execution",
    "intra_op_parallelism_threads",
    "inter_op_parallelism_threads",
)


class KeptConfiguration:
    """Growth, limits and visibility of each GPU by its UUID, and the switches.

    Takes them from devices that are listed already.
    """

    def __init__(self) -> None:
        self._growth: dict[str, bool] = {}
        self._logical: dict[str, list[Any]] = {}
        self._visible: list[str] | None = None
        self._settings: dict[str, str] = {}
        self._overrides = dict(runtime.current.overrides)
        if not runtime.enumerated():
            return
        uuids = _uuids()
        self._settings = {name: core.pybind_Setting(name) for name in _SETTINGS}
        shown = config.get_visible_devices("GPU")
        if len(shown) != len(uuids):
            self._visible = [uuids[gpu.name] for gpu in shown]
        for gpu in config.list_physical_devices("GPU"):
            growth, logical = config.experimental.get_memory_growth(gpu), config.get_logical_device_configuration(gpu)
            if growth is not None:
                self._growth[uuids[gpu.name]] = bool(growth)
            if logical is not None:
                self._logical[uuids[gpu.name]] = logical

    def adopt(self) -> None:
        """Apply the switches to the devices that are listed now, and growth, if it was the same for all GPUs that had a
        value.
        """
        self._put_switches()
        values = set(self._growth.values())
        for gpu in config.list_physical_devices("GPU") if len(values) == 1 else ():
            config.experimental.set_memory_growth(gpu, *values)

    def restore(self) -> None:
        """Apply all of it to the devices that are listed now, as far as they were listed before."""
        self._put_switches()
        if self._visible is None and not self._growth and not self._logical:
            return
        names = {uuid: name for name, uuid in _uuids().items()}
        gpus = {uuid: gpu for gpu in config.list_physical_devices("GPU") for uuid in names if names[uuid] == gpu.name}
        if self._visible is not None:
            config.set_visible_devices([gpus[uuid] for uuid in self._visible if uuid in gpus], "GPU")
        for uuid in gpus.keys() & self._growth.keys():
            config.experimental.set_memory_growth(gpus[uuid], self._growth[uuid])
        for uuid in gpus.keys() & self._logical.keys():
            config.set_logical_device_configuration(gpus[uuid], self._logical[uuid])

    def _put_switches(self) -> None:
        runtime.current.overrides.update(self._overrides)
        for name, value in self._settings.items():
            core.pybind_SetSetting(name, value)


def _uuids() -> dict[str, str]:
    """Return the UUID of each physical GPU by its name."""
    return {device.physical_device: device.uuid for device in visible_devices() if device.physical_device is not None}
