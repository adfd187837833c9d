"""gpuconf's figures against the driver's and NVML's."""

from __future__ import annotations

import ctypes
import os

import gpuconf
from checks import MIB, Missing, driver, expect, free_and_total, need, note, succeed


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _Pci(ctypes.Structure):
    _fields_ = (
        ("legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("device_id", ctypes.c_uint),
        ("subsystem", ctypes.c_uint),
        ("text", ctypes.c_char * 32),
    )


def answer(result: int, call: str) -> None:
    """A call of NVML has returned success."""
    expect(result == 0, f"{call}: NVML's error {result}")


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
        answer(self.library.nvmlInit_v2(), "nvmlInit")
        answer(
            self.library.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(self.card)),
            f"nvmlDeviceGetHandleByUUID of {uuid!r}",
        )

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


def case_nvml_and_the_driver_name_the_same_card() -> None:
    """The card that NVML has at gpuconf's index is the driver's: its UUID, its place on the bus, its name and its
    memory.
    """
    nvml, cuda, card = Nvml().library, driver(), gpuconf.visible_devices()[0]
    if card.uuid.startswith("MIG-"):
        raise Missing("a MIG instance has no index in NVML")
    if card.nvml_index is None:
        raise AssertionError("gpuconf does not know the card's index in NVML")
    by_index, pci, memory = ctypes.c_void_p(), _Pci(), _Memory()
    answer(
        nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(card.nvml_index), ctypes.byref(by_index)),
        "nvmlDeviceGetHandleByIndex",
    )
    uuid, name = ctypes.create_string_buffer(96), ctypes.create_string_buffer(96)
    answer(nvml.nvmlDeviceGetUUID(by_index, uuid, 96), "nvmlDeviceGetUUID")
    answer(nvml.nvmlDeviceGetName(by_index, name, 96), "nvmlDeviceGetName")
    answer(nvml.nvmlDeviceGetPciInfo_v3(by_index, ctypes.byref(pci)), "nvmlDeviceGetPciInfo")
    answer(nvml.nvmlDeviceGetMemoryInfo(by_index, ctypes.byref(memory)), "nvmlDeviceGetMemoryInfo")
    place, total = ctypes.create_string_buffer(32), free_and_total(cuda)[1]
    succeed(cuda.cuDeviceGetPCIBusId(place, 32, 0), "cuDeviceGetPCIBusId")
    note(index=card.nvml_index, name=card.name, total_by_driver=total, total_by_nvml=memory.total)
    expect(uuid.value.decode() == card.uuid, f"NVML's UUID is {uuid.value!r}, gpuconf's {card.uuid}")
    expect(name.value.decode() == card.name, f"NVML's name is {name.value!r}, gpuconf's {card.name}")
    by_driver = tuple(int(part, 16) for part in place.value.decode().partition(".")[0].split(":"))
    expect(
        (pci.domain, pci.bus, pci.device) == by_driver,
        f"NVML has the card at {pci.text!r}, the driver at {place.value!r}",
    )
    expect(
        card.pci_bus_id.lower() == place.value.decode().lower(),
        f"gpuconf has {card.pci_bus_id}, the driver {place.value!r}",
    )
    expect(card.total_memory == total <= memory.total, f"gpuconf has {card.total_memory} bytes, the driver {total}")


def case_what_torch_takes_beside_its_tensors() -> None:
    """Memory of the card that no limit counts:
    PyTorch's context and, after a product, cuBLAS; the workspace is in the pool.
    """
    torch, nvml = need("torch"), Nvml()
    before = nvml.used()
    gpuconf.configure(limit="1GiB", growth=True, libraries=["torch"])
    x = torch.ones(1024, 1024, device="cuda")
    torch.cuda.synchronize()
    note(after_first_tensor=nvml.used() - before - gpuconf.memory.stats().bytes_reserved)
    x = x @ x
    torch.cuda.synchronize()
    beside = nvml.used() - before - gpuconf.memory.stats().bytes_reserved
    note(after_product=beside)
    expect(0 <= beside < 4 << 30, f"{beside} bytes beside the pool")
