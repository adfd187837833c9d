# SPDX-License-Identifier: Apache-2.0
"""What a driver and NVML say of a card, and what their functions answer to arguments that are all zero."""

import re
from pathlib import Path

from answers import Calls, Cell, Driver, cell

SOURCES = Path(__file__).resolve().parents[3] / "gocore" / "sim"
FORM = re.compile(r"^FORM\((\w+), (\w+),", re.MULTILINE)
FUNCTION = re.compile(r"^STATUS\((\w+)\)", re.MULTILINE)

# They would change the state that the calls after them need, end the process, or touch what is not this process's.
NOT_IN_SWEEP = re.compile(
    r"cuDevicePrimaryCtx(Reset|Release|SetFlags)|cuCtx(PopCurrent|SetCurrent|Destroy|Detach)|cuCheckpoint|BeginCapture|cudbg"
    r"|cuCoredump|cuGetExportTable|cuEGL|cuGL|cuVDPAU|EGL|cuInit$|cuLogicalEndpoint|cuMulticastCreate"
)
NVML_READS = re.compile(r"nvml(Device(Get|IsMig|OnSameBoard|QueryDrain)|SystemGet|Unit(Get)|Get|GpmQuery|VgpuTypeGet)")


def driver_names() -> list[str]:
    """Return the functions of the simulator's table."""
    text = (SOURCES / "cuda" / "functions.h").read_text()
    return sorted({exported for _, exported in FORM.findall(text)})


def base_names() -> list[str]:
    """Return the names that cuGetProcAddress takes."""
    return sorted({base for base, _ in FORM.findall((SOURCES / "cuda" / "functions.h").read_text())})


def nvml_names() -> list[str]:
    """Return NVML's functions."""
    return sorted(set(FUNCTION.findall((SOURCES.parent / "machine" / "nvml" / "symbols.h").read_text())))


def device(descriptor: int, skip: int) -> None:
    """What the driver says of the device."""
    d = Driver(descriptor)
    d.init()
    o, p, q = Cell(512), Cell(64), Cell(64)
    d("cuDriverGetVersion", o, v=lambda: o.u)
    d("cuDeviceGetCount", o, v=lambda: o.u)
    for ordinal in (0, 1, -1, 100):
        d("cuDeviceGet", o, ordinal, say=str(ordinal), v=lambda: o.u)
    d("cuDeviceGetName", o, 512, 0, v=lambda: o.text)
    for length in (0, 1, 5, -1):
        d("cuDeviceGetName", o, length, 0, say=str(length), v=lambda: o.text)
    d("cuDeviceTotalMem_v2", o, 0, v=lambda: o.v)
    for attribute in range(201):
        d("cuDeviceGetAttribute", o, attribute, 0, say=str(attribute), v=lambda: o.i)
    d("cuDeviceGetAttribute", o, 16, 1, say="16 of device 1")
    d("cuDeviceGetUuid", o, 0, v=lambda: len(set(o.memory.raw[:16])) > 4)
    d("cuDeviceGetUuid_v2", p, 0, v=lambda: p.memory.raw[:16] == o.memory.raw[:16])
    d("cuDeviceGetPCIBusId", o, 64, 0, v=lambda: re.sub("[0-9A-F]", "X", o.text))
    for length in (0, 1, 12, 13):
        d("cuDeviceGetPCIBusId", o, length, 0, say=str(length), v=lambda: re.sub("[0-9A-F]", "X", o.text))
    d.quiet("cuDeviceGetPCIBusId", o, 64, 0)
    for text in (o.text, o.text.lower(), o.text[5:], o.text.split(".")[0], "0000" + o.text, "zz", "", "ffff:ff:1f.0"):
        form = re.sub("[0-9a-f]", "X", text, flags=re.I)
        d("cuDeviceGetByPCIBusId", p, text.encode(), say=form + text[-1:] * 0, v=lambda: p.u)
    d("cuDeviceComputeCapability", p, q, 0, v=lambda: [p.u, q.u])
    d("cuDeviceGetLuid", p, q, 0)
    d("cuDeviceGetProperties", o, 0, v=lambda: o.all("12i"))
    for kind in range(6):
        d("cuDeviceGetP2PAttribute", o, kind, 0, 0, say=str(kind), v=lambda: o.i)
    d("cuDeviceCanAccessPeer", o, 0, 0, v=lambda: o.i)
    d("cuDeviceCanAccessPeer", o, 0, 1, say="of device 1", v=lambda: o.i)
    for kind in range(3):
        d("cuDeviceGetExecAffinitySupport", o, kind, 0, say=str(kind), v=lambda: o.i)
    for form, channels in ((1, 1), (8, 1), (32, 4), (32, 3), (99, 1)):
        d("cuDeviceGetTexture1DLinearMaxWidth", o, form, channels, 0, say=f"{form} {channels}", v=lambda: o.v)
    d("cuDevicePrimaryCtxGetState", 0, p, q, v=lambda: [p.u, q.u])
    d("cuFlushGPUDirectRDMAWrites", 0, 100, say="without context")
    d("cuDeviceGetDefaultMemPool", o, 0, v=lambda: o.v != 0)
    d("cuModuleGetLoadingMode", o, v=lambda: o.u)
    for attribute in range(4):
        d("cuDeviceGetGraphMemAttribute", 0, attribute, o, say=str(attribute), v=lambda: o.v)
    for kind in range(4):
        d("cuDeviceGetDevResource", 0, Cell(256), kind, say=str(kind))
    d("cuDeviceGetHostAtomicCapabilities", o, cell("I", 0), 1, 0)


def errors(descriptor: int, skip: int) -> None:
    """Names and texts of errors."""
    d = Driver(descriptor)
    import ctypes

    text = Cell()
    for function in ("cuGetErrorName", "cuGetErrorString"):
        for code in (*range(1001), -1, 10000):

            def said() -> str | None:
                return ctypes.string_at(text.v).decode() if text.v else None

            answer = d.quiet(function, code, text)
            if answer == 0 or code in (-1, 10000, 150):
                d(function, code, text, say=str(code), v=said, always=True)
    n = Calls("libnvidia-ml.so.1", descriptor)
    n.library.nvmlErrorString.restype = ctypes.c_char_p
    for code in (*range(1001), -1):
        said_text = n.library.nvmlErrorString(code)
        if code < 60 or code == 999 or code == -1:
            n.note(f"nvmlErrorString {code}", said_text.decode())


def resolver(descriptor: int, skip: int) -> None:
    """What cuGetProcAddress answers, for each name, where the answer changes."""
    d = Driver(descriptor)
    d.init()
    found, status = Cell(), Cell()
    for name in [*base_names(), "cuNothing", "cuMemAlloc_v2", "", "malloc"]:
        for flags in (0, 1, 2, 3, 4):
            line, before = [], None
            for version in (0, 2000, 3020, 4000, *range(11000, 13050, 10), 99990):
                found.memory.raw = status.memory.raw = b"\0" * 8
                code = d.quiet("cuGetProcAddress_v2", name.encode(), found, version, flags, status)
                answer = [code, found.v != 0, status.i]
                if answer != before:
                    line.append([version, *answer])
                before = answer
            d.note(f"resolve {name} {flags}", line)


def sweep(descriptor: int, skip: int) -> None:
    """Every function with arguments that are zero, and with a first argument that can be written, with a context."""
    d = Driver(descriptor)
    context = d.context()
    d.skip = skip
    for name in driver_names():
        if not d.has(name):
            d.number += 0
        for kind in ("zeros", "writable"):
            if NOT_IN_SWEEP.search(name):
                continue
            arguments = [0] * 12
            room = Cell(4096)
            if kind == "writable":
                if not re.search("Get|Create|Retain|Query|Occupancy|Reserve", name) or name.endswith("GetProcAddress"):
                    continue
                arguments[0] = room.address
            d.quiet("cuCtxSetCurrent", context)
            d(name, *arguments, say=kind)


def nvml_sweep(descriptor: int, skip: int) -> None:
    """Every function of NVML that reads, with arguments in three orders."""
    n = Calls("libnvidia-ml.so.1", descriptor)
    n.skip = skip
    n.quiet("nvmlInit_v2")
    handle = Cell()
    n.quiet("nvmlDeviceGetHandleByIndex_v2", 0, handle)
    for name in nvml_names():
        if not NVML_READS.match(name):
            continue
        for zeros in range(3):
            room = [Cell(1 << 16) for _ in range(5)]
            first = [handle.v] if name.startswith("nvmlDevice") else []
            rest = [0] * zeros + [one.address for one in room[zeros:]]
            n(name, *first, *rest, say=f"{zeros} zeros")
    n.quiet("nvmlShutdown")
    for name in nvml_names():
        if name.startswith("nvmlDeviceGet") or name.startswith("nvmlSystemGet"):
            n(name, *[Cell(1 << 16) for _ in range(5)], say="after shutdown")


def nvml(descriptor: int, skip: int) -> None:
    """What NVML says of the card."""
    n = Calls("libnvidia-ml.so.1", descriptor)
    o, p, q, r = Cell(4096), Cell(4096), Cell(64), Cell(64)
    n("nvmlDeviceGetCount_v2", o, say="before init")
    n("nvmlShutdown", say="before init")
    n("nvmlInit_v2")
    n("nvmlInit_v2", say="again")
    n("nvmlShutdown", say="of the second")
    n("nvmlDeviceGetCount_v2", o, v=lambda: o.u)
    n("nvmlSystemGetDriverVersion", o, 80, v=lambda: re.sub("[0-9]", "N", o.text))
    n("nvmlSystemGetDriverVersion", o, 1, say="short")
    n("nvmlSystemGetNVMLVersion", o, 80, v=lambda: re.sub("[0-9]", "N", o.text))
    n("nvmlSystemGetCudaDriverVersion_v2", o, v=lambda: o.u)
    for index in (1, 0):
        n("nvmlDeviceGetHandleByIndex_v2", index, q, say=str(index), v=lambda: q.v != 0)
    h = q.v
    texts = tuple(
        """
        Name Serial UUID BoardPartNumber VbiosVersion InforomImageVersion GspFirmwareVersion PgpuMetadataString
    """.split()
    )
    for name in texts:
        keep = name in ("Name",)
        n(f"nvmlDeviceGet{name}", h, o, 96, v=lambda k=keep: o.text if k else re.sub("[0-9a-fA-F]", "X", o.text))
        n(f"nvmlDeviceGet{name}", h, o, 1, say="short")
    n("nvmlDeviceGetUUID", h, o, 96)
    uuid = o.text
    for text in (uuid, uuid.removeprefix("GPU-"), uuid.upper(), uuid[:-1], "GPU-", ""):
        say = re.sub("[0-9a-fA-F]", "X", text) + (" upper" if text.isupper() else "")
        n("nvmlDeviceGetHandleByUUID", text.encode(), r, say=say, v=lambda: r.v == h)
    n(
        "nvmlDeviceGetPciInfo_v3",
        h,
        o,
        v=lambda: [hex(o.get("I", 28)), hex(o.get("I", 32)), re.sub("[0-9A-F]", "X", o.text), len(o.text)],
    )
    n.quiet("nvmlDeviceGetPciInfo_v3", h, o)
    legacy, long = o.text, o.memory.raw[36:68].split(b"\0")[0].decode()
    for text in (legacy, long, long.lower(), long[4:], long[9:], "zz", ""):
        n(
            "nvmlDeviceGetHandleByPciBusId_v2",
            text.encode(),
            r,
            say=re.sub("[0-9A-Fa-f]", "X", text) + ("l" if text.islower() else ""),
            v=lambda: r.v == h,
        )
    numbers = """
        Brand Architecture Index MinorNumber MemoryBusWidth NumGpuCores MaxPcieLinkGeneration MaxPcieLinkWidth
        CurrPcieLinkGeneration CurrPcieLinkWidth PersistenceMode ComputeMode DisplayMode DisplayActive MultiGpuBoard
        PerformanceState PowerManagementMode PowerManagementLimit PowerManagementDefaultLimit EnforcedPowerLimit
        NumFans BusType IrqNum AdaptiveClockInfoStatus PcieLinkMaxSpeed PcieSpeed VirtualizationMode
        MaxMigDeviceCount GpuInstanceId ComputeInstanceId ModuleId PowerSource GpuMaxPcieLinkGeneration
        SupportedPerformanceStates IsMig RetiredPagesPendingStatus
    """.split()
    for name in numbers:
        n(f"nvmlDeviceGet{name}", h, o, v=lambda: o.u)
    n("nvmlDeviceIsMigDeviceHandle", h, o, v=lambda: o.u)
    for name in """
        PowerUsage FanSpeed TotalEnergyConsumption BoardId InforomConfigurationChecksum PcieReplayCounter
    """.split():
        n(f"nvmlDeviceGet{name}", h, o)
    n("nvmlDeviceGetCudaComputeCapability", h, o, p, v=lambda: [o.u, p.u])
    n("nvmlDeviceGetMigMode", h, o, p, v=lambda: [o.u, p.u])
    n("nvmlDeviceGetEccMode", h, o, p, v=lambda: [o.u, p.u])
    n("nvmlDeviceGetDefaultEccMode", h, o, v=lambda: o.u)
    n("nvmlDeviceGetGpuOperationMode", h, o, p, v=lambda: [o.u, p.u])
    n("nvmlDeviceGetDriverModel", h, o, p, v=lambda: [o.u, p.u])
    n("nvmlDeviceGetPowerManagementLimitConstraints", h, o, p, v=lambda: [o.u, p.u])
    for kind in range(6):
        n("nvmlDeviceGetClockInfo", h, kind, o, say=str(kind))
        n("nvmlDeviceGetMaxClockInfo", h, kind, o, say=str(kind), v=lambda: o.u)
        n("nvmlDeviceGetApplicationsClock", h, kind, o, say=str(kind), v=lambda: o.u)
        n("nvmlDeviceGetDefaultApplicationsClock", h, kind, o, say=str(kind), v=lambda: o.u)
        n("nvmlDeviceGetMaxCustomerBoostClock", h, kind, o, say=str(kind), v=lambda: o.u)
        n("nvmlDeviceGetTemperature", h, kind, o, say=str(kind))
    for kind in range(10):
        n("nvmlDeviceGetTemperatureThreshold", h, kind, o, say=str(kind), v=lambda: o.u)
    n("nvmlDeviceGetUtilizationRates", h, o)
    n("nvmlDeviceGetMemoryInfo", h, o, v=lambda: [o.all("3Q")[0], sum(o.all("3Q")[1:]) - o.all("3Q")[0]])
    for version in (0x02000028, 0, 1, 0x01000028, 0x03000028):
        p = cell("IIQQQQ", version, 0, 0, 0, 0, 0)
        n(
            "nvmlDeviceGetMemoryInfo_v2",
            h,
            p,
            say=hex(version),
            v=lambda c=p: [c.get("Q", 8), sum(c.all("3Q", 16)) - c.get("Q", 8)],
        )
    n("nvmlDeviceGetBAR1MemoryInfo", h, o, v=lambda: o.get("Q", 0))
    for kind in range(7):
        n("nvmlDeviceGetP2PStatus", h, h, kind, o, say=str(kind), v=lambda: o.u)
    n("nvmlDeviceOnSameBoard", h, h, o, v=lambda: o.u)
    n("nvmlDeviceGetTopologyCommonAncestor", h, h, o, v=lambda: o.u)
    for link in (0, 17, 18, 100):
        n("nvmlDeviceGetNvLinkState", h, link, o, say=str(link), v=lambda: o.u)
        n("nvmlDeviceGetNvLinkVersion", h, link, o, say=str(link), v=lambda: o.u)
        for capability in range(6):
            n("nvmlDeviceGetNvLinkCapability", h, link, capability, o, say=f"{link} {capability}", v=lambda: o.u)
    for name in ("Compute", "Graphics", "MPSCompute"):
        for version in ("", "_v2", "_v3"):
            count = cell("I", 0)
            n(f"nvmlDeviceGet{name}RunningProcesses{version}", h, count, 0, say="0 places")
            count = cell("I", 100)
            n(f"nvmlDeviceGet{name}RunningProcesses{version}", h, count, o, say="100 places")
    attributes = Cell(256)
    n("nvmlDeviceGetAttributes_v2", h, attributes, v=lambda: attributes.all("9IQ"))
    n("nvmlDeviceGetSupportedClocksEventReasons", h, o, v=lambda: o.v)
    n("nvmlDeviceGetCurrentClocksEventReasons", h, o)
    n("nvmlDeviceGetSupportedEventTypes", h, o, v=lambda: o.v)
    for profile in range(12):
        n(
            "nvmlDeviceGetGpuInstanceProfileInfo",
            h,
            profile,
            o,
            say=str(profile),
            v=lambda: o.all("10IQ") if 0 else o.all("9I"),
        )
    n("nvmlDeviceGetMigDeviceHandleByIndex", h, 0, r)
    n("nvmlDeviceGetCpuAffinity", h, 4, o)
    n("nvmlDeviceGetNumaNodeId", h, o, v=lambda: o.i)
    n("nvmlUnitGetCount", o, v=lambda: o.u)
    n("nvmlEventSetCreate", r)
    event_set = r.v
    for mask in (0x10, 0x1, 0):
        n("nvmlDeviceRegisterEvents", h, mask, event_set, say=hex(mask))
    n("nvmlEventSetWait_v2", event_set, o, 10)
    n("nvmlEventSetFree", event_set)
    for field in (*range(1, 20), 82, 83, 91, 138, 160, 187, 193, 230, 250):
        values = cell("IIqqIIQ", field, 0, 0, 0, 0, 0, 0)
        n("nvmlDeviceGetFieldValues", h, 1, values, say=str(field), v=lambda c=values: c.all("II", 24))
    for name in ("nvmlDeviceGetName", "nvmlDeviceGetUUID"):
        n(name, 0, o, 96, say="of no device")
        n(name, h, 0, 96, say="to nowhere")
    n("nvmlSystemGetProcessName", 1, o, 100, say="1", v=lambda: o.text != "")
    n("nvmlSystemGetProcessName", 4194300, o, 100, say="of no process")
    n("nvmlShutdown")
    n("nvmlDeviceGetCount_v2", o, say="after shutdown")


UNITS = {
    "resolver": resolver,
    "sweep": sweep,
    "nvml_sweep": nvml_sweep,
    "device": device,
    "errors": errors,
    "nvml": nvml,
}
