"""PyTorch in the workers of Dask and of Ray on simulated GPUs."""

import sys
import textwrap
from pathlib import Path

import no_gpu
import pytest
import script
from ray_jobs import PATIENT

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")
LOOK = """
def look():
    import sys
    early = "torch" in sys.modules
    import torch
    product = (torch.arange(4.0, device="cuda") * 2).sum().item()
    try:
        torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
        limited = False
    except torch.OutOfMemoryError:
        limited = True
    return torch.cuda.get_device_name(), product, limited, early
"""


def run(folder: Path, program: str, *before: str) -> str:
    file = folder / "cluster.py"
    file.write_text(LOOK + textwrap.dedent(program), encoding="utf-8")
    command = [*before, sys.executable, "-W", "ignore", str(file)]
    return script.printed(command, timeout=600, env=script.plain())


def test_dask_workers_that_import_torch_at_their_start(tmp_path: Path) -> None:
    program = """
    import distributed
    import gpuconf.dask

    if __name__ == "__main__":
        options = {"memory": "1GiB", "simulate": "2xT4", "pre_import": "torch", "dashboard_address": None}
        with gpuconf.dask.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
            for found in client.run(look).values():
                print(found)
    """
    assert run(tmp_path, program).splitlines() == ["('Tesla T4 (simulated)', 12.0, True, True)"] * 2


def test_ray_workers_under_run(tmp_path: Path) -> None:
    """Actors train on the card that Ray gives each, and those with a limit share one card."""
    pytest.importorskip("ray", reason="Ray is not installed")
    program = """
    import gpuconf.ray
    import ray

    ray.init(num_gpus=2, num_cpus=2, include_dashboard=False, resources=gpuconf.ray.resources())

    @ray.remote(num_gpus=1, num_cpus=0)
    class Trainer:
        def __init__(self):
            import torch

            torch.manual_seed(1)
            self.model = torch.nn.Linear(8, 8).cuda()
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

        def steps(self):
            import os
            import torch

            losses = []
            for _ in range(5):
                loss = self.model(torch.ones(4, 8, device="cuda")).square().mean()
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                losses.append(loss.item())
            return os.environ["CUDA_VISIBLE_DEVICES"], torch.cuda.device_count(), losses[-1] < losses[0]

    trainers = [Trainer.remote() for _ in range(2)]
    print(sorted(ray.get([trainer.steps.remote() for trainer in trainers])))
    for trainer in trainers:
        ray.kill(trainer)

    @gpuconf.ray.remote(memory="1GiB", num_cpus=0)
    class Limited:
        def look(self):
            return look()

    limited = [Limited.remote() for _ in range(3)]
    for found in ray.get([each.look.remote() for each in limited]):
        print(found)
    """
    lines = run(
        tmp_path, PATIENT + textwrap.dedent(program), sys.executable, "-m", "gpuconf", "run", "--simulate", "2xT4", "--"
    ).splitlines()
    assert lines == ["[('0', 1, True), ('1', 1, True)]", *["('Tesla T4 (simulated)', 12.0, True, False)"] * 3]
