# SPDX-License-Identifier: Apache-2.0
"""The device description that ``Session.list_devices`` returns."""

from __future__ import annotations

from ..._core.device_spec import DeviceSpec


class DeviceAttributes:
    """A device of a session: its full name, type (``"GPU"``), memory limit in bytes and incarnation.

    The incarnation is a random 64-bit number that distinguishes the devices of different sessions.
    """

    def __init__(self, name: str, device_type: str, memory_limit_bytes: int, incarnation: int) -> None:
        self._name: str = DeviceSpec.from_string(name).to_string()
        self._device_type = device_type
        self._memory_limit_bytes = memory_limit_bytes
        self._incarnation = incarnation

    @property
    def name(self) -> str:
        """The full name, such as ``"/job:localhost/replica:0/task:0/device:GPU:0"``."""
        return self._name

    @property
    def device_type(self) -> str:
        """The type: ``"CPU"`` or ``"GPU"``."""
        return self._device_type

    @property
    def memory_limit_bytes(self) -> int:
        """The hard limit of a logical GPU, in bytes. For a CPU, 256 MiB as in TensorFlow, not enforced."""
        return self._memory_limit_bytes

    @property
    def incarnation(self) -> int:
        """A random number, constant within a session."""
        return self._incarnation

    def __repr__(self) -> str:
        return f"_DeviceAttributes({self.name}, {self.device_type}, {self.memory_limit_bytes}, {self.incarnation})"


# TensorFlow's, which its error messages contain.
DeviceAttributes.__name__ = DeviceAttributes.__qualname__ = "_DeviceAttributes"
