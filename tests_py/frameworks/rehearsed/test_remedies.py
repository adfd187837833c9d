"""``gpuconf plan --help-fit -- PROGRAM``: each change that it prints, written into the program, saves what it says."""

import functools
import importlib.util
import sys
from pathlib import Path
from typing import Any

import no_gpu
import pytest
import script

pytestmark = [
    pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed"),
    pytest.mark.simulated_programs,
]

BLOCKS = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, rows):
        return rows + self.layers(rows)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(8))

    def forward(self, rows):
        for block in self.blocks:
            rows = block(rows)
        return rows

model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    rows = torch.randn(ROWS, WIDTH, device="cuda")
    output = model(rows)
    output.float().square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
ACTIVATIONS = BLOCKS.replace("WIDTH", "1024").replace("ROWS", "16384")  # 4.5 GiB of activations
STATES = BLOCKS.replace("WIDTH", "5120").replace("ROWS", "16")  # 1.7 billion parameters


planned = functools.partial(no_gpu.answer, words=(sys.executable, "train.py"), timeout=500)


def allocated(found: dict[str, Any]) -> int:
    size: int = found["processes"][0]["allocated"]
    return size


_OFFLOAD = "torch.autograd.graph.save_on_cpu(pin_memory=True)"


def written(program: str, changes: list[str], lines: list[str]) -> str:
    """Write the printed lines into a program."""
    text = "\n".join(lines)
    contexts = {"bf16": 'torch.autocast("cuda", torch.bfloat16)', "fp16": 'torch.autocast("cuda", torch.float16)'}
    contexts["offload"] = _OFFLOAD
    around = [context for change, context in contexts.items() if change in changes]
    for context in around:
        assert text.count(f"with {context}:\n    output = model(...)") == 1
    if around:
        inside = f"    with {', '.join(around)}:\n        output = model(rows)\n"
        program = program.replace("    output = model(rows)\n", inside)
    if "8bit" in changes:
        assert "torchao.optim.AdamW8bit(...)  # in place of torch.optim.AdamW" in lines
        program = "import torchao.optim\n" + program.replace("torch.optim.AdamW(", "torchao.optim.AdamW8bit(")
    if "states" in changes:
        line = "torchao.optim.CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, ...)"
        assert f"{line}  # in place of torch.optim.AdamW" in lines
        offloaded = "torchao.optim.CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW)"
        program = "import torchao.optim\n" + program.replace("torch.optim.AdamW(model.parameters())", offloaded)
    if "checkpoint" in changes:
        blocks = text[text.index("from functools") :].partition("\n#")[0]
        program = program.replace("model = Model().cuda()\n", f"model = Model().cuda()\n{blocks}\n")
    for change in {"fused", "foreach"} & set(changes):
        value = {"fused": "fused=True", "foreach": "foreach=False"}[change]
        assert f"torch.optim.AdamW(..., {value})" in lines
        program = program.replace("AdamW(model.parameters())", f"AdamW(model.parameters(), {value})")
    return program


@pytest.mark.parametrize(
    ("program", "card", "first", "gaining"),
    [
        (ACTIVATIONS, "A10:4608MiB", {"offload"}, {"checkpoint", "offload", "bf16"}),
        (ACTIVATIONS, "T4:4608MiB", {"offload"}, {"checkpoint", "offload", "fp16"}),
        (STATES, "V100-32GB", {"fused", "foreach", "8bit", "states"}, set()),
    ],
    ids=["activations", "activations without bfloat16", "states"],
)
def test_the_printed_lines_save_what_is_said(
    tmp_path: Path, program: str, card: str, first: set[str], gaining: set[str]
) -> None:
    found = planned(tmp_path, program, "--gpu", card, "--help-fit")
    assert found["cards"][0]["verdict"] != "fits"
    assert found["remedies"], found
    assert {found["remedies"][0]["changes"][0]} <= first
    assert {change for one in found["remedies"] for change in one["changes"]} >= gaining
    offloads = [one["title"] for one in found["remedies"] if "offload" in one["changes"]]
    assert all("of the host's memory" in title for title in offloads)
    for one in found["remedies"]:
        assert one["gains"] == [found["cards"][0]["card"]]
        edited = planned(tmp_path, written(program, one["changes"], one["write"]), "--gpu", card)
        assert allocated(edited) == pytest.approx(one["allocated"], rel=0.005)
        assert allocated(found) - allocated(edited) == pytest.approx(one["saves"], rel=0.005)
        assert one["reserved"] in {row["reserved"] for row in edited["cards"] if row["verdict"] == "fits"}
        assert "# where train.py:27 calls the model:" in one["write"] or not {"bf16", "fp16"} & {*one["changes"]}
        assert "fits" in {row["verdict"] for row in edited["cards"]}


@pytest.mark.skipif(importlib.util.find_spec("torchao") is None, reason="needs torchao")
def test_states_of_an_optimizer_in_the_hosts_memory(tmp_path: Path) -> None:
    """The allocator needs 5 GiB without, and 2 GiB with it."""
    program, card = BLOCKS.replace("WIDTH", "2048").replace("ROWS", "16"), "A10:2900MiB"
    remedies = planned(tmp_path, program, "--gpu", card, "--help-fit")["remedies"]
    assert [one["changes"] for one in remedies] == [["states"]]
    assert remedies[0]["title"].endswith("; pins 2.00GiB of the host's memory")
    edited = planned(tmp_path, written(program, ["states"], remedies[0]["write"]), "--gpu", card)
    assert allocated(edited) == pytest.approx(remedies[0]["allocated"], rel=0.005)
    assert edited["cards"][0]["verdict"] == "fits"


def test_a_change_that_gains_no_card_is_not_named(tmp_path: Path) -> None:
    held = "held = torch.empty(60 << 30, dtype=torch.uint8, device='cuda')\n"
    program = BLOCKS.replace("WIDTH", "64").replace("ROWS", "1024").replace("model =", f"{held}model =", 1)
    found = planned(tmp_path, program, "--gpu", "A10", "--help-fit")
    assert found["remedies"] == []
    tried = {change: one for one in found["tried"] for change in one["changes"]}
    assert {"checkpoint", "bf16", "foreach", "fused"} <= set(tried)
    assert tried["checkpoint"]["saves"] > 0
    assert all(one["why"] == "" for change, one in tried.items() if change not in ("offload", "states"))
    assert planned(tmp_path, program, "--gpu", "H100-80GB", "--help-fit")["remedies"] is None
    assert planned(tmp_path, program, "--gpu", "A10")["remedies"] is None


STAGES = """
from functools import partial
import torch
from gpuconf.plans.programs.remedies import _repeated

def repeat(kind, inside, count):
    return torch.nn.Sequential(*(kind(inside(), torch.nn.ReLU()) for _ in range(count)))

stage, block, expert = (type(name, (torch.nn.Sequential,), {}) for name in ("Stage", "Block", "Expert"))
plain = partial(torch.nn.Linear, 2, 2)
assert set(_repeated(repeat(stage, partial(repeat, block, plain, 3), 4))) == {block}
assert set(_repeated(repeat(block, partial(repeat, expert, plain, 8), 12))) == {block}
"""


def test_blocks_are_checkpointed_and_not_the_stages_that_hold_them() -> None:
    done = script.execute([sys.executable, "-c", STAGES], env=script.plain())
    assert done.returncode == 0, done.stderr


BATCHES = """
import sys, torch
batch, count = int(sys.argv[1]), int(sys.argv[2])
model = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096) for _ in range(4))).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(6):
    optimizer.zero_grad()
    (model(torch.randn(batch, 4096, device="cuda")).sum() / count).backward()
    optimizer.step()
"""


def test_gradients_of_several_batches_where_only_smaller_ones_fit(tmp_path: Path) -> None:
    """While the second batch runs, 256 MiB of gradients stay. So the largest batch is smaller than that of one step."""
    words = (sys.executable, "train.py", "{BATCH}", "1")
    options = ("--gpu", "T4:1600MiB", "--help-fit", "--largest", "BATCH=64..8192")
    found = planned(tmp_path, BATCHES, *options, words=words)
    of_one, of_several = found["largest"][0], found["accumulated"][0]
    assert of_several["largest"] < of_one["largest"] < 8192
    assert of_several["batches"] == -(-8192 // of_several["largest"])
    lines = """    if (step + 1) % count == 0:
        optimizer.step()
        optimizer.zero_grad()
"""
    edited = BATCHES.replace("    optimizer.zero_grad()\n", "").replace("    optimizer.step()\n", lines)
    for size, fits in ((of_several["largest"], True), (of_one["largest"], False)):
        words = (sys.executable, "train.py", str(size), "2")
        cards = planned(tmp_path, edited, "--gpu", "T4:1600MiB", words=words)["cards"]
        assert (cards[0]["verdict"] == "fits") is fits


TRAINED = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=500, loss_type="ForCausalLM"))
rows = [{"input_ids": torch.ones(512, dtype=torch.long), "labels": torch.ones(512, dtype=torch.long)}] * 64
options = TrainingArguments(output_dir="out", per_device_train_batch_size=16, max_steps=4, report_to=[])
Trainer(model=model, args=options, train_dataset=rows).train()
"""


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs transformers")
def test_changes_of_a_trainer_are_its_arguments(tmp_path: Path) -> None:
    """What Trainer itself does for them, such as outputs in full precision, is in the figures."""
    found = planned(tmp_path, TRAINED, "--gpu", "T4:1200MiB", "--help-fit")
    tried = {one["changes"][0]: one for one in found["remedies"] + found["tried"] if len(one["changes"]) == 1}
    assert "checkpoint" in [change for one in found["remedies"] for change in one["changes"]]
    for change in ("checkpoint", "fp16"):
        line, flags = tried[change]["write"]
        arguments = line.removeprefix("TrainingArguments(")
        edited = planned(tmp_path, TRAINED.replace("report_to=[])", f"report_to=[], {arguments}"), "--gpu", "T4")
        assert allocated(edited) == pytest.approx(tried[change]["allocated"], rel=0.005)
        assert flags.startswith("# or, if they come from the command line: --")
