"""Programs of several processes in each cover of a rehearsal: ranks of torchrun, and workers of a DataLoader."""

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import no_gpu
import pytest
import script

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")
MIB = 1 << 20

# `gpuconf plan` uses the first cover that the machine allows, so a test names each in the request that the command
# makes.
REHEARSE = """
import json, sys
from gpuconf.errors import UnavailableError
from gpuconf.plans.programs.needs import parse
from gpuconf.plans.programs.cover import Options
from gpuconf.plans.programs.rehearse import Asked, rehearse
only, gpus, *words = sys.argv[1:]
try:
    found = rehearse(Asked(words, parse("A10"), gpus=int(gpus), options=Options(only=only))).to_dict()
except UnavailableError as error:
    found = {"unavailable": str(error)}
json.dump(found, sys.stdout)
"""


@pytest.fixture(params=["root", "user", "mirror"])
def cover(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def rehearse(folder: Path, cover: str, program: str, *words: str, gpus: int = 1) -> dict[str, Any]:
    """Rehearse a program in a cover. Returns the answer."""
    (folder / "train.py").write_text(textwrap.dedent(program), encoding="utf-8")
    command = [sys.executable, "-c", REHEARSE, cover, str(gpus), sys.executable, *words, "train.py"]
    done = script.completed(command, timeout=170, cwd=folder, env=script.plain())
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    if "unavailable" in found:
        pytest.skip(f"no such cover on this machine: {found['unavailable']}")
    assert found["why_no_verdict"] == "", done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["train.py"]
    return found


RANKS = """
import time, torch, torch.distributed as distributed
distributed.init_process_group("nccl")
rank = distributed.get_rank()
torch.cuda.set_device(rank)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4096, 4096, device="cuda"))
optimizer = torch.optim.SGD(model.parameters())
for step in range(10):
    optimizer.zero_grad()
    model(torch.zeros(8, 4096, device="cuda")).sum().backward()
    optimizer.step()
    total = torch.ones(1 << 20, device="cuda")
    distributed.all_reduce(total)
    if step == 0:
        torch.save(model.state_dict(), f"{rank}.pt")
    distributed.barrier()
    if step == 0:
        time.sleep(0.5)  # until NCCL's watchdog, up to PyTorch 2.11, lets go of DDP's first bucket
"""


def test_ranks_of_torchrun(tmp_path: Path, cover: str) -> None:
    found = rehearse(
        tmp_path, cover, RANKS, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", gpus=2
    )
    assert [(one["rank"], one["gpu"]) for one in found["processes"]] == [(0, 0), (1, 1)]
    assert all(3 * 64 * MIB <= one["allocated"] < 4 * 64 * MIB for one in found["processes"])  # and DDP's bucket
    assert found["ran"]["ended"] == "program"
    assert {one["verdict"] for one in found["cards"]} == {"fits"}


WORKERS = """
import os, torch
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4000
    def __getitem__(self, index):
        open(f"seen-{os.getpid()}", "w").close()
        in_worker = torch.utils.data.get_worker_info() is not None  # else the rehearsal looks at the items' sizes
        assert not (in_worker and torch.cuda.is_initialized())
        return torch.zeros(4096)
if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(Rows(), batch_size=8, num_workers=2, multiprocessing_context=METHOD,
                                         pin_memory=True)
    model = torch.nn.Linear(4096, 4096, device="cuda")
    optimizer = torch.optim.SGD(model.parameters())
    for rows in loader:
        optimizer.zero_grad()
        model(rows.to("cuda", non_blocking=True)).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_data_loader(tmp_path: Path, cover: str, method: str) -> None:
    found = rehearse(tmp_path, cover, WORKERS.replace("METHOD", repr(method)))
    (process,) = found["processes"]
    assert 2 * 64 * MIB <= process["allocated"] < 3 * 64 * MIB
    assert (found["ran"]["ended"], found["ran"]["batch"]) == ("program", 8)
    assert found["ran"]["cut"][0]["iterations"] < 20 < found["ran"]["cut"][0]["of"]
    assert {one["verdict"] for one in found["cards"]} == {"fits"}
    assert any("the program wrote " in line for line in found["outputs"]), found["outputs"]
