"""The cards of the machine, over NVIDIA's management library as gocore/sim/nvml simulates it, and simulated."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import gpuconf
import pytest
from command import COMMAND
from fake_nvml import ONE_H100, fake_nvml
from gpuconf.machine.cards import survey
from script import environment, execute

GIB = 1 << 30


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_nvml(tmp_path_factory.mktemp("nvml"))


def surveyed(library: Path, tmp_path: Path, machine: str) -> dict[str, Any]:
    """What a process sees on the machine."""
    (tmp_path / "machine").write_text(machine)
    code = "import json; from gpuconf.machine.cards import survey; print(json.dumps(survey().to_dict()))"
    env = environment({"LD_LIBRARY_PATH": str(library), "FAKE_NVML": str(tmp_path / "machine")})
    done = execute([sys.executable, "-c", code], check=True, env=env)
    assert done.stderr == ""
    return json.loads(done.stdout)


def host() -> tuple[int, int]:
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return tuple(int(lines[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))  # type: ignore[return-value]


def test_a_card_and_its_processes(library: Path, tmp_path: Path) -> None:
    found = surveyed(library, tmp_path, ONE_H100 + "process 4711 bytes=1024 list=compute gi=-1 ci=-1\n")
    assert (found["driver"], found["cuda"], found["why_none"], found["simulated"]) == ("580.95.05", [13, 0], None, None)
    (card,) = found["cards"]
    assert card["memory"] == {"kind": "dedicated", "total": 80 * GIB, "used": GIB, "free": 79 * GIB, "source": "NVML"}
    assert card["processes"] == [{"pid": 4711, "bytes": 1024, "instance": None}]
    assert (card["index"], card["pci_bus_id"], card["compute_capability"], card["errors"]) == (
        0,
        "0000:17:00.0",
        [9, 0],
        [],
    )


@pytest.mark.parametrize("wrong", ["", "fail nvmlDeviceGetMemoryInfo 3\n"], ids=["wrong numbers", "no numbers"])
def test_unified_memory_is_the_hosts(library: Path, tmp_path: Path, wrong: str) -> None:
    # GB10's driver does not support the query of memory; other drivers of such GPUs answer with a small number.
    gb10 = (
        "driver 580.95.05\ncuda 13000\ncard GPU-1 domain=15 bus=1 device=0 cc=12.1 mig=none total=1048576 used=0 "
        "NVIDIA GB10\n"
    )
    total, available = host()
    (card,) = surveyed(library, tmp_path, gb10 + wrong + "process 7 bytes=4096 list=compute gi=-1 ci=-1\n")["cards"]
    memory = card["memory"]
    assert (memory["kind"], memory["source"], memory["total"]) == ("unified", "/proc/meminfo", total)
    assert abs(memory["free"] - available) < 4 * GIB
    assert memory["used"] == total - memory["free"]
    assert card["processes"][0]["bytes"] == 4096
    assert card["errors"] == []


def test_coherent_memory_is_the_cards(library: Path, tmp_path: Path) -> None:
    machine = ONE_H100.replace("NVIDIA H100 80GB HBM3", "NVIDIA GH200 480GB") + "addressing ats\n"
    (card,) = surveyed(library, tmp_path, machine)["cards"]
    assert card["memory"]["kind"] == "coherent"
    assert card["memory"]["total"] == 80 * GIB


def test_a_card_that_cannot_be_read_hides_no_other(library: Path, tmp_path: Path) -> None:
    machine = ONE_H100 + "card GPU-2 domain=0 bus=24 device=0 cc=9.0 mig=off total=1024 used=0 NVIDIA T1\n"
    found = surveyed(
        library, tmp_path, machine + "fail nvmlDeviceGetMemoryInfo 15 GPU-2\nfail nvmlDeviceGetName 999 GPU-2\n"
    )
    first, second = found["cards"]
    assert first["errors"] == []
    assert second["name"] == ""
    assert second["memory"]["total"] is None
    assert any("fell off the bus" in text for text in second["errors"])


def test_instances(library: Path, tmp_path: Path) -> None:
    machine = ONE_H100.replace("mig=off", "mig=on") + (
        "instance MIG-1 gi=1 ci=0 total=10737418240 used=4096 NVIDIA H100 80GB HBM3 MIG 1g.10gb\n"
        "process 9 bytes=2048 list=compute gi=1 ci=0\n"
    )
    (card,) = surveyed(library, tmp_path, machine)["cards"]
    (instance,) = card["instances"]
    assert (instance["uuid"], instance["memory"]["used"]) == ("MIG-1", 4096)
    assert card["processes"] == [{"pid": 9, "bytes": 2048, "instance": "MIG-1"}]


def test_without_a_driver(tmp_path: Path) -> None:
    if any(Path(folder, "libnvidia-ml.so.1").exists() for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64")):
        pytest.skip("this machine has an NVIDIA driver")
    found = surveyed(tmp_path, tmp_path, "")
    assert found["cards"] == []
    assert "NVML is not available" in found["why_none"]


def test_simulated_cards_are_all_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with gpuconf.simulate("T4,GB10,GH200"):
        found = survey()
    assert found.simulated == "T4,GB10,GH200-96GB"
    assert [card.memory.kind for card in found.cards] == ["dedicated", "unified", "coherent"]
    assert [card.memory.source for card in found.cards] == ["simulation"] * 3
    assert len({card.uuid for card in found.cards}) == 3


def test_devices_name_the_kind_of_memory() -> None:
    env = environment({"GPUCONF_SIMULATE": "GB10,GH200,T4"})
    out = execute([COMMAND, "devices"], check=True, env=env).stdout
    assert "121.69GiB unified" in out
    assert "94.50GiB coherent" in out
    assert "14.56GiB unified" not in out
    found = json.loads(execute([COMMAND, "devices", "--json"], check=True, env=env).stdout)
    assert [(d["memory_kind"], d["memory_source"]) for d in found["devices"]] == [  # the fastest first
        ("coherent", "simulation"),
        ("unified", "simulation"),
        ("dedicated", "simulation"),
    ]


@pytest.mark.parametrize(
    ("model", "limit"), [("GB10:128GiB", 112 * GIB), ("Thor:128GiB", 112 * GIB), ("Orin:64GiB", 56 * GIB)]
)
def test_the_default_limit_leaves_memory_to_the_host(model: str, limit: int) -> None:
    with gpuconf.simulate(model):
        assert gpuconf.memory.stats("GPU:0").bytes_limit == limit


def test_a_survey_takes_no_gpu_and_survives_a_fork() -> None:
    with gpuconf.simulate("T4"):
        survey()
        pid = os.fork()
        if pid == 0:
            try:
                survey()
            except gpuconf.errors.ForkedProcessError:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
