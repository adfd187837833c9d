"""``gpuconf plan -- PROGRAM`` with the real PyTorch: what a program needs, and that a rehearsal damages nothing."""

import importlib.metadata
import importlib.util
import json
import pickle
import sys
import textwrap
from pathlib import Path

import no_gpu
import pytest
import script
from no_gpu import answer, planned

pytestmark = [
    pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed"),
    pytest.mark.simulated_programs,
]
MIB = 1 << 20

TRAIN = """
import sys
import torch
from torch import nn

model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    optimizer.zero_grad()
    model(torch.randn(4096, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    print(step, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), flush=True)
"""


def test_the_peak_is_pytorchs_and_what_it_is_made_of(tmp_path: Path) -> None:
    done = planned(
        tmp_path, TRAIN, "--json", "--gpu", "A10,RTX3090", "--record", "steps.pickle", "--html", "steps.html"
    )
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert found["ran"]["ended"] == "program"
    assert (found["ran"]["optimizer_steps"], found["ran"]["batch"]) == (6, 4096)
    (process,) = found["processes"]
    printed = no_gpu.printed(done)[-1].split()
    for name, so_far in zip(("allocated", "reserved"), printed[1:], strict=True):
        assert int(so_far) == process[name]
    parts = process["parts"]
    parameters = 4 * 1024 * 4096 * 2  # with the biases a little more
    assert parameters <= parts["parameters and buffers"] < parameters + MIB
    assert 0 < parts["gradients"] <= parts["parameters and buffers"]  # the peak may be within the backward pass
    assert 2 * parameters <= parts["optimizer state"] < 2 * parameters + MIB
    assert parts["activations"] >= 2 * 4 * 4096 * 4096  # GELU's input and output
    assert sum(parts.values()) == process["allocated"]
    assert {one["verdict"] for one in found["cards"]} == {"fits"}
    assert any("activations at " in line and "train.py:" in line for line in process["lines"])
    page = (tmp_path / "steps.html").read_text(encoding="utf-8")
    assert {part for part in parts if part not in page} <= {"rounding of blocks"}
    assert "fits on A10-24GB, RTX3090" in page
    modules = process["modules"]
    assert {path: set(modules[path]) for path in ("0", "2")} == {
        path: {"activations", "gradients", "optimizer state", "parameters and buffers"} & set(modules[path])
        for path in ("0", "2")
    }
    assert modules["1"] == {"activations": 4 * 4096 * 4096}  # GELU's output
    assert sum(modules[path]["optimizer state"] for path in ("0", "2")) == parts["optimizer state"]
    assert sum(sum(one.values()) for one in modules.values()) == sum(
        size for part, size in parts.items() if part != "rounding of blocks"
    )
    command = [sys.executable, "-m", "gpuconf", "plan", "--verify", "steps.pickle"]
    verified = script.completed(command, cwd=tmp_path)
    assert "the replay agrees with the snapshot" in verified.stdout  # the parts are tags, which PyTorch's tools ignore


def test_a_card_that_is_too_small(tmp_path: Path) -> None:
    program = """
    import torch
    held = torch.empty(15 << 30, dtype=torch.uint8, device="cuda")
    """
    done = planned(tmp_path, program, "--gpu", "T4,A10")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "fits on A10-24GB; does not fit on T4"
    # A folder's name is not cut.
    assert max(len(line) for line in done.stdout.splitlines() if "train.py" not in line) <= 80
    assert "note: no backward pass ran: this is the memory of inference" in done.stdout
    done = planned(tmp_path, program, "--gpu", "T4")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (3, "does not fit on T4")


def test_a_program_sees_the_cards_memory_and_may_exceed_it(tmp_path: Path) -> None:
    """Batches that are sized by free memory differ between L4 and A10, with which PyTorch does the same otherwise."""
    program = """
    import torch
    free, total = torch.cuda.mem_get_info()
    assert torch.cuda.get_device_properties(0).total_memory == total
    held = torch.empty(free // 2, dtype=torch.uint8, device="cuda")
    print("sees", total, torch.cuda.mem_get_info()[0] < free, flush=True)
    del held
    torch.cuda.empty_cache()
    most = torch.empty(60 << 30, dtype=torch.uint8, device="cuda")
    print("more", torch.cuda.mem_get_info()[0], flush=True)
    """
    done = planned(tmp_path, program, "--json", "--gpu", "L4,RTX4090")
    found = json.loads(done.stdout)
    lines = [line.split() for line in done.stderr.splitlines()]
    seen = [int(line[1]) for line in lines if line[:1] == ["sees"] and line[2] == "True"]
    usable = {one["card"]: one["usable_low"] for one in found["cards"]}
    assert seen == [usable["L4"] // 256 * 256, usable["RTX4090"] // 256 * 256]
    assert [line for line in lines if line[:1] == ["more"]] == [["more", "0"]] * 2
    assert {one["verdict"] for one in found["cards"]} == {"does not fit"}
    assert "the program reads the card's memory, and was run on each" in found["notes"]


def test_what_cudnn_tries_is_in_the_peak_and_not_in_what_a_program_needs(tmp_path: Path) -> None:
    program = """
    import torch
    torch.backends.cudnn.benchmark = {}
    layer = torch.nn.Conv2d(64, 64, 3, padding=1).to("cuda", torch.bfloat16)
    for _ in range(5):
        layer(torch.randn(16, 64, 112, 112, device="cuda", dtype=torch.bfloat16)).sum().backward()
    """
    tried, usual = (answer(tmp_path, program.format(choice), "--gpu", "A10") for choice in (True, False))
    for found, choice in ((tried, True), (usual, False)):
        assert any(note.startswith("torch.backends.cudnn.benchmark is on") for note in found["notes"]) is choice
    with_tries, without = tried["processes"][0], usual["processes"][0]
    assert with_tries["allocated"] > without["allocated"] + 20 * MIB
    assert with_tries["least"] == without["least"]
    assert with_tries["largest"] == without["largest"]


def test_float_convolutions_without_tensorfloat_have_other_workspaces(tmp_path: Path) -> None:
    program = """
    import torch
    torch.backends.cudnn.allow_tf32 = {}
    layer = torch.nn.Conv2d(64, 64, 3, padding=1).to("cuda", memory_format=torch.channels_last)
    image = torch.randn(16, 64, 112, 112, device="cuda").to(memory_format=torch.channels_last)
    with torch.no_grad():
        for _ in range(5):
            layer(image)
    """
    with_tf32, without = (
        answer(tmp_path, program.format(choice), "--gpu", "A10")["processes"][0] for choice in (True, False)
    )
    copies = 2 * 16 * 64 * 112 * 112 * 4  # an H200 copied the image and the result, so that their channels came first
    assert abs(without["allocated"] - with_tf32["allocated"] - copies) < MIB


def test_a_program_without_an_optimizer_that_ended_was_seen(tmp_path: Path) -> None:
    program = """
    import torch
    weight = torch.ones(1000, 1000, device="cuda", requires_grad=True)
    weight.sum().backward()
    """
    done = planned(tmp_path, program, "--gpu", "A10")
    assert done.returncode == 0, done.stderr
    assert "note: no optimizer of torch.optim stepped" in done.stdout


def test_a_program_that_fails_has_its_peak_but_no_verdict(tmp_path: Path) -> None:
    program = """
    import torch
    held = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    torch.ones(3, device="cuda", requires_grad=True).sum().backward()
    raise RuntimeError("no data")
    """
    done = planned(tmp_path, program, "--gpu", "A10")
    assert done.returncode == 1
    assert "peak: 1.00GiB allocated" in done.stdout
    assert "no verdict: the program failed: RuntimeError: no data (train.py:5)" in " ".join(done.stdout.split())


def test_a_failure_names_the_programs_own_line_in_whole_words(tmp_path: Path) -> None:
    """The last line named a file of gpuconf's, through which each operation goes, and was cut in mid-word."""
    program = """
    import torch
    def allocate():
        return torch.empty(1 << 52, device="cuda", dtype=torch.uint8)
    held = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    allocate()
    """
    done = planned(tmp_path, program, "--gpu", "A10")
    assert done.returncode == 1
    assert "peak: 1.00GiB allocated" in done.stdout, "the error lost the recording"
    assert "Exception ignored" not in done.stderr
    last = " ".join(done.stdout.split()).rpartition("no verdict: ")[2]
    start, end = "the program failed: OutOfMemoryError: ", " ... (train.py:4); the peak is that of what ran before"
    assert last.startswith(start), last
    assert last.endswith(end), last
    error = next(line for line in done.stderr.splitlines() if line.startswith("torch.OutOfMemoryError"))
    shown = last.removeprefix(start).removesuffix(end)
    assert shown in error
    assert len(shown) > 100
    assert set(shown.split()) <= set(error.split())


def test_a_rehearsal_reads_all_that_pytorch_records(tmp_path: Path) -> None:
    """A caught out-of-memory error ended the rehearsal in its own code."""
    program = """
    import os
    import pickle
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    import torch
    try:
        torch.empty(1 << 52, device="cuda", dtype=torch.uint8)
    except torch.OutOfMemoryError:
        pass
    tensor = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    for name, value in (("_set_memory_metadata", ("of the model",)), ("_annotate_tensor", (tensor, "kept"))):
        if hasattr(torch.cuda.memory, name):  # since PyTorch 2.15
            getattr(torch.cuda.memory, name)(*value)
    del tensor, value
    torch.cuda.empty_cache()
    torch.cuda.memory._snapshot()
    model = torch.nn.Linear(4096, 4096).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(100):
        model(torch.randn(64, 4096, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    recording = tmp_path / "recording.pickle"
    found = answer(tmp_path, program, "--gpu", "A10", "--record", str(recording))
    with open(recording, "rb") as file:
        actions = {event["action"] for events in pickle.load(file)["device_traces"] for event in events}
    assert {"alloc", "free_requested", "free_completed", "segment_map", "segment_unmap", "oom", "snapshot"} <= actions
    version = tuple(map(int, found["ran"]["torch"].split(".")[:2]))
    assert ("annotate" in actions) == (version >= (2, 15))
    assert not found["why_no_verdict"]
    assert found["ran"]["optimizer_steps"] >= 3
    assert 64 * MIB <= found["processes"][0]["parts"]["parameters and buffers"] < 65 * MIB


@pytest.mark.parametrize("steps", [0, 5])
def test_evaluations_before_the_first_step_are_not_the_program(tmp_path: Path, steps: int) -> None:
    """The train.py of nanoGPT evaluates first: forward passes of small batches were taken for the whole program."""
    program = f"""
    import torch
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    model.eval()
    with torch.no_grad():
        for _ in range(30):
            model(torch.randn(32, 64, device="cuda"))
    model.train()
    for _ in range({steps}):
        model(torch.randn(10_000_000, 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    found = answer(tmp_path, program, "--gpu", "T4")
    verdicts = {one["verdict"] for one in found["cards"]}
    assert found["ran"]["evaluations"] == 30
    if steps:
        assert verdicts == {"does not fit"}
        assert found["ran"]["optimizer_steps"] == steps
    else:
        assert verdicts == {"depends"}
        assert found["unseen"] == ["a step of the optimizer that was made"]


def test_checkpoints_logs_and_pushes_go_nowhere(tmp_path: Path) -> None:
    (tmp_path / "best.pt").write_text("the real one")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "train.csv").write_text("step,loss\n")
    hub = tmp_path / "huggingface_hub"
    hub.mkdir()
    (hub / "__init__.py").write_text("from .hf_api import HfApi\n")
    pushing = "class HfApi:\n    def upload_file(self, **named):\n        open('pushed', 'w').write('x')\n"
    (hub / "hf_api.py").write_text(pushing)
    program = """
    import logging, os
    import torch
    from huggingface_hub import HfApi
    logging.basicConfig(filename="logs/train.csv", level="INFO")
    model = torch.nn.Linear(5000, 5000, device="cuda")
    optimizer = torch.optim.SGD(model.parameters())
    model(torch.zeros(1, 5000, device="cuda")).sum().backward()
    optimizer.step()
    logging.info("1,0.5")
    torch.save(model.state_dict(), "best.pt.tmp")
    os.replace("best.pt.tmp", "best.pt")
    assert torch.load("best.pt")["weight"].shape == (5000, 5000)
    assert HfApi().upload_file(path_or_fileobj="best.pt", repo_id="me/model").commit_url
    """
    kept = tmp_path.parent / f"{tmp_path.name}-kept"
    found = answer(tmp_path, program, "--gpu", "A10", "--keep", str(kept))
    assert found["why_no_verdict"] == ""
    assert found["ran"]["saved"] == 1
    assert (tmp_path / "best.pt").read_text() == "the real one"
    assert (tmp_path / "logs" / "train.csv").read_text() == "step,loss\n"
    assert not (tmp_path / "pushed").exists()
    assert any(str(tmp_path / "best.pt") in one for one in found["outputs"])
    (copy,) = kept.rglob("best.pt")
    assert copy.stat().st_blocks * 512 < MIB < copy.stat().st_size  # of 100 MB none has a value


def test_a_checkpoint_in_memory_has_whole_tensors(tmp_path: Path) -> None:
    """They had strides of zero, so that copies on a card took a number each, and changes in place failed."""
    program = """
    import io
    import torch
    model = torch.nn.Linear(5000, 5000, device="cuda")
    optimizer = torch.optim.SGD(model.parameters())
    model(torch.zeros(1, 5000, device="cuda")).sum().backward()
    optimizer.step()
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    torch.save(model.state_dict(), "old.pt", _use_new_zipfile_serialization=False)
    for source in (buffer, "old.pt"):
        loaded = torch.load(source, map_location="cuda")
        assert loaded["weight"].stride() == (5000, 1)
        assert loaded["weight"].untyped_storage().nbytes() == 100_000_000
        loaded["weight"].add_(1)
    """
    found = answer(tmp_path, program, "--gpu", "A10")
    assert found["why_no_verdict"] == ""
    assert found["processes"][0]["allocated"] > 400_000_000  # the model, its gradients, and two checkpoints


def test_random_numbers_for_large_cpu_tensors_are_not_drawn(tmp_path: Path) -> None:
    program = """
    import resource
    import torch
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    weights = [torch.nn.init.trunc_normal_(torch.empty(16384, 16384)) for _ in range(4)]
    weights = [weight.to(torch.bfloat16).cuda() for weight in weights]
    order = torch.randperm(100_000)
    assert sorted(order.tolist()) == list(range(100_000))
    small = torch.randn(100)
    assert small.std() > 0.1
    print(f"took {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before >> 10} MiB")
    """
    done = planned(tmp_path, program, "--gpu", "A10")
    assert done.returncode == 0, done.stderr
    took = next(int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("took"))
    assert took < 300  # 4 GiB and 2 GiB of numbers
    assert "2.00GiB allocated" in done.stdout


FUSED = """
import torch
from torch import nn

def chain(x):
    for _ in range(4):
        x = torch.tanh(x * 0.5 + 1) * x
    return x

class Chain(nn.Module):
    def forward(self, x):
        return chain(x)

x = torch.randn(1 << 24, device="cuda")
model = torch.compile(Chain())
with torch.no_grad():
    for _ in range(3):
        torch.cuda.reset_peak_memory_stats()
        model(x)
print("of the last pass", torch.cuda.max_memory_allocated())
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_compile_fuses_as_on_a_card(tmp_path: Path) -> None:
    """Compiled, a pass needs its input and its result.

    Run eagerly, it needs what its operations have in between, too.
    """
    eager, compiled = (planned(tmp_path, FUSED, "--gpu", "A10", "--json", *options) for options in ((), ("--compile",)))
    assert (eager.returncode, compiled.returncode) == (0, 0), compiled.stderr
    tensor = 4 << 24
    assert f"of the last pass {2 * tensor}\n" in compiled.stderr
    assert f"of the last pass {4 * tensor}\n" in eager.stderr
    found = json.loads(compiled.stdout)
    assert (found["ran"]["compiled"], found["ran"]["eager"]) == (1, False)
    assert found["processes"][0]["allocated"] > 2 * tensor  # with what the compiler takes to time a kernel
    assert "global hooks" not in compiled.stderr
    assert (found["outputs"], json.loads(eager.stdout)["ran"]["eager"]) == ([], True)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_steps_of_a_compiled_optimizer_are_counted(tmp_path: Path) -> None:
    program = """
    import torch
    model = torch.nn.Linear(512, 512, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    step = torch.compile(optimizer.step)
    while True:
        model(torch.randn(64, 512, device="cuda")).square().mean().backward()
        step()
        optimizer.zero_grad()
    """
    found = answer(tmp_path, program, "--gpu", "A10", "--compile", "--steps", "4")
    assert (found["ran"]["ended"], found["ran"]["optimizer_steps"]) == ("steps", 4)
    assert found["unseen"] == ["what comes after these steps"]
    assert found["processes"][0]["parts"]["optimizer state"] >= 2 * 4 * 512 * 512


def test_ranks_of_torchrun(tmp_path: Path) -> None:
    program = """
    import os
    import torch
    import torch.distributed as dist
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = torch.nn.Linear(1000, 1000).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    extra = torch.empty(rank << 28, dtype=torch.uint8, device="cuda")
    for step in range(10):
        optimizer.zero_grad()
        model(torch.zeros(64, 1000, device="cuda")).sum().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    """
    words = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py")
    done = planned(tmp_path, program, "--json", "--gpu", "A10", words=words)
    found = json.loads(done.stdout)
    assert found["ran"]["ended"] == "program", done.stderr
    first, second = found["processes"]
    assert [(one["rank"], one["gpu"]) for one in (first, second)] == [(0, 0), (1, 1)]
    assert second["allocated"] - first["allocated"] == 1 << 28
    assert "NCCL" in {one["what"] for one in found["beside"]}


def test_the_failure_of_a_rank_names_it_and_its_line(tmp_path: Path) -> None:
    """The other rank fails later, of what it misses, and torchrun after both."""
    program = """
    import os, time
    import torch
    torch.cuda.set_device(rank := int(os.environ["LOCAL_RANK"]))
    held = torch.empty(1 << 20, device="cuda")
    if rank == 1:
        raise ValueError("a label is missing")
    time.sleep(3)
    raise RuntimeError("rank 1 is gone")
    """
    words = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py")
    found = json.loads(planned(tmp_path, program, "--json", "--gpu", "A10", words=words).stdout)
    failed = "the program failed: ValueError: a label is missing (train.py:7, rank 1)"
    assert found["why_no_verdict"] == f"{failed}; the peak is that of what ran before"


def test_a_block_and_a_command_in_python(tmp_path: Path) -> None:
    program = """
    import gpuconf
    with gpuconf.rehearse("A10") as block:
        import torch
        weight = torch.nn.Linear(1024, 1024, device="cuda")
        optimizer = torch.optim.Adam(weight.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            weight(torch.zeros(8, 1024, device="cuda")).sum().backward()
            optimizer.step()
        most = torch.cuda.max_memory_allocated()
    print(block.result.peak_allocated == most, block.result.fitting, block.result.ran["optimizer_steps"])
    found = gpuconf.plan(command=["train.py"], gpu="T4", steps=2)
    print(found.ran["ended"], found.fits)
    """
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "block.py").write_text(textwrap.dedent(program))
    done = script.completed([sys.executable, "block.py"], timeout=170, cwd=tmp_path, env=script.plain())
    assert done.stdout.splitlines() == ["True ('A10-24GB',) 2", "steps None"], done.stderr


# Of four rows the program keeps those whose mean is positive: the means are small tensors, computed from a large one.
SIZED = """
import torch
model = torch.nn.Linear(65536, 16, device="cuda")
optimizer = torch.optim.SGD(model.parameters())
x = torch.randn(4, 65536, device="cuda")
for step in range(8):
    optimizer.zero_grad()
    kept = x[x.mean(1) > -10]
    loss = model(kept).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item(), kept.shape[0])
"""


def test_no_card_is_said_to_hold_a_program_whose_sizes_are_values_that_were_not_computed(tmp_path: Path) -> None:
    found = answer(tmp_path, SIZED, "--gpu", "A10")
    assert found["unseen"] == ["sizes that come from nonzero of tensors without values: run it with --values cpu"]
    assert {one["verdict"] for one in found["cards"]} == {"depends"}
    found = answer(tmp_path, SIZED, "--gpu", "A10", "--values", "cpu")
    assert found["unseen"] == []
    assert {one["verdict"] for one in found["cards"]} == {"fits"}
