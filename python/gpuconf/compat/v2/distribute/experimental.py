# SPDX-License-Identifier: Apache-2.0
"""``tf.distribute.experimental``: more strategies, and older names."""

from __future__ import annotations

import enum

from .... import config
from ...._core.built_in_errors import raise_built_in
from ...._core.public import name_after
from ...._missing import watch
from ...._typing import Any
from ._replicas import ValueContext
from ._strategies import MultiWorkerMirroredStrategy, Strategy, StrategyExtended, TPUStrategy, full_name

__all__ = [
    "CentralStorageStrategy",
    "CollectiveCommunication",
    "CommunicationImplementation",
    "CommunicationOptions",
    "MultiWorkerMirroredStrategy",
    "TPUStrategy",
    "ValueContext",
]


class CommunicationImplementation(enum.Enum):
    """How workers communicate. gpuconf keeps it as an argument only."""

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"


CollectiveCommunication = CommunicationImplementation


class CommunicationOptions:
    """The options of communication. gpuconf keeps them as an argument only."""

    def __init__(
        self,
        bytes_per_pack: int = 0,
        timeout_seconds: float | None = None,
        implementation: Any = CommunicationImplementation.AUTO,
    ) -> None:
        if bytes_per_pack < 0:
            raise ValueError(f"Argument `bytes_per_pack` must be >=0, Received {bytes_per_pack}.")
        self.bytes_per_pack = bytes_per_pack
        self.timeout_seconds = timeout_seconds
        self.implementation = implementation

    def __str__(self) -> str:
        return (
            f"Options(bytes_per_pack={self.bytes_per_pack},timeout_seconds={self.timeout_seconds}, "
            f"implementation={self.implementation})"
        )


class CentralStorageStrategy(Strategy):
    """One replica on each logical GPU, with the parameters on the CPU, or on the GPU if there is one.

    Initializes the runtime.

    >>> CentralStorageStrategy().extended.parameter_devices
    ('/job:localhost/replica:0/task:0/device:CPU:0',)
    """

    def __init__(self, compute_devices: Any = None, parameter_device: Any = None) -> None:
        found = compute_devices or config.list_logical_devices("GPU") or config.list_logical_devices("CPU")[:1]
        devices = tuple(map(full_name, found))
        if parameter_device is None:
            parameter_device = devices[0] if len(devices) == 1 else "/cpu:0"
        super().__init__(StrategyExtended(devices, (full_name(parameter_device),)))


name_after(__name__, __all__)
raise_built_in(__name__, __all__)


def __dir__() -> list[str]:
    return __all__


watch(globals())
