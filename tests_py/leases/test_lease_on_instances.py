"""What others use of a card's MIG instances, for leases on them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fake_nvml import ONE_H100, fake_nvml
from script import environment, execute

# Leases MEMORY of each instance, for the test's lifetime, and prints which were granted.
PROGRAM = """
import sys
from gpuconf import VisibleDevice, errors
from gpuconf.leases import request

GIB, claims = 1 << 30, []
for uuid in sys.argv[2:]:
    device = VisibleDevice(0, None, "NVIDIA H100 80GB HBM3 MIG 1g.10gb", uuid, "0000:17:00.0", 0, (9, 0), 10 * GIB)
    try:
        claims.append(request.claim(request.checked(sys.argv[1], 1, 0, "", "spread"), [device]))
    except errors.DeadlineExceededError:
        continue
    print(uuid)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.mark.parametrize(("memory", "granted"), [("5GiB", ["MIG-2", "MIG-3"]), ("3GiB", ["MIG-1", "MIG-2", "MIG-3"])])
def test_a_process_takes_room_in_its_own_instance_alone(
    library: Path, tmp_path: Path, memory: str, granted: list[str]
) -> None:
    instance = "instance MIG-{0} gi={0} ci=0 total=10737418240 used=0 NVIDIA H100 80GB HBM3 MIG 1g.10gb\n"
    machine = ONE_H100.replace("mig=off", "mig=on") + "".join(map(instance.format, (1, 2, 3)))
    (tmp_path / "machine").write_text(machine + f"process 9 bytes={6 << 30} list=compute gi=1 ci=0\n")
    env = environment(
        {
            "LD_LIBRARY_PATH": str(library),
            "FAKE_NVML": str(tmp_path / "machine"),
            "GPUCONF_LEDGER": str(tmp_path / "ledger"),
        }
    )
    done = execute([sys.executable, "-c", PROGRAM, memory, "MIG-1", "MIG-2", "MIG-3"], env=env)
    assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", granted)
