# SPDX-License-Identifier: Apache-2.0
"""The most memory that a test has in use on each GPU, beyond what was in use before."""

from __future__ import annotations

import json

from .. import memory
from .._core import runtime
from .._core.generated.stats import PeakStart, Usage
from .._core.native import core, loaded
from . import _pytorch


def _started(number: int) -> int:
    """Start a measurement on a logical GPU, and return what identifies it."""
    return PeakStart._read(json.loads(core.pybind_StartPeak(number))).id


def _stopped(number: int, peak: int) -> int:
    """End a measurement, and return its peak."""
    return Usage._read(json.loads(core.pybind_StopPeak(number, peak))).peak_bytes_in_use


class Peaks:
    """Measures one test after the other. The pools count, so that equal tests have equal peaks."""

    def __init__(self) -> None:
        self._open: list[tuple[int, int, int]] = []  # number of the GPU, id of the measurement, bytes in use before
        self._generation = -1
        self._torch: _pytorch.Peak | None = None  # of PyTorch's own allocator
        self._torch_before: dict[int, int] = {}
        self.above: dict[int, int] = {}  # by GPU: the most bytes in use beyond those before
        runtime.before_replacing.append(self.read)

    def begin(self, torch: bool = False) -> None:
        """Begin with a test.

        With ``torch``, what PyTorch's own allocator has in use counts, whose peak is reset then.
        """
        self.above = {}
        if torch and self._torch is None:
            self._torch = _pytorch.Peak()
        elif not torch and self._torch is not None:
            self._torch.stop()
            self._torch = None
        self.go_on()

    def go_on(self) -> None:
        """Take what is in use now as what was in use before: at the start, and when a fixture that outlives the test is
        set up.
        """
        self._stop()
        self._generation = runtime.current.generation
        self._open = [(n, _started(n), before) for n, before in _in_use().items()]
        if self._torch is not None:
            self._torch_before = {ordinal: size for ordinal, (size, _) in _pytorch.in_use().items()}
            self._torch.start()

    def read(self) -> None:
        """Update ``above`` with what has happened so far."""
        if self._generation == runtime.current.generation and self._open:
            peaks = {n: _stopped(n, peak) - before for n, peak, before in self._open}
            self._open = [(n, _started(n), before) for n, _, before in self._open]
        else:  # the pools are younger than the test
            peaks = {number: memory.stats(name).peak_bytes_in_use for number, name in enumerate(_names())}
        if self._torch is not None:
            for ordinal, size in self._torch.read().items():
                number = _pytorch.number_of(ordinal)
                peaks[number] = peaks.get(number, 0) + size - self._torch_before.get(ordinal, 0)
        for number, size in peaks.items():
            self.above[number] = max(self.above.get(number, 0), size)

    def _stop(self) -> None:
        if self._generation == runtime.current.generation:
            for n, number, _ in self._open:
                core.pybind_StopPeak(n, number)
        self._open = []

    @property
    def most(self) -> int:
        """The peak of the GPU with the highest."""
        return max(self.above.values(), default=0)


def _names() -> list[str]:
    if not loaded() or not runtime.listed():
        return []
    return [device.name for device in runtime.logical_devices("pytest") if device.device_type == "GPU"]


def _in_use() -> dict[int, int]:
    return {number: memory.stats(name).bytes_in_use for number, name in enumerate(_names())}


# What the fixture ``gpu_memory`` measures.


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
        ordinals = runtime.ordinals() if loaded() and runtime.listed() else []
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
        runtime.before_replacing.append(self.peak)

    def _there(self) -> bool:
        return loaded() and runtime.listed() and bool(runtime.ordinals())

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
                self._peak = max(self._peak, memory.stats(self._device).peak_bytes_in_use)
        return self._peak

    def stop(self) -> None:
        runtime.before_replacing.remove(self.peak)
        if self._measurement is not None and self._generation == runtime.current.generation:
            self._measurement.__exit__(None, None, None)
        self._measurement = None
