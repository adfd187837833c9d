"""What NVML says of a card that has a limit, however a program finds the card, and in whatever order NVML lists the
cards.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest_guard import CARDS, MIB, Job, job
from fake_nvml import fake_nvml

GIB = 1 << 30
MACHINE = """driver 580.95.05
cuda 13000
card {1} domain=0 bus=24 device=0 cc=9.0 mig=off total=2147483648 used=0 NVIDIA H100
card {0} domain=0 bus=23 device=0 cc=9.0 mig=off total=2147483648 used={used} NVIDIA H100
process 4711 bytes=104857600 list=compute gi=-1 ci=-1
"""

NVML = """
nvml = ctypes.CDLL("libnvidia-ml.so.1")
assert nvml.nvmlInit_v2() == 0
class Memory(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("total", "free", "used")]
class Memory2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), *((name, c_uint64) for name in ("total", "reserved", "free", "used"))]
class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("bytes", c_uint64), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]
def handle(name, what):
    found = c_void_p()
    assert getattr(nvml, name)(what, byref(found)) == 0
    return found
HANDLES = {
    "UUID": lambda: handle("nvmlDeviceGetHandleByUUID", FIRST.encode()),
    "index": lambda: handle("nvmlDeviceGetHandleByIndex_v2", 1),
    "PCI bus id": lambda: handle("nvmlDeviceGetHandleByPciBusId_v2", b"00000000:17:00.0"),
}
OTHER = handle("nvmlDeviceGetHandleByIndex_v2", 0)
def mib(memory, *names):
    return [getattr(memory, name) // MIB for name in names]
def info(device):
    memory = Memory()
    assert nvml.nvmlDeviceGetMemoryInfo(device, byref(memory)) == 0
    return mib(memory, "total", "free", "used")
def info2(device):
    memory = Memory2(version=ctypes.sizeof(Memory2) | 2 << 24)
    assert nvml.nvmlDeviceGetMemoryInfo_v2(device, byref(memory)) == 0
    return mib(memory, "total", "reserved", "free", "used")
"""

Ask = Callable[..., list[str]]


@pytest.fixture
def ask(both: Path, tmp_path: Path) -> Ask:
    """Run code with NVML under a limit, on a machine of which the first card of CUDA's is the second of NVML's."""

    def call(code: str, limits: dict[str, int] | int, used: int = 0, machine: str = MACHINE) -> list[str]:
        path = tmp_path / "machine"
        path.write_text(machine.format(*CARDS, used=used))
        with job(both, limits, FAKE_NVML=str(path), FAKECUDA_GPUS="2") as one:
            return told(one, f"FIRST = {CARDS[0]!r}\n" + NVML + code)

    return call


def told(one: Job, code: str) -> list[str]:
    """Run unindented code that prints lines, with the driver at hand; the guard has nothing else to say."""
    lines = one.python(code).splitlines()
    assert [line for line in one.budget.log() if "is not one of this job's" not in line] == []
    return lines


@pytest.mark.parametrize("way", ["UUID", "index", "PCI bus id"])
def test_memory_is_what_the_limit_says_however_the_card_is_found(ask: Ask, way: str) -> None:
    code = f"""
device = HANDLES[{way!r}]()
print(info(device), info2(device))
begin(0)
address = allocate(100 * MIB)[1]
print(info(device), info2(device))
assert free(address) == 0
print(info(device), info2(device))
"""
    assert ask(code, 512 * MIB) == [
        "[512, 512, 0] [512, 0, 512, 0]",
        "[512, 412, 100] [512, 0, 412, 100]",
        "[512, 512, 0] [512, 0, 512, 0]",
    ]


def test_each_card_has_its_own_limit_whatever_order_nvml_has(ask: Ask) -> None:
    code = """
begin(1)
assert allocate(50 * MIB)[0] == 0
print(info(HANDLES["UUID"]()), info2(HANDLES["index"]()), info(OTHER), info2(OTHER))
"""
    limits = {CARDS[0]: 512 * MIB, CARDS[1]: 256 * MIB}
    assert ask(code, limits) == ["[512, 512, 0] [512, 0, 512, 0] [256, 206, 50] [256, 0, 206, 50]"]


def test_a_card_that_the_job_does_not_have_is_as_it_is(ask: Ask) -> None:
    assert ask("print(info(OTHER), info2(OTHER))", 512 * MIB) == ["[2048, 2048, 0] [2048, 1, 2047, 0]"]


def test_others_may_leave_less_than_the_limit(ask: Ask) -> None:
    """What other programs have of the card is not free, and in this job's view it is used."""
    code = 'device = HANDLES["UUID"](); print(info(device), info2(device))'
    assert ask(code, 512 * MIB, used=1948 * MIB) == ["[512, 100, 412] [512, 0, 99, 413]"]


def test_a_limit_above_the_card_leaves_everything(ask: Ask) -> None:
    code = 'device = HANDLES["UUID"](); print(info(device), info2(device))'
    assert ask(code, 4 * GIB, used=48 * MIB) == ["[2048, 2000, 48] [2048, 1, 1999, 48]"]


def test_what_is_no_memory_of_the_card_is_as_it_is(ask: Ask) -> None:
    """BAR1, and the processes of a card with what the driver counts for each."""
    code = """
bar, room, processes = Memory(), ctypes.c_uint(4), (Process * 4)()
assert nvml.nvmlDeviceGetBAR1MemoryInfo(HANDLES["UUID"](), byref(bar)) == 0
assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(HANDLES["UUID"](), byref(room), processes) == 0
print(mib(bar, "total", "free", "used"), room.value, processes[0].pid, processes[0].bytes // MIB)
"""
    assert ask(code, 512 * MIB) == ["[256, 255, 1] 1 4711 100"]


def test_errors_are_nvmls_own(ask: Ask) -> None:
    """A wrong version of the structure, a card that cannot be read, and nothing to write to."""
    code = """
device = HANDLES["UUID"]()
wrong = Memory2(version=1)
print(nvml.nvmlDeviceGetMemoryInfo_v2(device, byref(wrong)), wrong.total,
      nvml.nvmlDeviceGetMemoryInfo(OTHER, byref(Memory())))
"""
    assert ask(code, 512 * MIB, machine=MACHINE + "fail nvmlDeviceGetMemoryInfo 3 {1}\n") == ["13 0 3"]


def test_an_instance_has_its_own_limit(ask: Ask) -> None:
    """A budget of a MIG instance limits the instance; its card stays as it is."""
    machine = MACHINE.replace("mig=off total=2147483648 used={used}", "mig=on total=2147483648 used={used}")
    instance = "MIG-" + CARDS[3][4:]
    machine += f"instance {instance} gi=1 ci=0 total=1073741824 used=0 NVIDIA H100 MIG 1g.10gb\n"
    code = f'print(info(handle("nvmlDeviceGetHandleByUUID", b"{instance}")), info(HANDLES["UUID"]()))'
    assert ask(code, {instance: 128 * MIB}, machine=machine) == ["[128, 128, 0] [2048, 2048, 0]"]


def test_an_old_library_has_only_the_first_form(driver: Path, tmp_path: Path) -> None:
    """The second form is not offered, and the first is limited."""
    folder = tmp_path / "old"
    folder.mkdir()
    fake_nvml(folder, "FAKE_NVML_OLD")
    shutil.copy(driver / "libcuda.so.1", folder)
    (tmp_path / "machine").write_text(MACHINE.format(*CARDS, used=0))
    code = NVML.split("OTHER = ")[0].replace("nvmlInit_v2", "nvmlInit") + NVML.split("OTHER = ")[1].partition("\n")[2]
    code = (
        f"FIRST = {CARDS[0]!r}\n" + code + 'print(hasattr(nvml, "nvmlDeviceGetMemoryInfo_v2"), info(HANDLES["UUID"]()))'
    )
    with job(folder, 512 * MIB, FAKE_NVML=str(tmp_path / "machine")) as one:
        assert told(one, code) == ["False [512, 512, 0]"]
