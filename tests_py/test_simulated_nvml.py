"""The simulated NVML (pybind/simulator/nvml) as nvidia-ml-py, and programs that call it carelessly, see it."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pynvml
import pytest
from fake_nvml import fake_nvml

SOURCES = Path(__file__).resolve().parent.parent / "pybind" / "simulator" / "nvml"
NAMES = re.findall(r"^FUNCTION\((\w+)\)", (SOURCES / "functions.h").read_text(), re.M)
GIB = 1 << 30


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built library."""
    return fake_nvml(tmp_path_factory.mktemp("nvml"))


def run(library: Path, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program that finds the library."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPUCONF_", "FAKE_NVML", "CUDA_"))}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        env=clean | {"LD_LIBRARY_PATH": str(library)} | environment,
        timeout=60,
    )


def told(library: Path, program: str, **environment: str) -> object:
    """Run a program that prints JSON, and return that."""
    done = run(library, program, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


CARDS = """
import json, pynvml as n
n.nvmlInit()
cards = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
"""


def test_nvidia_ml_py_sees_the_cards_of_the_spec(library: Path) -> None:
    """Two models: names, memory, capability, architecture and clocks of each, found by index, UUID and bus id."""
    program = """
    out = []
    for c in cards:
        pci, memory = n.nvmlDeviceGetPciInfo(c), n.nvmlDeviceGetMemoryInfo(c)
        uuid = n.nvmlDeviceGetUUID(c)
        same = [n.nvmlDeviceGetHandleByUUID(uuid), n.nvmlDeviceGetHandleByPciBusId(pci.busId)]
        out.append([n.nvmlDeviceGetName(c), memory.total, memory.used, n.nvmlDeviceGetMemoryInfo(c, n.nvmlMemory_v2).total,
                    n.nvmlDeviceGetCudaComputeCapability(c), n.nvmlDeviceGetArchitecture(c), n.nvmlDeviceGetNumGpuCores(c),
                    n.nvmlDeviceGetMaxClockInfo(c, n.NVML_CLOCK_SM), [n.nvmlDeviceGetIndex(s) for s in same],
                    n.nvmlDeviceGetUtilizationRates(c).gpu, len(n.nvmlDeviceGetComputeRunningProcesses(c))])
    print(json.dumps(out))
    """
    assert told(library, CARDS + textwrap.dedent(program), GPUCONF_SIMULATE="H100-80GB,T4:8GiB") == [
        ["NVIDIA H100 80GB HBM3", 80 * GIB, 0, 80 * GIB, [9, 0], 9, 16896, 1980, [0, 0], 0, 0],
        ["Tesla T4", 8 * GIB, 0, 8 * GIB, [7, 5], 6, 2560, 1590, [1, 1], 0, 0],
    ]


def test_the_cards_are_those_of_gpuconf(library: Path) -> None:
    """Gpuconf and NVML read names in the same way (test_simulated_cards.py has every model)."""
    spec = "2 x h100,geforce rtx 4090,NVIDIA L4:4GB,a100:512MiB"
    theirs = """
    print(json.dumps([
        [n.nvmlDeviceGetUUID(c), n.nvmlDeviceGetName(c), n.nvmlDeviceGetMemoryInfo(c).total,
         n.nvmlDeviceGetCudaComputeCapability(c)]
        for c in cards
    ]))
    """
    ours = """
    import json, gpuconf
    print(json.dumps([[d.uuid, d.name, d.total_memory, d.compute_capability] for d in gpuconf.visible_devices()]))
    """
    ordered = told(library, ours, GPUCONF_SIMULATE=spec, CUDA_DEVICE_ORDER="PCI_BUS_ID")  # NVML's order
    assert told(library, CARDS + textwrap.dedent(theirs), GPUCONF_SIMULATE=spec) == ordered


WRONG = ["H1000", "T4:8", "0xT4", "65xT4", ",", "T4:3B", "x" * 500, f"T4:{10**20}GiB", f"{10**20}xT4"]


@pytest.mark.parametrize("spec", WRONG)
def test_a_wrong_spec_is_refused(library: Path, spec: str) -> None:
    """NvmlInit fails, and one line says why."""
    done = run(library, "import pynvml; pynvml.nvmlInit()", GPUCONF_SIMULATE=spec)
    assert "NVMLError_DriverNotLoaded" in done.stderr
    assert done.stderr.startswith("gpuconf's simulated NVML: GPUCONF_SIMULATE: ")


def test_what_only_a_card_can_measure_is_not_supported(library: Path, tmp_path: Path) -> None:
    """Power and temperature raise NotSupported; the log has each name once."""
    program = """
    for c in cards * 2:
        for ask in (n.nvmlDeviceGetPowerUsage, lambda c: n.nvmlDeviceGetTemperature(c, 0)):
            try:
                ask(c)
            except n.NVMLError_NotSupported as error:
                assert str(error) == "Not Supported"
            else:
                raise SystemExit("an invented number")
    print(0)
    """
    log = tmp_path / "log"
    told(library, CARDS + textwrap.dedent(program), GPUCONF_SIMULATE="T4", GPUCONF_SIMULATOR_LOG=str(log))
    lines = log.read_text().splitlines()
    assert len([line for line in lines if "nvmlDeviceGetPowerUsage" in line]) == 1


def test_it_has_all_functions_of_nvidia_ml_py(library: Path) -> None:
    """Every name that nvidia-ml-py requests is exported."""
    wanted = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', Path(pynvml.__file__).read_text()))
    copy = library / "nvml_of_this_test.so"  # under NVIDIA's name, this process could not simulate GPUs any more
    shutil.copy(library / "libnvidia-ml.so.1", copy)
    nvml = ctypes.CDLL(str(copy))
    assert len(wanted) > 300
    assert [name for name in sorted(wanted | set(NAMES)) if not hasattr(nvml, name)] == []


def test_no_function_crashes_on_nulls(library: Path) -> None:
    """Before nvmlInit each returns UNINITIALIZED; after it, with NULLs, an error or the answer to no question."""
    program = f"""
    import ctypes, json
    nvml, starts = ctypes.CDLL("libnvidia-ml.so.1"), ("nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown")
    names = [name for name in {NAMES!r} if name not in starts]
    ask = lambda: {{getattr(nvml, name)(*[ctypes.c_void_p()] * 8) for name in names}}
    early = ask()
    nvml.nvmlInit_v2()
    late = ask()
    assert [nvml.nvmlInit_v2(), nvml.nvmlShutdown(), nvml.nvmlShutdown(), nvml.nvmlShutdown()] == [0, 0, 0, 1]
    print(json.dumps([sorted(early), sorted(late)]))
    """
    assert told(library, program, GPUCONF_SIMULATE="T4") == [[1], [2, 3]]


def test_a_forked_child_asks_on(library: Path) -> None:
    """A child has its parent's machine."""
    program = """
    import os
    child = os.fork()
    if child == 0:
        os._exit(len(cards) if n.nvmlDeviceGetName(cards[1]) == "Tesla T4" else 99)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert told(library, CARDS + textwrap.dedent(program), GPUCONF_SIMULATE="2xT4") == 2


def test_a_process_with_another_nvml_cannot_simulate(library: Path) -> None:
    program = """
    import ctypes
    import gpuconf
    ctypes.CDLL("libnvidia-ml.so.1")
    try:
        gpuconf.simulate("T4")
        gpuconf.config.list_physical_devices()
    except gpuconf.errors.FailedPreconditionError as error:
        print(error)
    """
    said = run(library, textwrap.dedent(program)).stdout
    assert f"this process has loaded {library / 'libnvidia-ml.so.1'}, and a process has one driver" in said
