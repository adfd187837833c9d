"""Draw training programs of public projects by the rule of ``rule.md``: print candidates, in the order of the draw.

python benchmarks/programs/draw.py FOLDER

FOLDER has a checkout of each project, under its name without the owner, at the commit that ``programs.json`` names.
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

SEED = 53
# By project, the folder of its programs.
FOLDERS = {
    "Lightning-AI/pytorch-lightning": "examples",
    "eriklindernoren/PyTorch-GAN": "implementations",
    "huggingface/accelerate": "examples",
    "huggingface/pytorch-image-models": ".",
    "karpathy/minGPT": "projects",
    "karpathy/nanoGPT": ".",
    "kuangliu/pytorch-cifar": ".",
    "pytorch/examples": ".",
    "vwxyzjn/cleanrl": "cleanrl",
    "yunjey/pytorch-tutorial": "tutorials",
}
TRAINS = re.compile(r"\.backward\(|\.fit\(|\bTrainer\(|LightningCLI\(|manual_backward\(")
RUNS = re.compile(r"^if __name__ ==|^(for|while) .*:$", re.MULTILINE)
OTHER = re.compile(r"\bjax\b|init_process_group|torchrun|init_device_mesh|deepspeed|megatron|init_rpc", re.IGNORECASE)


def programs(folder: Path) -> list[str]:
    """Return the paths of a project's training programs for one GPU, in the order in which they are drawn."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if TRAINS.search(text) and RUNS.search(text) and not OTHER.search(text):
            found.append(str(path))
    random.Random(SEED).shuffle(found)
    return found


if __name__ == "__main__":
    root = Path(sys.argv[1])
    for project, under in FOLDERS.items():
        checkout = root / project.rpartition("/")[2]
        for path in programs(checkout / under):
            print(project, Path(path).relative_to(checkout))
