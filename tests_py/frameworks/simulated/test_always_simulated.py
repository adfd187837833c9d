# SPDX-License-Identifier: Apache-2.0
"""PyTorch trains on the simulated GPU, whatever way the program starts Python: ``../test_always.py`` has all ways."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import no_gpu
import pytest
import script

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")
COMMAND = str(Path(sys.executable).with_name("gpuconf"))

TRAIN = """
import multiprocessing, sys
def train(rank):
    import torch
    parameter = torch.nn.Parameter(torch.ones(4, device="cuda"))
    parameter.sum().backward()
    print(torch.cuda.get_device_name(), parameter.grad.sum().item(), flush=True)
if __name__ == "__main__":
    if len(sys.argv) > 1:
        one = multiprocessing.get_context(sys.argv[1]).Process(target=train, args=(0,))
        one.start()
        one.join()
        sys.exit(one.exitcode)
    train(0)
"""
TRAINED = "Tesla T4 (simulated) 4.0\n"


def started(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    kept = script.plain()
    kept["PATH"] = os.path.dirname(sys.executable) + os.pathsep + kept["PATH"]  # `python` is this one, and has a uv
    kept["UV_CACHE_DIR"] = str(folder / "cache")
    command = list(map(str, words))
    return script.completed(command, timeout=170, cwd=folder, env=kept)


@pytest.mark.parametrize(
    "words",
    [
        "python -I train.py",
        "python -E train.py spawn",
        "env -i {python} -I train.py forkserver",
        "env PYTHONPATH=/nowhere LD_PRELOAD= LD_LIBRARY_PATH=/nowhere python train.py",
        "sh -c 'export PYTHONPATH=.; env -i {python} train.py'",
        "uv run --quiet --offline --no-project --python {python} python -I train.py",
        "torchrun --nproc-per-node 1 --no-python env -u LD_PRELOAD -u PYTHONPATH {python} -I train.py",
    ],
)
def test_pytorch_trains_on_the_simulated_gpu(tmp_path: Path, words: str) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    split = shlex.split(words.format(python=sys.executable))
    done = started(tmp_path, COMMAND, "run", "--simulate=T4", "--", *split)
    assert (done.returncode, done.stdout) == (0, TRAINED), done.stderr


def test_without_the_site_module_it_finds_its_packages_by_path(tmp_path: Path) -> None:
    folder = no_gpu.torch_folder()
    assert folder is not None
    (tmp_path / "train.py").write_text(f"import sys; sys.path.append({str(folder.parents[1])!r})\n{TRAIN}")
    done = started(tmp_path, COMMAND, "run", "--simulate=T4", "--", "env", "-i", sys.executable, "-S", "train.py")
    assert (done.returncode, done.stdout) == (0, TRAINED), done.stderr


@pytest.mark.parametrize("words", ["env PYTHONPATH=/nowhere python train.py", "env -i {python} -I train.py"])
def test_a_rehearsal_answers_for_it(tmp_path: Path, words: str) -> None:
    """It said that the program imports no framework."""
    (tmp_path / "train.py").write_text("import torch\nprint(torch.ones(1 << 20, device='cuda').sum().item())\n")
    split = shlex.split(words.format(python=sys.executable))
    done = started(tmp_path, COMMAND, "plan", "--gpu=T4", "--", *split)
    assert done.returncode == 0, done.stderr
    assert "peak: 4.00MiB allocated" in done.stdout
    assert done.stdout.splitlines()[-1] == "fits on T4"
