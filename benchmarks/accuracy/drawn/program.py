"""Runs a row of rows.json: four steps of training or inference on the GPU.

`python benchmarks/accuracy/drawn/program.py --row 0`, or the same after `gpuconf plan --`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent.parent))

from tests_py.recordings import Recording  # noqa: E402

STEPS = 4


def main() -> None:
    """Run the row that the command names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--row", type=int, required=True)
    row = rows()[parser.parse_args().row]
    if row["allocator"]:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = row["allocator"]
    run(row)


def rows() -> list[dict[str, Any]]:
    """Return the rows."""
    found: list[dict[str, Any]] = json.loads(Recording("accuracy/drawn/rows.json").read_text())["rows"]
    return found


def run(row: dict[str, Any], after_step: Callable[[int], None] = lambda _: None, device: str = "cuda") -> None:
    """Run the steps of a row, and call a function after each."""
    import torch

    from benchmarks.accuracy.drawn import models

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = row["cudnn_benchmark"]
    if row["precision"] == "tf32":
        torch.set_float32_matmul_precision("high")
    model, make, loss_of = models.build(row)
    model.train(row["training"]).to(device)
    if row["precision"] == "pure bf16":
        model.to(torch.bfloat16)
    if row["channels_last"]:
        model.to(memory_format=torch.channels_last)

    def prepared(given: Any) -> Any:
        """Move what is in a batch to the GPU, in the type and the format of the model."""
        if isinstance(given, (tuple, list)):
            return type(given)(prepared(one) for one in given)
        if isinstance(given, dict):
            return {name: prepared(one) for name, one in given.items()}
        if not isinstance(given, torch.Tensor):
            return given
        given = given.to(device)
        if given.is_floating_point() and row["precision"] == "pure bf16":
            given = given.to(torch.bfloat16)
        return given.to(memory_format=torch.channels_last) if row["channels_last"] and given.dim() == 4 else given

    half = {"autocast bf16": torch.bfloat16, "autocast fp16": torch.float16}.get(row["precision"])

    def forward() -> Any:
        inputs, named, target = prepared(make(device if row["inputs"] == "gpu" else "cpu"))
        with torch.autocast(device, half) if half else contextlib.nullcontext():
            output = model(*inputs, **named)
            return loss_of(output, target) if row["training"] else output

    if not row["training"]:
        with torch.no_grad():
            for step in range(STEPS):
                forward()
                after_step(step)
        return
    optimizer = make_optimizer(row["optimizer"], model.parameters())
    scaler = torch.amp.GradScaler(device, enabled=row["precision"] == "autocast fp16")
    for step in range(STEPS):
        for _ in range(row["accumulation"]):
            loss = forward() / row["accumulation"]
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=row["set_to_none"])
        after_step(step)


def make_optimizer(name: str, parameters: Any) -> Any:
    """Return an optimizer by its name in a row."""
    from torch import optim

    made: dict[str, Callable[[], Any]] = {
        "SGD": lambda: optim.SGD(parameters, lr=1e-4),
        "SGD momentum": lambda: optim.SGD(parameters, lr=1e-4, momentum=0.9),
        "Adam": lambda: optim.Adam(parameters, lr=1e-5),
        "AdamW foreach": lambda: optim.AdamW(parameters, lr=1e-5, foreach=True),
        "AdamW fused": lambda: optim.AdamW(parameters, lr=1e-5, fused=True),
        "Adafactor": lambda: optim.Adafactor(parameters, lr=1e-4),
        "RMSprop": lambda: optim.RMSprop(parameters, lr=1e-5),
    }
    return made[name]()


if __name__ == "__main__":
    main()
