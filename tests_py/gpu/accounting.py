"""gpuconf's figures against the driver's and NVML's."""

from __future__ import annotations

import ctypes
import os

import gpuconf
from checks import MIB, Missing, driver, expect, free_and_total, note


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class Nvml:
    """The first card as NVML sees it."""

    def __init__(self) -> None:
        try:
            self.library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise Missing(f"NVML is missing ({error})") from None
        if not hasattr(self.library, "nvmlDeviceGetHandleByUUID"):
            raise Missing("this NVML lacks nvmlDeviceGetHandleByUUID")
        self.card = ctypes.c_void_p()
        uuid = gpuconf.visible_devices()[0].uuid.encode()
        expect(self.library.nvmlInit_v2() == 0, "NVML does not start")
        expect(self.library.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(self.card)) == 0, "NVML does not know the card's UUID")

    def used(self) -> int:
        """Bytes in use on the card, by all processes."""
        memory = _Memory()
        result = self.library.nvmlDeviceGetMemoryInfo(self.card, ctypes.byref(memory))
        if result:
            raise Missing(f"NVML has no memory information for this card (result {result})")
        return int(memory.used)

    def used_by_this_process(self) -> int | None:
        """Bytes of this process; None where NVML does not say, as in another process namespace."""
        if not hasattr(self.library, "nvmlDeviceGetComputeRunningProcesses_v3"):
            return None
        count, rows = ctypes.c_uint(64), (_Process * 64)()
        if self.library.nvmlDeviceGetComputeRunningProcesses_v3(self.card, ctypes.byref(count), rows):
            return None
        found = [int(row.used) for row in rows[: count.value] if row.pid == os.getpid()]
        return found[0] if found and found[0] < 1 << 60 else None


def case_our_sums_are_nvmls() -> None:
    """What gpuconf reserves is what the driver and NVML see go, with growth and without, and all of it comes back."""
    nvml = Nvml()
    before_context = nvml.used()
    cuda = driver()
    context = nvml.used() - before_context
    note(context_bytes=context)
    for growth in (False, True):
        gpuconf.configure(limit="1GiB", growth=growth, libraries=[])
        gpuconf.config.list_logical_devices()
        start, start_nvml = free_and_total(cuda)[0], nvml.used()
        buffers = [gpuconf.memory.allocate(37 * MIB) for _ in range(20)]
        reserved = gpuconf.memory.stats().bytes_reserved
        kind = "growth" if growth else "whole"
        by_driver, by_nvml = start - free_and_total(cuda)[0], nvml.used() - start_nvml
        seen = {"reserved": reserved, "driver": by_driver, "nvml": by_nvml, "nvml_process": nvml.used_by_this_process()}
        note(**{f"{kind}_{name}": value for name, value in seen.items()})
        if growth:  # without growth the pool exists before the first buffer
            expect(abs(by_driver - reserved) <= 2 * MIB, f"the driver sees {by_driver} bytes, gpuconf {reserved}")
            expect(abs(by_nvml - reserved) <= 4 * MIB, f"NVML sees {by_nvml} bytes, gpuconf {reserved}")
        for buffer in buffers:
            buffer.free()
        gpuconf.reset()
    left = nvml.used() - before_context - context
    note(left_after_reset=left)
    expect(left <= 4 * MIB, f"{left} bytes did not come back")
