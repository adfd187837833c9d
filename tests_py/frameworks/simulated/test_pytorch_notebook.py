"""The notebook for PyTorch users, with PyTorch, in a real kernel: on the fake GPU, and without one."""

import json
import re
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import no_gpu
import pytest
import script

pytestmark = pytest.mark.simulated_programs

if find_spec("nbclient") is None:  # its import takes seconds
    pytest.skip("nbclient is not installed", allow_module_level=True)

NOTEBOOK = Path(__file__).resolve().parents[3] / "examples" / "pytorch.ipynb"

RUN = f"""
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read({str(NOTEBOOK)!r}, as_version=4)
NotebookClient(notebook, timeout=500, kernel_name="python3", coalesce_streams=True).execute()
for cell in notebook.cells:
    for output in cell.get("outputs", []):
        print(output.get("text") or output.get("data", {{}}).get("text/plain") or output.get("evalue"))
"""


def test_the_notebook_for_pytorch(driver: Path) -> None:
    if no_gpu.torch_folder() is None:
        pytest.skip("PyTorch with CUDA is not installed")
    out = no_gpu.run(driver, RUN, FAKECUDA_MEMORY=str(8 << 30))
    assert "torch: will use this limit once imported" in out
    assert "this cell took 390.62MiB at its peak and left 390.62MiB on GPU:0" in out
    assert "torch optimizer     1.14GiB  +781.25MiB" in out
    assert "CUDA out of memory." in out
    assert re.search(r"tracebacks +3 +4\.00GiB", out)
    # The workspaces of cuBLAS, 32 MiB each for capability 9.0, and from 2.7 on of cuBLASLt; 2.15 keeps none after such
    # a product.
    release = tuple(map(int, version("torch").split(".")[:2]))
    kept = "0B" if release >= (2, 15) else "65.00MiB" if release >= (2, 7) else "64.00MiB"
    assert re.search(rf"caches +1 +{kept}", out)
    assert "fits with " in out
    assert out.rstrip().endswith("GPU:0 0B in use (-1.53GiB, peak 1.53GiB)")


def test_the_notebook_without_a_gpu() -> None:
    """It simulates one, and its model learns."""
    if no_gpu.torch_folder() is None:
        pytest.skip("PyTorch with CUDA is not installed")
    done = script.completed([sys.executable, "-c", RUN], timeout=600, env=script.plain())
    assert done.returncode == 0, done.stderr
    out = done.stdout
    assert "NVIDIA A100-SXM4-40GB (simulated)" in out
    first, *_, last = map(float, re.findall(r"step \d+: loss (.+)", out))
    assert last < first / 3
    assert int(re.findall(r"(\d+)% of the points are on the right side", out)[0]) >= 90
    assert "this cell took 390.62MiB at its peak and left 390.62MiB on GPU:0" in out
    assert "CUDA out of memory." in out
    assert "fits with " in out


CELLS = """
import json, sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in json.loads(sys.argv[1])])
NotebookClient(notebook, timeout=170, kernel_name="python3", allow_errors=True, coalesce_streams=True).execute()
for cell in notebook.cells:
    print("----")
    for output in cell.get("outputs", []):
        print(output.get("text") or output.get("data", {}).get("text/plain") or output.get("evalue"))
"""


def in_a_kernel(*cells: str) -> list[str]:
    """Run cells after ``%load_ext gpuconf`` in a kernel with PyTorch. Returns what each shows, errors too."""
    if no_gpu.torch_folder() is None:
        pytest.skip("PyTorch with CUDA is not installed")
    command = [sys.executable, "-c", CELLS, json.dumps(["%load_ext gpuconf", *cells])]
    done = script.completed(command, timeout=200, env=script.plain())
    assert done.returncode == 0, done.stderr
    return done.stdout.split("----\n")[2:]


CELL = """%gpu fits {card}
import torch
layer = torch.nn.Linear(1 << 14, 1 << 14, device="cuda")
{more}"""


def test_whether_a_cell_fits() -> None:
    cells = (
        CELL.format(card="T4", more=""),
        CELL.format(card="T4", more="raise KeyError(7)"),
        CELL.format(card="H100", more=""),
    )
    fits, fails, other, none = in_a_kernel(*cells, "%gpu fits")
    assert fits.startswith("cover: none is possible in this process; what the block wrote is real\n")
    assert "peak: 1.00GiB allocated" in fits
    assert "fits on T4" in fits
    assert " at In[2], line 3 (<module>)\n" in fits
    assert "no verdict: the block failed: KeyError: 7" in " ".join(fails.split())
    assert "PyTorch has started on Tesla T4 (simulated), and chooses other kernels on H100-80GB: restart" in " ".join(
        other.split()
    )
    assert "fits needs cards, such as L4 or A10" in none


def test_whether_a_notebook_fits_in_a_fresh_process() -> None:
    """Steps of a former cell do not end the rehearsal, PyTorch of the kernel is not asked, and lines have the names of
    cells.
    """
    train = """import torch
def train(width, steps):
    layer = torch.nn.Linear(width, width, device=where)
    optimizer = torch.optim.SGD(layer.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        layer(torch.zeros(1, width, device=where)).sum().backward()
        optimizer.step()
"""
    _, _, fits, kernel, short = in_a_kernel(
        "where = 'cpu'",
        f"{train}\ntrain(64, 30)\nwhere = 'cuda'",
        "%gpu fits T4,H100\n\ntrain(1 << 14, 1000)",
        "print(where, torch.cuda.is_available())",
        "%gpu fits --fresh T4\nkept = torch.empty(17 << 30, dtype=torch.uint8, device=where)",
    )
    assert fits.startswith("In[1], In[2], In[3], In[4] run in new processes, and change nothing here\n\ncover: ")
    assert "1030 steps, batches of 1;" in fits
    assert re.search(r"peak on T4: 2\.0\dGiB allocated", fits)
    assert " at In[3], line 3 (train)\n" in fits
    assert "fits on T4, H100-80GB" in fits
    assert kernel.split() == ["cuda", "False"]
    assert short.rstrip().endswith("does not fit on T4")


def test_a_cell_that_is_not_reached_has_no_verdict() -> None:
    _, none = in_a_kernel(
        "import sys, torch\nif torch.cuda.is_available(): torch.zeros(1000, device='cuda'), sys.exit()",
        "%gpu fits --fresh T4\ntorch.zeros(1 << 20, device='cuda')",
    )
    assert "no verdict: In[3], which the answer is for, was not reached" in " ".join(none.split())


def test_pytorch_after_a_cell_that_simulates() -> None:
    """That cell may run again, as notebooks' first cells do."""
    first, imports, other, off, again, shown, late, last = in_a_kernel(
        "%gpu simulate 2xT4",
        "import torch\nprint(torch.cuda.device_count(), torch.cuda.get_device_name(), "
        "torch.ones(9).to('cuda:1').sum().item())",
        "%gpu simulate 2xL4",
        "%gpu simulate off",
        "%gpu simulate 2xT4",
        "%gpu",
        "%gpu limit 1GiB",
        "print(torch.ones(8, device='cuda:1').sum().item())",
    )
    used = "PyTorch used the GPU before gpuconf: not shown here, and limits need a new kernel"
    assert again == shown == first.replace("not in use yet: limits and growth can still be set", used)
    assert "too late: PyTorch has already used the GPU" in late
    assert first.startswith("simulated: 2xT4\n")
    assert imports == "2 Tesla T4 (simulated) 9.0\n\n"
    assert "cannot simulate 2xL4: PyTorch runs on simulated GPUs (2xT4) until the process ends" in other
    assert "cannot end the simulation: PyTorch runs on simulated GPUs (2xT4) until the process ends" in off
    assert last == "8.0\n\n"
