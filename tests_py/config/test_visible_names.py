"""All names of a GPU, matched by identity and never by number."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import gpuconf
import pytest
from fake_nvml import fake_nvml
from script import execute

MACHINE = Path(__file__).resolve().parents[2] / "tests_go" / "machine"

PROGRAM = "import gpuconf, json; print(json.dumps([d._asdict() for d in gpuconf.visible_devices()]))"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both of NVIDIA's libraries, for a machine without a GPU."""
    place = tmp_path_factory.mktemp("nvidia")
    subprocess.run([sys.executable, MACHINE / "fakecuda" / "build.py", place], check=True, capture_output=True)
    return fake_nvml(place)


def ask(folder: Path, **environment: str) -> list[dict[str, object]]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPUCONF_", "TF_", "CUDA_"))}
    done = execute(
        [sys.executable, "-c", PROGRAM],
        env=clean | {"LD_LIBRARY_PATH": str(folder), "FAKECUDA_GPUS": "3"} | environment,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return list(json.loads(done.stdout))


def describe(folder: Path, cards: list[dict[str, object]]) -> str:
    lines = ["driver 550.54.15", "cuda 12040"]
    for card in cards:
        domain, bus, slot = str(card["pci_bus_id"]).split(".")[0].split(":")
        place = f"domain={int(domain, 16)} bus={int(bus, 16)} device={int(slot, 16)}"
        lines.append(f"card {card['uuid']} {place} cc=9.0 mig=off total=1073741824 used=0 {card['name']}")
    path = folder / "machine.txt"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_nvml_counts_in_its_own_order(folder: Path) -> None:
    cards = ask(folder)  # without a description NVML is missing
    assert [card["nvml_index"] for card in cards] == [None, None, None]
    told = ask(folder, FAKE_NVML=describe(folder, cards[::-1]))
    assert [(d["cuda_ordinal"], d["nvml_index"]) for d in told] == [(0, 2), (1, 1), (2, 0)]


def test_a_hidden_gpu_has_an_nvml_number_and_no_ordinal(folder: Path) -> None:
    told = ask(folder, FAKE_NVML=describe(folder, ask(folder)), CUDA_VISIBLE_DEVICES="2,0")
    assert [(d["cuda_ordinal"], d["physical_device"], d["nvml_index"]) for d in told] == [
        (0, "/physical_device:GPU:0", 2),
        (1, "/physical_device:GPU:1", 0),
    ]


def test_where_uuids_do_not_meet_the_bus_does(folder: Path) -> None:
    cards = [card | {"uuid": f"GPU-other-{i}"} for i, card in enumerate(ask(folder))]
    told = ask(folder, FAKE_NVML=describe(folder, cards[::-1]))
    assert [d["nvml_index"] for d in told] == [2, 1, 0]


def test_simulated_gpus_are_not_nvmls(two_gpus: None) -> None:
    first, second = gpuconf.visible_devices()
    assert first.nvml_index is None
    assert first.uuid.startswith("GPU-")
    assert first.uuid != second.uuid
    assert first.total_memory == 81081 << 20
    assert first.compute_capability == (9, 0)
    assert gpuconf.config.set_visible_devices(gpuconf.config.list_physical_devices()) is None  # nothing was initialized


def test_a_weak_gpu_has_an_ordinal_and_no_physical_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_MIN_GPU_MULTIPROCESSOR_COUNT", "100")
    gpuconf.simulate("H100-80GB,T4")
    assert [d.physical_device for d in gpuconf.visible_devices()] == ["/physical_device:GPU:0", None]


def test_a_uuid_is_good_in_cuda_visible_devices(monkeypatch: pytest.MonkeyPatch, two_gpus: None) -> None:
    second = gpuconf.visible_devices()[1]
    gpuconf.reset()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", second.uuid)
    assert [d.pci_bus_id for d in gpuconf.visible_devices()] == [second.pci_bus_id]


def test_no_gpu() -> None:
    assert gpuconf.visible_devices() == []
