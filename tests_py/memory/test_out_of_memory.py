"""The report of an allocation that found no memory: who holds it, and which processes use the GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import gpuconf
import pytest
from fake_nvml import fake_nvml
from gpuconf import memory
from script import execute

MIB = 1 << 20
MACHINE = Path(__file__).resolve().parents[2] / "tests_go" / "machine"


def fail() -> list[str]:
    """The lines of the report about the memory in use, and the last one."""
    with pytest.raises(MemoryError) as caught:
        memory.allocate(1 << 40, "GPU:0")
    assert isinstance(caught.value, gpuconf.errors.ResourceExhaustedError)
    assert " out of memory" in str(caught.value)
    return str(caught.value).splitlines()[2:]


def test_the_report_lists_the_holders(one_gpu: None) -> None:
    assert [line[:6] for line in fail()] == ["  on N"]
    kept = []
    for i in range(8):
        with memory.tag(f"part {i}"):
            kept.append(memory.allocate((i + 1) * MIB, "GPU:0"))
    kept.append(memory.allocate(MIB // 2, "GPU:0"))
    *held, last = fail()
    assert held == [
        *(f"  in use by gpuconf, tag part {i - 1}: {i}.00MiB ({i * MIB} bytes) in 1 block" for i in (8, 7, 6, 5, 4)),
        "  in use by 4 others: 6.50MiB (6815744 bytes) in 4 blocks",
    ]
    assert last.startswith("  on NVIDIA H100 80GB HBM3, which has 79.18GiB (85019590656 bytes) in total. ")
    for buffer in kept:
        buffer.free()


def test_the_report_has_call_sites_while_stacks_are_recorded(one_gpu: None) -> None:
    def build() -> memory.Buffer:
        return memory.allocate(MIB, "GPU:0")

    before = memory.allocate(1000, "GPU:0")
    with memory.record(stacks=True):
        kept = [build() for _ in range(3)]
        lines = fail()
    where = f"{__file__}:{build.__code__.co_firstlineno + 1} (build)"
    assert lines[:2] == [
        f"  in use by gpuconf, untagged: 3.00MiB (3145728 bytes) in 3 blocks, allocated at {where}",
        "  in use by gpuconf, untagged: 1.0KiB (1024 bytes) in 1 block",
    ]
    assert fail()[0] == "  in use by gpuconf, untagged: 3.00MiB (3146752 bytes) in 4 blocks"
    for buffer in (before, *kept):
        buffer.free()


# Other processes, with NVML


@pytest.fixture(scope="module")
def nvidia(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both of NVIDIA's libraries, for a machine without a GPU."""
    place = tmp_path_factory.mktemp("nvidia")
    subprocess.run([sys.executable, MACHINE / "fakecuda" / "build.py", place], check=True, capture_output=True)
    return fake_nvml(place)


def run(nvidia: Path, program: str, **environment: str) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPUCONF_", "TF_", "CUDA_"))}
    done = execute(
        [sys.executable, "-c", textwrap.dedent(program)], env=clean | {"LD_LIBRARY_PATH": str(nvidia)} | environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


FULL = """
    import gpuconf, os, pathlib, sys, warnings
    (card,) = gpuconf.visible_devices()
    path = os.environ.get("FAKE_NVML")
    if path:  # nvmlInit reads the file
        domain, bus, slot = card.pci_bus_id.split(".")[0].split(":")
        place = f"domain={int(domain, 16)} bus={int(bus, 16)} device={int(slot, 16)}"
        text = (f"driver 550.54.15\\ncuda 12040\\n"
                f"card {card.uuid} {place} cc=9.0 mig=off total=1073741824 used=0 {card.name}\\n")
        for pid, nbytes in ((os.getpid(), 5 << 20), (os.getppid(), 3 << 20), (1 << 22, 1 << 30), (4194305, -1)):
            text += f"process {pid} bytes={nbytes} list=compute gi=-1 ci=-1\\n"
        pathlib.Path(path).write_text(text)
    total = 1 << 30
    warnings.simplefilter("ignore")  # of a limit above the card's memory
    gpuconf.config.set_logical_device_configuration(
        gpuconf.config.list_physical_devices("GPU")[0],
        [gpuconf.config.LogicalDeviceConfiguration(memory_limit=2 * total >> 20)])
    held = gpuconf.memory.allocate(total // 2)
    try:
        gpuconf.memory.allocate(total // 2 + (1 << 20))
    except MemoryError as error:
        print(str(error).splitlines()[-1])
        print(os.getppid(), pathlib.Path(f"/proc/{os.getppid()}/comm").read_text().strip())
"""


def test_a_full_gpu_lists_the_other_processes(nvidia: Path, tmp_path: Path) -> None:
    report, parent = run(nvidia, FULL, FAKE_NVML=str(tmp_path / "machine")).splitlines()
    pid, name = parent.split(" ", 1)
    assert report.partition(" than the limit. ")[2] == (
        "Other processes on this GPU: PID 4194304 uses 1.00GiB (1073741824 bytes), "
        f"PID {pid} ({name}) uses 3.00MiB (3145728 bytes), PID 4194305."
    )


def test_without_nvml_the_report_names_no_processes(nvidia: Path) -> None:
    report = run(nvidia, FULL).splitlines()[0]
    assert report.endswith("would use more than the GPU has, which is less than the limit.")
