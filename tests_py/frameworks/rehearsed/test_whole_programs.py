"""``gpuconf plan -- PROGRAM`` beside the same program run to its end on a card without a limit.

Each program is one file of ``programs``. Its first line says what the answer has: the verdict on a card that is large
enough, and whether a loop was cut short.
"""

import functools
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import no_gpu
import pytest
import script

pytestmark = [
    pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed"),
    pytest.mark.simulated_programs,
]
PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
PEAK = 'import torch\nprint("PEAK", torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())\n'


def gpuconf(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuconf", *words]
    return script.completed(command, timeout=500, cwd=folder, env=script.plain())


planned = functools.partial(no_gpu.answer, words=(sys.executable, "train.py"), timeout=500)


def peaks(folder: Path, program: str) -> list[int]:
    """Return what the program has allocated and reserved at most, run to its end."""
    (folder / "train.py").write_text(program + PEAK, encoding="utf-8")
    done = gpuconf(folder, "run", "--simulate", "A10:no-limit", "--values", "none", sys.executable, "train.py")
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("PEAK "))
    return [int(word) for word in line.split()[1:]]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_planned_peak_is_that_of_the_whole_run(tmp_path: Path, path: Path) -> None:
    program = path.read_text(encoding="utf-8")
    verdict, cut, *libraries = program.partition("\n")[0].lstrip("# ").split(", ")
    for name in libraries:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"not installed: {name}")
    found = planned(tmp_path, program, "--gpu", "A10", "--seconds", "400")
    (process,) = found["processes"]
    assert [process["allocated"], process["reserved"]] == pytest.approx(peaks(tmp_path, program), rel=0.005)
    assert found["why_no_verdict"] == ""
    assert {one["verdict"] for one in found["cards"]} == {verdict}, found["unseen"]
    assert bool(found["unseen"]) is (verdict == "depends")
    assert ("cut" if found["ran"]["cut"] else "whole") == cut


LATE = """
import torch
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(2000, 64))
for step, (x,) in enumerate(torch.utils.data.DataLoader(data, batch_size=20)):
    model(x.cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    {inside}
{after}
"""
MUCH = "torch.no_grad()(model)(torch.empty(1 << 26, 64, device='cuda'))"

MUCH_MORE = "len(torch.empty(1 << 33, 4, dtype=torch.uint8, device='cuda'))"
PART = "torch.empty(8 << 30, dtype=torch.uint8, device='cuda')"


@pytest.mark.parametrize(
    ("inside", "after"),
    [
        ("", MUCH),
        (f"if step % 50 == 49: {MUCH}", ""),
        (f"if step < 60: continue\n    {MUCH}; break", ""),
        (f"if step == 60: model.register_forward_pre_hook(lambda _, x: {MUCH_MORE} and None)", ""),
        (f"if step > 50 and step % 10 == 0: model.kept = [*getattr(model, 'kept', []), {PART}]", ""),
    ],
    ids=["after the loop", "at times", "in the second half", "after what sets it", "little by little"],
)
def test_what_comes_late_is_seen(tmp_path: Path, inside: str, after: str) -> None:
    """Of all steps but one the memory is less than 1 MiB, and this one needs 32 GiB."""
    found = planned(tmp_path, LATE.format(inside=inside, after=after), "--gpu", "A10,A100-40GB")
    assert {one["card"]: one["verdict"] for one in found["cards"]} == {"A10-24GB": "does not fit", "A100-40GB": "fits"}


def test_all_cuts_no_loop(tmp_path: Path) -> None:
    found = planned(tmp_path, LATE.format(inside="", after=""), "--gpu", "A10", "--all")
    assert (found["ran"]["optimizer_steps"], found["ran"]["cut"]) == (100, [])


def test_of_several_walks_over_a_loop_the_longest_is_named(tmp_path: Path) -> None:
    """It was the rounds of one and the length of another: "cut short: 4 of 4 rounds"."""
    program = LATE.format(inside="", after="").replace("for step", "for size in (20, 500, 100):\n  for step")
    found = planned(tmp_path, program.replace("batch_size=20", "batch_size=size"), "--gpu", "A10")
    assert [(one["iterations"], one["of"]) for one in found["ran"]["cut"]] == [(4, 100)]
    assert found["ran"]["batch"] == 500  # the largest


def test_a_loop_that_cannot_be_looked_at_runs_whole(tmp_path: Path) -> None:
    """What a batch raises when a rehearsal reads its size was the program's failure."""
    kind = """
class Batch:
    def __init__(self, rows): self.rows = torch.stack(rows)
    size = property(lambda self: 1 / 0)
"""
    loop = "for batch in torch.utils.data.DataLoader(torch.randn(200, 64), batch_size=20, collate_fn=Batch):"
    program = f"import torch{kind}{loop}\n    batch.rows.cuda()\nprint('all')\n"
    found = planned(tmp_path, program, "--gpu", "T4")
    assert (found["why_no_verdict"], found["ran"]["cut"]) == ("", [])
    assert (
        "loops run whole, as one could not be looked at: ZeroDivisionError: division by zero (loops)" in found["notes"]
    )


def test_a_program_that_did_not_end_depends(tmp_path: Path) -> None:
    program = LATE.format(inside="", after="").replace("for step, (x,) in enumerate(", "while True:\n  for (x,) in (")
    found = planned(tmp_path, program, "--gpu", "A10", "--seconds", "15")
    assert {one["verdict"] for one in found["cards"]} == {"depends"}
    assert found["unseen"] == ["the program's end: see --seconds and --all, or give the program fewer iterations"]


GRAPHS = """
import torch
kept = []
for _ in range(3):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tensor = torch.empty(15 << 30, dtype=torch.uint8, device="cuda")
        del tensor
    kept.append(graph)
"""
POOL = """
import torch
tensor = torch.empty(24 << 30, dtype=torch.uint8, device="cuda")
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    held = torch.empty(24 << 30, dtype=torch.uint8, device="cuda")
    del held
del tensor
held = torch.empty(12 << 30, dtype=torch.uint8, device="cuda")
"""


@pytest.mark.parametrize("program", [GRAPHS, POOL], ids=["graphs", "a pool"])
def test_what_a_private_pool_keeps_serves_nothing_else(tmp_path: Path, program: str) -> None:
    """Three graphs were said to need the memory of one. A recording of them is replayed in the same way."""
    recording = tmp_path / "recording.pickle"
    found = planned(tmp_path, program, "--gpu", "A100-40GB", "--record", str(recording))
    assert {one["verdict"] for one in found["cards"]} == {"does not fit"}
    assert gpuconf(tmp_path, "plan", str(recording), "--gpu", "A100-40GB").returncode == 3
    assert gpuconf(tmp_path, "plan", str(recording), "--gpu", "A100-80GB").returncode == 0
    assert "agrees" in gpuconf(tmp_path, "plan", "--verify", str(recording)).stdout


LEFT = """
import torch

def captured():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held = torch.empty(10 << 30, dtype=torch.uint8, device="cuda")
        del held
    return graph

graph = captured()
{end}
held = torch.empty(10 << 30, dtype=torch.uint8, device="cuda")
"""


@pytest.mark.parametrize(("end", "verdict"), [("del graph", "fits"), ("graph.reset()", "fits"), ("", "does not fit")])
def test_what_a_graph_leaves_is_released_where_memory_is_short(tmp_path: Path, end: str, verdict: str) -> None:
    """The recording of a rehearsal says when the last graph of a pool was gone, which PyTorch's does not."""
    recording = tmp_path / "recording.pickle"
    found = planned(tmp_path, LEFT.format(end=end), "--gpu", "T4", "--record", str(recording))
    assert {one["verdict"] for one in found["cards"]} == {verdict}
    assert gpuconf(tmp_path, "plan", str(recording), "--gpu", "T4").returncode == (0 if verdict == "fits" else 3)
    assert "agrees" in gpuconf(tmp_path, "plan", "--verify", str(recording)).stdout


TOOL = """
import torch

def trained():
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.utils.data.TensorDataset(torch.randn(2000, 64))
    for step, (x,) in enumerate(torch.utils.data.DataLoader(data, batch_size=20)):
        model(x.cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 60:
            with torch.no_grad():
                model(torch.randn(1 << 20, 64, device="cuda"))
"""


def test_code_of_an_installed_command_is_the_programs(tmp_path: Path) -> None:
    """Its lines are named, and its branches are waited for. What the model computes in its validation is no batch."""
    package = tmp_path / "site-packages" / "tool"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "training.py").write_text(TOOL, encoding="utf-8")
    (package / "__main__.py").write_text("from tool.training import trained\ntrained()\n", encoding="utf-8")
    env = script.plain() | {"PYTHONPATH": str(package.parent)}
    command = [sys.executable, "-m", "gpuconf", "plan", "--json", "--gpu", "T4", "--", sys.executable, "-m", "tool"]
    done = script.completed(command, timeout=300, cwd=tmp_path, env=env)
    found = json.loads(done.stdout)
    (process,) = found["processes"]
    assert process["allocated"] > 512 << 20, found["ran"]
    assert any("tool/training.py:14 (trained)" in line for line in process["lines"]), process["lines"]
    assert found["ran"]["batch"] == 20
    (package / "failing.py").write_text("import torch\ndef failed():\n    torch.ones(2) @ torch.ones(3)\n")
    (package / "__main__.py").write_text("from tool.failing import failed\nfailed()\n", encoding="utf-8")
    found = json.loads(script.completed(command, timeout=300, cwd=tmp_path, env=env).stdout)
    assert found["why_no_verdict"].endswith("(failing.py:3)")
    # Where it runs a file of the user's, that is the program.
    (package / "__main__.py").write_text("import runpy\nrunpy.run_path('own.py')\n", encoding="utf-8")
    (tmp_path / "own.py").write_text("from tool.training import trained\ntrained()\n", encoding="utf-8")
    found = json.loads(script.completed(command, timeout=300, cwd=tmp_path, env=env).stdout)
    (process,) = found["processes"]
    assert not any("tool/" in line for line in process["lines"]), process["lines"]


def test_a_snapshot_does_not_say_when_a_graph_was_gone(tmp_path: Path) -> None:
    begin = "import torch\ntorch.cuda.memory._record_memory_history()\n"
    end = "torch.cuda.memory._dump_snapshot('snapshot.pickle')\n"
    (tmp_path / "train.py").write_text(begin + LEFT.format(end="del graph") + end, encoding="utf-8")
    words = ["run", "--simulate", "A100-40GB", "--values", "none", sys.executable, "train.py"]
    assert gpuconf(tmp_path, *words).returncode == 0
    done = gpuconf(tmp_path, "plan", "snapshot.pickle", "--limit", "13GiB")
    assert done.returncode == 3
    assert "note: private pools, such as those of CUDA graphs, are taken to be in use to the end" in done.stdout


ADAPTS = """
import torch
batch = 1 << 20
while True:
    try:
        held = [torch.empty(batch << 15, dtype=torch.uint8, device="cuda") for _ in range(2)]
        break
    except torch.OutOfMemoryError:
        held = None
        batch //= 2
print("batch", batch)
"""


def test_a_program_that_adapts_to_a_card_runs_on_that_card(tmp_path: Path) -> None:
    """On a card without a limit its first batch, of 64 GiB, needs more than each of the cards has."""
    found = planned(tmp_path, ADAPTS, "--gpu", "T4,L4")
    assert {(one["card"], one["verdict"]) for one in found["cards"]} == {("T4", "fits"), ("L4", "fits")}
    assert [one["cards"] for one in found["groups"]] == [["T4"], ["L4"]]
    assert [one["allocated"] >> 30 for one in found["groups"]] == [8, 16]
    assert any("catches out-of-memory errors" in note for note in found["notes"])


TRAINS = """
import torch
batch = 1 << 20
while True:
    try:
        model = torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.Linear(4096, 4096)).cuda()
        optimizer = torch.optim.SGD(model.parameters())
        for _ in range(3):
            model(torch.randn(batch, 4096, device="cuda")).sum().backward()
            optimizer.step()
        break
    except torch.OutOfMemoryError:
        model = optimizer = None
        batch //= 2
print("batch", batch, file=__import__("sys").stderr)
"""


def test_batches_that_failed_are_not_those_of_the_steps(tmp_path: Path) -> None:
    found = planned(tmp_path, TRAINS, "--gpu", "T4")
    assert (found["ran"]["optimizer_steps"], found["ran"]["batch"]) == (3, 1 << 17)


def test_a_program_that_records_the_error_and_raises_it_again_adapts_to_nothing(tmp_path: Path) -> None:
    """docs/plan.md recommends such a handler. The plan of every card was where the program failed there."""
    program = """
import torch
from torch import OutOfMemoryError
try:
    held = torch.empty(20 << 30, dtype=torch.uint8, device="cuda")
except OutOfMemoryError as error:
    print("out of memory")
    torch.cuda.memory._dump_snapshot("oom.pickle")
    raise RuntimeError("out of memory") from error
"""
    found = planned(tmp_path, program, "--gpu", "T4,A100-40GB")
    verdicts = {one["card"]: one["verdict"] for one in found["cards"]}
    assert verdicts == {"T4": "does not fit", "A100-40GB": "fits"}
    assert not any("catches out-of-memory errors" in note for note in found["notes"])
    ends = program.replace("raise RuntimeError", "print").replace(" from error", "")
    assert any("catches out-of-memory errors" in note for note in planned(tmp_path, ends, "--gpu", "T4")["notes"])


@pytest.mark.parametrize(
    ("handler", "fits"),
    [
        ("except RuntimeError:\n        pass", True),
        ("except (ValueError, Exception) as error:\n        print(error)", True),
        ("except:\n        torch.cuda.empty_cache()", True),
        ("except Exception as error:\n        print(error)\n        sys.exit(1)", False),
        ("except Exception:\n        print('failed')\n        break", False),
        ("except torch.OutOfMemoryError:\n        sys.exit('out of memory')", False),
    ],
)
def test_a_handler_of_other_errors_may_adapt_to_a_card(tmp_path: Path, handler: str, fits: bool) -> None:
    program = f"""
import sys
import torch
try:
    torch.multiprocessing.set_start_method("spawn")
except RuntimeError:
    pass
for size in 40, 4:
    try:
        held = torch.empty(size << 30, dtype=torch.uint8, device="cuda")
        break
    {handler}
"""
    found = planned(tmp_path, program, "--gpu", "T4")
    assert found["cards"][0]["verdict"] == ("fits" if fits else "does not fit")
    assert any("catches out-of-memory errors" in note for note in found["notes"]) == fits


def test_programs_one_after_the_other_are_not_added_up(tmp_path: Path) -> None:
    code = "import torch; held = torch.empty(10 << 30, dtype=torch.uint8, device='cuda')"
    program = f"""
import subprocess, sys
for _ in range(2):
    subprocess.run([sys.executable, "-c", {code!r}], check=True)
"""
    found = planned(tmp_path, program, "--gpu", "T4")
    assert [one["allocated"] >> 30 for one in found["processes"]] == [10, 10]
    assert {one["verdict"] for one in found["cards"]} == {"fits"}
    assert "processes that used a GPU one after the other are not added up" in found["notes"]


def test_a_program_that_fills_its_card_is_not_said_to_fit(tmp_path: Path) -> None:
    """Contexts are larger on some cards than on the simulated one, which has memory for one, too."""
    program = """
import torch
held = []
try:
    while True:
        held.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError:
    pass
"""
    found = planned(tmp_path, program, "--gpu", "T4,L4")
    assert {one["card"]: one["verdict"] for one in found["cards"]} == {"T4": "depends", "L4": "depends"}


def test_kernels_that_are_only_tried_do_not_fill_a_card(tmp_path: Path) -> None:
    """Their workspaces are in the peak, and not in what the card has to hold: a small peak was said to fill a T4."""
    program = """
import torch
torch.backends.cudnn.benchmark = True
model = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.Conv2d(64, 3, 3)).cuda()
model(torch.randn(64, 3, 128, 128, device="cuda")).sum().backward()
"""
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    done = gpuconf(tmp_path, "plan", "--gpu", "T4", "--", sys.executable, "train.py")
    assert done.stdout.splitlines()[-1] == "fits on T4", done.stderr
    assert "torch.backends.cudnn.benchmark is on" in done.stdout.replace("\n  ", " ")
    assert "which it fills" not in done.stdout


def test_a_card_on_which_other_kernels_reserve_less_is_not_filled(tmp_path: Path) -> None:
    """The first card, on which the program takes more, was taken for the limit of the second."""
    program = """
import torch
q = torch.randn(1, 16, 3000, 64, dtype=torch.half, device="cuda", requires_grad=True)
mask = torch.zeros(1, 1, 3000, 3000, dtype=torch.half, device="cuda")
if torch.cuda.get_device_capability()[0] < 8:
    mask = mask.float().half()
torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask).sum().backward()
"""
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    done = gpuconf(tmp_path, "plan", "--gpu", "T4,L4", "--", sys.executable, "train.py")
    assert done.stdout.splitlines()[-1] == "fits on T4, L4", done.stderr
    peaks_of = [line for line in done.stdout.splitlines() if line.startswith("peak on ")]
    assert len({line.partition(", ")[2].split()[0] for line in peaks_of}) == 2, peaks_of
    assert "which it fills" not in done.stdout


def test_words_of_a_comment_or_docstring_catch_nothing(tmp_path: Path) -> None:
    program = '"""Once out of memory."""\nimport torch\n# except torch.OutOfMemoryError: out of memory\n'
    found = planned(tmp_path, program + "held = torch.zeros(9, device='cuda')\n", "--gpu", "T4")
    assert found["notes"] == ["no backward pass ran: this is the memory of inference"]


def test_a_program_that_runs_out_on_its_card_does_not_fit(tmp_path: Path) -> None:
    """That it failed is the answer, as the exit code says."""
    program = ADAPTS.replace("batch = 1 << 20", "batch = 1 << 19") + "kept = torch.empty(12 << 30, device='cuda')\n"
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    done = gpuconf(tmp_path, "plan", "--gpu", "T4", "--", sys.executable, "train.py")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (3, "does not fit on T4")


BY_CARD = """
import torch
is_small = {condition}
held = torch.empty((8 if is_small else 16) << 30, dtype=torch.uint8, device="cuda")
torch.cuda.is_bf16_supported()  # as PyTorch's autocast asks, for all of a generation
"""


@pytest.mark.parametrize(
    ("condition", "small", "question"),
    [
        ('"L4" in torch.cuda.get_device_name()', "L4", "the card's name"),
        ("torch.cuda.get_device_capability() < (8, 9)", "A10", "its compute capability"),
        ("torch.cuda.get_device_properties(0).total_memory < 23 << 30", "L4", "the card's memory"),
    ],
    ids=["name", "capability", "memory"],
)
def test_a_program_that_asks_for_its_card_runs_on_each(
    tmp_path: Path, condition: str, small: str, question: str
) -> None:
    """PyTorch does the same on these cards: one run was for all of them."""
    other = "L4" if small == "A10" else "RTX4090"
    found = planned(tmp_path, BY_CARD.format(condition=condition), "--gpu", f"{small},{other}")
    assert [one["allocated"] >> 30 for one in found["groups"]] == [8, 16]
    assert f"the program reads {question}, and was run on each" in found["notes"]
    found = planned(tmp_path, BY_CARD.format(condition="False"), "--gpu", f"{small},{other}")
    assert len(found["groups"]) == 1


def test_what_others_take_of_a_card_is_not_the_programs(tmp_path: Path) -> None:
    program = """
import torch
left = torch.cuda.mem_get_info()[0]
assert left < 14 << 30, left
held = torch.empty(13 << 30, dtype=torch.uint8, device="cuda")
"""
    found = planned(tmp_path, program, "--gpu", "T4", "--beside", "800MiB")
    assert {one["verdict"] for one in found["cards"]} == {"depends"}
    assert "800.00MiB of T4 are left to other programs" in found["notes"]
    done = gpuconf(tmp_path, "plan", "--gpu", "T4", "--beside", "15GiB", "--", sys.executable, "train.py")
    assert done.returncode == 2
    assert "--beside: T4 has 14.56GiB: 15.00GiB beside the program leave nothing" in done.stderr


def test_a_long_run_says_which_one_it_is_in_a_pipe(tmp_path: Path) -> None:
    program = "import time, torch\nheld = torch.zeros(9, device='cuda')\ntime.sleep(12)\n"
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    done = gpuconf(tmp_path, "plan", "--gpu", "T4,A10", "--", sys.executable, "train.py")
    run_1 = r"gpuconf plan: run 1, the program as on T4, 1 more to come"
    run_2 = r"gpuconf plan: run 2, the program as on A10-24GB"
    texts = [rf"{run}\n({run}: \d+ s\n)+" for run in (run_1, run_2)]
    assert re.fullmatch("".join(texts), done.stderr), done.stderr


FREE = """
import torch
for size in (10 << 30, 11 << 30):
    held = torch.empty(size, dtype=torch.uint8, device="cuda")
    del held
torch.cuda.mem_get_info()
"""


def test_a_program_that_asks_for_free_memory_saw_that_of_the_card(tmp_path: Path) -> None:
    """On a T4 PyTorch would have released its cache, and 3 GiB would have been free; here there are none."""
    found = planned(tmp_path, FREE, "--gpu", "T4,A100-40GB")
    assert {one["card"]: one["verdict"] for one in found["cards"]} == {"T4": "depends", "A100-40GB": "fits"}


def test_a_card_on_which_the_program_fails_does_not_hold_it(tmp_path: Path) -> None:
    program = "import torch\nheld = torch.zeros(9, device='cuda')\nassert torch.cuda.get_device_capability()[0] < 8\n"
    found = planned(tmp_path, program, "--gpu", "T4,A100-40GB,V100-16GB")
    verdicts = {one["card"]: one["verdict"] for one in found["cards"]}
    assert verdicts == {"T4": "fits", "A100-40GB": "depends", "V100-16GB": "fits"}
    assert any(note.startswith("on A100-40GB: the program failed: AssertionError") for note in found["notes"])


# Any function of a library will do: the program ends before it allocates.
PLUGGABLE = """
pluggable = torch.cuda.memory.CUDAPluggableAllocator("libc.so.6", "malloc", "free")
torch.cuda.memory.change_current_allocator(pluggable)
"""


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            'os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "backend:cudaMallocAsync"',
            "leave it out of PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF",
        ),
        ("torch.cuda.init(); torch.cuda.memory.change_current_allocator(None)", "change_current_allocator()"),
        (PLUGGABLE, "replaces PyTorch's allocator by change_current_allocator()"),
        ('os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"', "unset it"),
        ("torch.cuda.init(); torch.cuda.memory.caching_allocator_enable(False)", "switches PyTorch's cache"),
    ],
    ids=["a setting", "a call", "a call before CUDA starts", "no cache", "no cache by a call"],
)
def test_other_allocators_are_named(tmp_path: Path, line: str, says: str) -> None:
    program = (
        f"import os\n{line if 'os.environ' in line else ''}\nimport torch\n{line}\ntorch.zeros(9, device='cuda')\n"
    )
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    done = gpuconf(tmp_path, "plan", "--gpu", "A10", "--", sys.executable, "train.py")
    assert done.returncode in (1, 4)
    assert says in done.stderr + done.stdout


OFFLOADS = """
import torch
own = torch.randn(1 << 29)
model = torch.nn.Linear(4096, 4096).cuda()
with torch.autograd.graph.save_on_cpu(pin_memory=True):
    model(torch.empty(1 << 16, 4096, device="cuda")).sum().backward()
"""


def test_memory_of_the_host_is_named(tmp_path: Path) -> None:
    """The process's own tensors, which are not computed, and what it pins."""
    answer = planned(tmp_path, OFFLOADS.replace("randn(1 << 29)", "randn(1)"), "--gpu", "A10")
    (plain,) = answer["processes"]
    counts_pinned = tuple(map(int, answer["ran"]["torch"].split(".")[:2])) >= (2, 7)
    found = no_gpu.planned(tmp_path, OFFLOADS, "--gpu", "A10", words=(sys.executable, "train.py"), timeout=500)
    (line,) = (one for one in found.stdout.splitlines() if one.startswith("the process's own memory: "))
    assert line.endswith("GiB, 1.00GiB of it pinned" if counts_pinned else "GiB")
    assert float(re.findall(r"[\d.]+", line)[0]) == pytest.approx(plain["host"] / 2**30 + 2, abs=0.1)
    assert plain["pinned"] == (1 << 30 if counts_pinned else 0)


CONVOLVES = """
import torch
model = torch.nn.Conv2d(8, 64, 3).cuda()
for _ in range(3):
    model(torch.randn(64, 8, 64, 64, device="cuda")).sum().backward()
"""


def test_versions_that_are_not_known_widen_the_range_and_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version of cuBLAS is that of what is installed, here of a folder that is found first."""
    known = planned(tmp_path, CONVOLVES, "--gpu", "A10", "--seconds", "400")
    assert not any("not known" in text for text in known["notes"])
    for package in ("nvidia_cublas", "nvidia_cublas_cu12", "nvidia_cublas_cu13"):
        folder = tmp_path / "newer" / f"{package}-99.1.2.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Name: {package}\nVersion: 99.1.2\n".replace("_", "-"), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "newer"))
    newer = 'torch.__version__ = type(torch.__version__)("2.99.1")\n'
    found = planned(tmp_path, CONVOLVES + newer, "--gpu", "A10", "--seconds", "400")
    assert "not known: PyTorch 2.99.1, cuBLAS 99.1; the need is 4% wider at both ends" in found["notes"]
    before, after = known["cards"][0], found["cards"][0]
    assert after["needs_low"] < before["needs_low"]
    assert after["needs_high"] > before["needs_high"]


def test_a_program_that_convolves_has_a_run_for_each_compute_capability(tmp_path: Path) -> None:
    """Others have one for 8.6 and 8.9, which PyTorch treats alike; the workspaces of cuDNN differ."""
    cards = ("--gpu", "RTX3060,A10,RTX4060", "--seconds", "400")
    assert [one["cards"] for one in planned(tmp_path, CONVOLVES, *cards)["groups"]] == [
        ["RTX3060", "A10-24GB"],
        ["RTX4060"],
    ]


FULL = """
import os, torch
if "ROOM" in os.environ:
    torch.cuda.set_per_process_memory_fraction(int(os.environ["ROOM"]) / torch.cuda.mem_get_info()[1])
layers = []
for a, b in ((3, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256)):
    layers += [torch.nn.Conv2d(a, b, 3, padding=1), torch.nn.ReLU(inplace=True)] + [torch.nn.MaxPool2d(2)] * (a == b)
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.Adagrad(model.parameters())
for _ in range(3):
    loss = model(torch.randn(1250, 3, 96, 96, device="cuda")).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_on_a_full_card_the_answer_has_what_a_run_reserves_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch releases cached blocks there, and takes engines of cuDNN that need no workspace."""
    found = planned(tmp_path, FULL, "--gpu", "A10", "--seconds", "400")
    card = next(one for one in found["cards"] if one["setting"] == "default")
    (context,) = (one for one in found["beside"] if one["what"] == "CUDA context")
    assert card["reserved"] < found["processes"][0]["reserved"]  # else the card is not full
    assert card["reserved_low"] <= card["reserved"] <= card["reserved_high"]
    room = (card["usable_low"] - context["high"] + card["usable_high"] - context["low"]) // 2
    monkeypatch.setenv("ROOM", str(room))
    assert peaks(tmp_path, FULL)[1] == card["reserved"]


FALLS = """
import time
import torch
class Rows:
    def __len__(self):
        return {count}
    def __getitem__(self, number):
        {item}
model = torch.nn.Linear(64, 64).cuda()
for step, rows in enumerate(torch.utils.data.DataLoader(Rows(), batch_size=5, sampler={sampler})):
    model(rows.cuda())
    if step == 10: time.sleep(1000)
"""


@pytest.mark.parametrize(
    ("count", "item", "sampler", "says"),
    [
        (1000, "return torch.zeros(number['at'], 64)", "[{'at': 9}] * 4000", "could not be looked at (TypeError)"),
        (10**9, "time.sleep(0.1); return torch.zeros(9, 64)", "range(4000)", "items were looked at"),
    ],
    ids=["fails", "slow"],
)
def test_a_data_set_whose_sizes_are_not_known_is_not_seen(
    tmp_path: Path, count: int, item: str, sampler: str, says: str
) -> None:
    """A loop over one of which too few items were looked at, or none, was cut."""
    program = FALLS.format(count=count, item=item, sampler=sampler)
    found = planned(tmp_path, program, "--gpu", "A10", "--seconds", "30")
    assert (found["ran"]["cut"], found["ran"]["ended"]) == ([], "seconds")
    assert any(says in text for text in found["unseen"])
    assert {one["verdict"] for one in found["cards"]} == {"depends"}


INDICES = """
import weakref
from gpuconf.plans.programs.loops import _Indices

class Batch(list):
    __hash__ = object.__hash__

alive, most = weakref.WeakSet(), 0

def batches():
    global most
    for number in range(2000):
        batch = Batch([1] * (3 if number == 700 else 1 if number == 1999 else 2))
        alive.add(batch)
        most = max(most, len(alive))
        yield batch

indices = _Indices(batches())
next(indices)
indices.end(at_least_one=False)
print(most, *map(len, indices))
"""


def test_the_end_of_a_loop_keeps_two_lists_of_indices() -> None:
    """The last batches of a sampler, up to two million lists, were held at a time."""
    done = script.completed([sys.executable, "-c", INDICES], check=True, timeout=200)
    most, *lengths = map(int, done.stdout.split())
    assert lengths == [3, 1]
    assert most <= 4
