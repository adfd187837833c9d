"""Records what convolutions, recurrent networks, batch normalization and attention allocate on a real GPU, shape by
shape.

    python benchmarks/accuracy/drawn/workspaces.py --out FILE [--seconds 40]

Appends a line of JSON for each shape: what was called, and the sizes of the blocks that each call requested, in order,
negative when they were freed. The shapes are drawn by a seed, until the time is over. NVIDIA documents no size of these
workspaces.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

SEED = 20261127
LARGEST = 1 << 25  # elements of a convolution's input or output
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def main() -> None:
    """Record until the time is over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=40)
    asked = parser.parse_args()
    begin = time.monotonic()
    torch.cuda.memory._record_memory_history(context=None, stacks="python", max_entries=100_000)
    made = random.Random(SEED)
    kinds: list[Callable[[random.Random], dict[str, Any]]] = [convolution] * 12 + [recurrent, batch_norm, attention]
    with asked.out.open("a", encoding="utf-8") as file:
        about = {
            "gpu": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "cudnn": torch.backends.cudnn.version(),
        }
        file.write(json.dumps(about) + "\n")
        number = 0
        while time.monotonic() - begin < asked.seconds:
            kind = kinds[number % len(kinds)]
            number += 1
            try:
                found = kind(made)
            except Exception as error:
                found = {"kind": kind.__name__, "error": f"{type(error).__name__}: {error}"[:200]}
                if isinstance(error, torch.AcceleratorError):
                    file.write(json.dumps(found) + "\n")
                    break
            file.write(json.dumps(found) + "\n")
            file.flush()


def allocations(call: Callable[[], Any]) -> tuple[list[int], Any]:
    """Return the sizes that a call requested of the allocator, negative when they were freed, and its result."""
    before = len(torch.cuda.memory._snapshot()["device_traces"][0])
    result = call()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    if len(events) < before:  # the ring was full
        return [], result
    signs = {"alloc": 1, "free_completed": -1}
    sizes = [signs[one["action"]] * one["size"] for one in events[before:] if one["action"] in signs]
    if len(events) > 2_000:
        torch.cuda.memory._record_memory_history(None)
        torch.cuda.memory._record_memory_history(context=None, stacks="python", max_entries=100_000)
    return sizes, result


def convolution(made: random.Random) -> dict[str, Any]:
    """Record a convolution and its gradients."""
    kind = made.choice(("float32", "float32 without tf32", "bfloat16", "float16"))
    dims = made.choice((2, 2, 2, 2, 2, 2, 1, 3))
    groups = made.choice((1, 1, 1, 1, 1, 4, 0))  # 0: depthwise
    size = made.choice((7, 9, 14, 18, 28, 36, 56, 72, 112, 144, 224))
    row = {
        "kind": "convolution",
        "type": kind,
        "dims": dims,
        "batch": made.choice((1, 2, 4, 8, 16)),
        "in": made.choice((3, 16, 24, 32, 64, 96, 128, 192, 256, 512)),
        "out": made.choice((16, 24, 32, 64, 96, 128, 192, 256, 512)),
        "size": {1: size * 8, 2: size, 3: max(size // 4, 3)}[dims],
        "kernel": made.choice((1, 1, 3, 3, 3, 5, 7)) if dims < 3 else made.choice((1, 3)),
        "stride": made.choice((1, 1, 1, 2)),
        "dilation": made.choice((1, 1, 1, 1, 1, 2)),
        "channels_last": dims == 2 and made.random() < 0.4,
        "transposed": made.random() < 0.08,
        "benchmark": made.random() < 0.15,
    }
    if groups != 1 and (row["in"] % 4 or row["transposed"]):
        groups = 1
    if groups == 0:
        row["out"] = row["in"]
        groups = row["in"]
    row["groups"] = groups
    while row["batch"] > 1 and row["batch"] * max(row["in"], row["out"]) * row["size"] ** dims > LARGEST:
        row["batch"] //= 2
    torch.backends.cudnn.allow_tf32 = kind == "float32"
    torch.backends.cudnn.benchmark = row["benchmark"]
    name = ("ConvTranspose" if row["transposed"] else "Conv") + f"{dims}d"
    settings = {
        "stride": row["stride"],
        "padding": row["kernel"] // 2,
        "groups": groups,
        "dilation": row["dilation"],
        "bias": False,
    }
    layer = getattr(nn, name)(row["in"], row["out"], row["kernel"], **settings)
    layer = layer.to("cuda", TYPES[kind.split()[0]])
    x = torch.randn(row["batch"], row["in"], *[row["size"]] * dims, device="cuda", dtype=layer.weight.dtype)
    if row["channels_last"]:
        layer, x = layer.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    with torch.no_grad():
        row["forward"], y = allocations(lambda: layer(x))
        grad = torch.randn_like(y)
        settings_of = (
            [row["stride"]] * dims,
            [row["kernel"] // 2] * dims,
            [row["dilation"]] * dims,
            row["transposed"],
            [0] * dims,
        )
        for what, mask in (("input", [True, False, False]), ("weight", [False, True, False])):
            args = (grad, x, layer.weight, None, *settings_of, groups, mask)
            row[what], _ = allocations(lambda args=args: torch.ops.aten.convolution_backward(*args))  # type: ignore[misc]
    torch.cuda.synchronize()
    row["y"] = list(y.shape)
    return row


def recurrent(made: random.Random) -> dict[str, Any]:
    """Record a recurrent network, forward and backward."""
    row: dict[str, Any] = {
        "kind": "recurrent",
        "mode": made.choice(("LSTM", "GRU", "RNN")),
        "type": made.choice(("float32", "bfloat16", "float16")),
        "batch": made.choice((1, 2, 4, 8, 16, 32)),
        "length": made.choice((1, 16, 64, 100, 128, 256, 512)),
        "in": made.choice((64, 128, 200, 256, 512)),
        "hidden": made.choice((64, 128, 200, 256, 512, 1024)),
        "layers": made.choice((1, 2, 3)),
        "both": made.random() < 0.5,
        "dropout": made.choice((0.0, 0.1)),
        "training": made.random() < 0.7,
        "batch_first": made.random() < 0.5,
    }
    settings = {"num_layers": row["layers"], "bidirectional": row["both"], "batch_first": row["batch_first"]}
    dropout = row["dropout"] if row["layers"] > 1 else 0.0
    layer = getattr(nn, row["mode"])(row["in"], row["hidden"], dropout=dropout, **settings).to(
        "cuda", TYPES[row["type"]]
    )
    layer.train(row["training"])
    shape = (row["batch"], row["length"]) if row["batch_first"] else (row["length"], row["batch"])
    x = torch.randn(*shape, row["in"], device="cuda", dtype=TYPES[row["type"]], requires_grad=row["training"])
    with torch.set_grad_enabled(row["training"]):
        row["forward"], (y, _) = allocations(lambda: layer(x))
    if row["training"]:
        grad = torch.randn_like(y)
        row["backward"], _ = allocations(lambda: torch.autograd.backward(y, grad))
    torch.cuda.synchronize()
    return row


def batch_norm(made: random.Random) -> dict[str, Any]:
    """Record a batch normalization, forward and backward."""
    row: dict[str, Any] = {
        "kind": "batch_norm",
        "type": made.choice(("float32", "bfloat16", "float16")),
        "weights": made.choice(("float32", "same")),
        "batch": made.choice((1, 2, 4, 8, 16, 32)),
        "channels": made.choice((16, 24, 32, 64, 96, 128, 256, 512, 1024)),
        "size": made.choice((7, 14, 28, 56, 112)),
        "channels_last": made.random() < 0.6,
        "training": made.random() < 0.8,
    }
    kind = TYPES[row["type"]]
    layer = nn.BatchNorm2d(row["channels"]).to("cuda", torch.float32 if row["weights"] == "float32" else kind)
    layer.train(row["training"])
    x = torch.randn(row["batch"], row["channels"], row["size"], row["size"], device="cuda", dtype=kind)
    if row["channels_last"]:
        x = x.to(memory_format=torch.channels_last)
    x.requires_grad_()
    row["forward"], y = allocations(lambda: layer(x))
    grad = torch.randn_like(y)
    row["backward"], _ = allocations(lambda: torch.autograd.backward(y, grad))
    torch.cuda.synchronize()
    return row


def attention(made: random.Random) -> dict[str, Any]:
    """Record scaled dot product attention as PyTorch chooses it, forward and backward."""
    row: dict[str, Any] = {
        "kind": "attention",
        "type": made.choice(("float32", "bfloat16", "float16")),
        "batch": made.choice((1, 2, 4, 8)),
        "heads": made.choice((4, 6, 8, 12, 16)),
        "length": made.choice((49, 64, 128, 196, 197, 256, 512, 1000, 1024)),
        "width": made.choice((32, 40, 64, 80, 96, 128)),
        "causal": made.random() < 0.3,
        "mask": made.choice(("none", "none", "bool", "float")),
        "dropout": made.choice((0.0, 0.0, 0.1)),
    }
    kind = TYPES[row["type"]]
    shape = (row["batch"], row["heads"], row["length"], row["width"])
    q, k, v = (torch.randn(shape, device="cuda", dtype=kind, requires_grad=True) for _ in range(3))
    mask = None
    if row["mask"] != "none" and not row["causal"]:
        mask = torch.ones(row["batch"], 1, row["length"], row["length"], device="cuda", dtype=torch.bool)
        mask = mask if row["mask"] == "bool" else mask.to(kind)
    settings = {"attn_mask": mask, "dropout_p": row["dropout"], "is_causal": row["causal"]}
    row["forward"], y = allocations(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, **settings))
    grad = torch.randn_like(y)
    row["backward"], _ = allocations(lambda: torch.autograd.backward(y, grad))
    row["node"] = type(y.grad_fn).__name__
    torch.cuda.synchronize()
    return row


if __name__ == "__main__":
    main()
