"""Runs a program of modded-nanogpt as the first of eight ranks, without the others and its data: FILE of a log.

FILE begins with the program's source, up to a line of `=`. It is run as it is, but for a few steps, with tokens of our
own, with a process group that sends nothing, and without trying which tiles of compiled kernels are the fastest.
"""

import os
import re
import runpy
import sys
from array import array
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

RANKS, TOKENS, END_OF_TEXT = 8, 12_000_000, 50256

source = Path(sys.argv[1]).read_text(encoding="utf-8").split("\n" + "=" * 100)[0]
source = re.sub(r"num_iterations( *(?::\s*int *)?= *)\d+", r"num_iterations\g<1>3", source)
source = re.sub(r"(coordinate_descent_tuning = \(?\s*)True", r"\1False", source)
Path("program.py").write_text(source, encoding="utf-8")
sys.argv = ["program.py"]
Path("nvidia-smi").write_text("#!/bin/sh\n", encoding="utf-8")
Path("nvidia-smi").chmod(0o755)
os.environ.update(
    PATH=f"{Path.cwd()}:{os.environ['PATH']}",
    RANK="0",
    LOCAL_RANK="0",
    WORLD_SIZE=str(RANKS),
    MASTER_ADDR="127.0.0.1",
    MASTER_PORT="29500",
)

header = array("i", [20240520, 1, TOKENS, *[0] * 253])
text = array("H", [END_OF_TEXT, *range(1, 600)]) * (TOKENS // 600)
folder = Path("data/fineweb10B")
folder.mkdir(parents=True, exist_ok=True)
for name in ("train", "val"):
    (folder / f"fineweb_{name}_000001.bin").write_bytes(header.tobytes() + text.tobytes())


def begin(*_arguments: Any, **_options: Any) -> None:
    """Begin as the first rank of a group whose collectives do nothing."""
    real(backend="fake", rank=0, world_size=RANKS, store=FakeStore())


real, dist.init_process_group = dist.init_process_group, begin
torch.set_num_threads(1)
runpy.run_path("program.py", run_name="__main__")
