# SPDX-License-Identifier: Apache-2.0
"""What the fixture ``gpu_memory`` measures."""

from __future__ import annotations

from .. import memory
from .._core import runtime
from .._core.native import loaded


class GpuMemory:
    """The memory in use on one logical GPU since the fixture was set up, in bytes.

    Initializes no devices. Of a machine that the test simulates later, all memory counts.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.start = 0
        self._peak = 0
        self._ended: int | None = None
        self._measurement: memory.Measurement | None = None
        self._generation = -1
        if self._there():
            self.start = self._peak = memory.stats(device).bytes_in_use
            self._measure()

    def _there(self) -> bool:
        return loaded() and runtime.initialized() and bool(runtime.ordinals())

    def _measure(self) -> None:
        self._generation = runtime.current.generation
        self._measurement = memory.measure(self.device).__enter__()

    @property
    def end(self) -> int:
        """What is in use: now, or at the end of the test."""
        if self._ended is not None:
            return self._ended
        return memory.stats(self.device).bytes_in_use if self._there() else 0

    @property
    def peak(self) -> int:
        """The most that was in use so far."""
        if self._ended is None and self._there():
            if self._measurement is not None and self._generation == runtime.current.generation:
                self._measurement.__exit__(None, None, None)
                self._peak = max(self._peak, self._measurement.peak)
                self._measure()
            else:  # the pools are younger than the fixture
                self.start = 0
                self._peak = memory.stats(self.device).peak_bytes_in_use
        return self._peak

    def stop(self) -> None:
        """Fix the figures, at the end of the test."""
        self._peak, self._ended = self.peak, self.end
        if self._measurement is not None and self._generation == runtime.current.generation:
            self._measurement.__exit__(None, None, None)
        self._measurement = None

    def __repr__(self) -> str:
        return f"<gpu_memory of {self.device}: start {self.start}, peak {self.peak}, end {self.end} bytes>"
