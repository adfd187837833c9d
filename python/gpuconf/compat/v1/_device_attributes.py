"""What ``Session.list_devices`` tells of a device."""

from __future__ import annotations


class DeviceAttributes:
    """A device of a session: its full name, its type (``"GPU"``), its memory limit in bytes, and its incarnation.

    The incarnation is a random number of 64 bits that tells the devices of different sessions apart.
    """

    def __init__(self, name: str, device_type: str, memory_limit_bytes: int, incarnation: int) -> None:
        self._name = name
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
        """The hard limit of a logical GPU, in bytes. For a CPU it is 256 MiB, as in TensorFlow, and not enforced."""
        return self._memory_limit_bytes

    @property
    def incarnation(self) -> int:
        """A random number, the same in all calls on one session."""
        return self._incarnation

    def __repr__(self) -> str:
        return f"_DeviceAttributes({self.name}, {self.device_type}, {self.memory_limit_bytes}, {self.incarnation})"


DeviceAttributes.__name__ = DeviceAttributes.__qualname__ = "_DeviceAttributes"  # TensorFlow's, which its error messages contain
