# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's nvidia-smi of four drivers, of Debian's packages, unpacked into a folder.

Much of what it prints it requests through functions without names (nvmlInternalGetExportTable), which NVIDIA does not
document. They are not supported, and N/A, but for the lists of processes, what connects two cards, and whether a card
can be
watched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import simulation

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

reason = "" if os.environ.get("GPUCONF_TEST_DOWNLOADS") else "make test-clients downloads it"
if not reason and (shutil.which("apt-get") is None or shutil.which("dpkg") is None):
    reason = "apt-get or dpkg is missing"
pytestmark = pytest.mark.skipif(bool(reason), reason=reason)

# The package, the beginning of its version, and the simulated driver of that version.
PACKAGES = {
    "nvidia-tesla-470-smi": ("470.256.02", "11.4"),
    "nvidia-smi 535": ("535.261.03", "12.2"),
    "nvidia-smi 550": ("550.163.01", "12.4"),
    "nvidia-smi 555": ("555.58.02", "12.5"),
}
CARD = "NVIDIA A100-SXM4-40GB"
IN_USE = """
import ctypes, subprocess, sys
cuda, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 30)) == 0
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from driver.record import Debian

    folder = tmp_path_factory.mktemp("smi")
    debian, found = Debian(folder / "debian"), {}
    for name, (version, _) in PACKAGES.items():
        package = name.split()[0]
        known = re.findall(rf"\| ({re.escape(version)}\S*) \|", debian.apt("apt-cache", "madison", package))
        debian.apt("apt-get", "download", f"{package}={known[0]}")
        subprocess.run(["dpkg", "-x", max(debian.folder.glob(f"{package}_{version}*.deb")), folder / name], check=True)
        found[name] = next(
            path for path in (folder / name).rglob("nvidia-smi") if path.is_file() and os.access(path, os.X_OK)
        )
    return found


@pytest.mark.parametrize("name", PACKAGES)
def test_nvidia_smi_shows_the_simulated_cards(name: str, programs: dict[str, Path]) -> None:
    version, cuda = PACKAGES[name]

    def smi(*words: str) -> list[str]:
        done = simulation.run(sys.executable, "-c", IN_USE, programs[name], *words, spec=f"2xA100-40GB:driver={cuda}")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    listed = smi("-L")
    assert [re.sub("GPU-[-0-9a-f]{36}", "UUID", line) for line in listed] == [
        f"GPU {i}: {CARD} (UUID: UUID)" for i in range(2)
    ]
    table = "\n".join(smi())
    assert re.search(rf"NVIDIA-SMI {version} +Driver Version: {version} +CUDA Version: {cuda}", table), table
    assert re.findall(r"(\d+)MiB / +(\d+)MiB", table) == [("1024", "40960"), ("0", "40960")]
    asked = "--query-gpu=index,name,memory.total,memory.used,driver_version,temperature.gpu"
    first, second = smi(asked, "--format=csv,noheader")
    assert first == f"0, {CARD}, 40960 MiB, 1024 MiB, {version}, [N/A]"
    assert second == f"1, {CARD}, 40960 MiB, 0 MiB, {version}, [N/A]"
    (process,) = smi("--query-compute-apps=pid,name,used_memory", "--format=csv,noheader")
    assert re.fullmatch(rf"\d+, {re.escape(os.path.realpath(sys.executable))}, 1024 MiB", process), process
    assert re.findall(r"\| +(\d) +N/A +N/A +\d+ +C +\S*python\S* +(\d+)MiB \|", table) == [("0", "1024")]
    details = smi("-q")
    assert len(details) > 100
    measured = [line for line in details if re.search("(Power Draw|Power Limit|Temp|Speed) +:", line)]
    assert measured
    assert all(line.endswith("N/A") for line in measured)
    assert any(re.search("Bus Id +: 00000000:1A:00.0", line) for line in details)


@pytest.mark.parametrize("name", PACKAGES)
def test_nvidia_smi_shows_how_cards_are_connected_and_used(name: str, programs: dict[str, Path]) -> None:
    """As nvidia-smi of driver 580 on an idle H200: dashes for a card's processes, and a legend."""

    def smi(*words: str, **options: str) -> list[list[str]]:
        done = simulation.run(programs[name], *words, spec=f"2xA100-40GB,RTX4090:driver={PACKAGES[name][1]}", **options)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = re.sub(r"\x1b\[\d*m", "", done.stdout).splitlines()
        return [line.split() for line in lines]

    table = smi("topo", "-m")
    assert table[0][:3] == ["GPU0", "GPU1", "GPU2"]
    expected = [["GPU0", "X", "NODE", "NODE"], ["GPU1", "NODE", "X", "NODE"], ["GPU2", "NODE", "NODE", "X"]]
    assert [line[:4] for line in table[1:4]] == expected
    assert ["Legend:"] in table
    reads = smi("topo", "-p2p", "r")
    assert reads[1:4] == [["GPU0", "X", "OK", "GNS"], ["GPU1", "OK", "X", "GNS"], ["GPU2", "GNS", "GNS", "X"]]
    assert smi("topo", "-p2p", "n")[1] == ["GPU0", "X", "NS", "NS"]
    idle = smi("pmon", "-c", "1")
    assert idle[0][:6] == ["#", "gpu", "pid", "type", "sm", "mem"]
    assert [[line[0], *set(line[1:])] for line in idle[2:]] == [["0", "-"], ["1", "-"], ["2", "-"]]
    watched = smi("dmon", "-c", "1")
    assert [line[0] for line in watched[2:]] == ["0", "1", "2"]
    columns = watched[0][1:]
    assert [watched[2][columns.index(column)] for column in ("gpu", "pwr", "sm", "mem", "mclk")] == [
        "0",
        "-",
        "0",
        "0",
        "-",
    ]


@pytest.mark.parametrize("name", PACKAGES)
def test_nvidia_smi_watches_a_process(name: str, programs: dict[str, Path]) -> None:
    words = (sys.executable, "-c", IN_USE, programs[name], "pmon", "-c", "1", "-s", "um")
    done = simulation.run(*words, spec=f"A100-40GB:driver={PACKAGES[name][1]}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^ +0 +\d+ +C +-.* 1024 .*python", done.stdout, re.M), done.stdout


@pytest.mark.parametrize("name", ["nvidia-smi 535", "nvidia-smi 550"])
def test_it_lists_a_client_of_the_multi_process_service(name: str, programs: dict[str, Path]) -> None:
    spec = f"A100-40GB:contexts:mps:driver={PACKAGES[name][1]}"
    done = simulation.run(sys.executable, "-c", IN_USE, programs[name], spec=spec)
    assert re.search(r"M\+C +\S*python\S* +1472MiB", done.stdout), done.stdout + done.stderr


@pytest.mark.parametrize("cuda", ["11.8", "13.0"])
def test_nvidia_smi_of_another_driver(cuda: str, programs: dict[str, Path]) -> None:
    done = simulation.run(programs["nvidia-smi 550"], spec=f"A100-40GB:driver={cuda}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"NVIDIA-SMI 550.163.01 +Driver Version: [0-9.]+ +CUDA Version: {cuda}", done.stdout), done.stdout
