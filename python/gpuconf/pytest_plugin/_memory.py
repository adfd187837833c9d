# SPDX-License-Identifier: Apache-2.0
"""What the fixture ``gpu_memory`` measures."""

from __future__ import annotations

from .. import memory
from .._core import runtime
from .._core.native import loaded
from . import _pytorch


class GpuMemory:
    """The memory in use on one logical GPU since the fixture was set up, in bytes: in its pool, and in PyTorch's own
    allocator.

    Initializes no devices. Of a machine that the test simulates later, all memory counts. If both have memory in use,
    ``peak`` is the sum of their peaks, which may be at different times.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self._pool = _Pool(device)
        self._torch = _Torch(device)
        self._ended: tuple[int, int] | None = None  # peak, in use

    @property
    def start(self) -> int:
        """What was in use when the fixture was set up."""
        return self._pool.start + self._torch.start

    @property
    def end(self) -> int:
        """What is in use: now, or at the end of the test."""
        return self._ended[1] if self._ended is not None else self._pool.in_use() + self._torch.in_use()

    @property
    def peak(self) -> int:
        """The most that was in use so far."""
        return self._ended[0] if self._ended is not None else self._pool.peak() + self._torch.peak()

    def stop(self) -> None:
        """Fix the figures, at the end of the test."""
        self._ended = self.peak, self.end
        self._pool.stop()
        self._torch.stop()

    def __repr__(self) -> str:
        return f"<gpu_memory of {self.device}: start {self.start}, peak {self.peak}, end {self.end} bytes>"


class _Torch:
    """What PyTorch's own allocator has in use on a GPU."""

    def __init__(self, device: str) -> None:
        self._number = int(device.rpartition(":")[2])
        self._peak = _pytorch.Peak()
        self._peak.start()
        self.start = self.in_use()

    def _ordinal(self) -> int:
        ordinals = runtime.ordinals() if loaded() and runtime.initialized() else []
        return ordinals[self._number] if self._number < len(ordinals) else self._number

    def in_use(self) -> int:
        return _pytorch.in_use().get(self._ordinal(), (0, 0))[0]

    def peak(self) -> int:
        return self._peak.read().get(self._ordinal(), 0)

    def stop(self) -> None:
        self._peak.stop()


class _Pool:
    """What a logical GPU's pool has in use."""

    def __init__(self, device: str) -> None:
        self._device = device
        self.start = 0
        self._peak = 0
        self._measurement: memory.Measurement | None = None
        self._generation = -1
        if self._there():
            self.start = self._peak = memory.stats(device).bytes_in_use
            self._measure()

    def _there(self) -> bool:
        return loaded() and runtime.initialized() and bool(runtime.ordinals())

    def _measure(self) -> None:
        self._generation = runtime.current.generation
        self._measurement = memory.measure(self._device).__enter__()

    def in_use(self) -> int:
        return memory.stats(self._device).bytes_in_use if self._there() else 0

    def peak(self) -> int:
        if self._there():
            if self._measurement is not None and self._generation == runtime.current.generation:
                self._measurement.__exit__(None, None, None)
                self._peak = max(self._peak, self._measurement.peak)
                self._measure()
            else:  # the pools are younger than the fixture
                self.start = 0
                self._peak = memory.stats(self._device).peak_bytes_in_use
        return self._peak

    def stop(self) -> None:
        if self._measurement is not None and self._generation == runtime.current.generation:
            self._measurement.__exit__(None, None, None)
        self._measurement = None
