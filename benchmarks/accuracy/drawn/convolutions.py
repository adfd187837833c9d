"""Records the workspaces of cuDNN's convolutions on a real GPU, for shapes of real networks and of random ones.

    python benchmarks/accuracy/drawn/convolutions.py --collect          # writes layers.json, without a GPU
    python benchmarks/accuracy/drawn/convolutions.py --out FILE [--seconds 60] [--processes 10]

layers.json has the convolutions of all classifiers of torchvision and of 300 models of timm that a seed drew. The
recording draws from them, and changes a quarter of the shapes at random; batch, type, format and cudnn.benchmark are
drawn for all. Each line of FILE is a list in the order of FIELDS; the last three are what the call requested, in order,
and
negative when
freed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests_py.recordings import Recording

SEED = 20261127
MODELS = 300  # of timm
LARGEST = 1 << 27  # elements of an input or output
KEPT = 3 << 30  # bytes that a process keeps in PyTorch's allocator
TYPES = ("float32", "tf32", "bfloat16", "float16")
FIELDS = (
    "type",
    "channels_last",
    "benchmark",
    "transposed",
    "batch",
    "in",
    "out",
    "size",
    "kernel",
    "stride",
    "padding",
    "dilation",
    "groups",
)
FIELDS += ("forward", "input", "weight")


def collect() -> None:
    """Write layers.json: each convolution once, as it is first met."""
    import timm
    import torch
    from torchvision.models import get_model, list_models

    made = random.Random(SEED)
    found: dict[str, None] = {}

    def note(layer: Any, inputs: Any, _: Any) -> None:
        shape = (layer.in_channels, layer.out_channels, inputs[0].shape[2:], layer.kernel_size, layer.stride)
        padding = (0,) * len(layer.kernel_size) if isinstance(layer.padding, str) else layer.padding
        found.setdefault(json.dumps([layer.transposed, *shape, padding, layer.dilation, layer.groups]))

    def run(model: Any, size: tuple[int, ...]) -> None:
        for one in model.modules():
            if isinstance(one, torch.nn.modules.conv._ConvNd):
                one.register_forward_hook(note)
        model(torch.empty(2, *size, device="meta"))

    names = [f"timm {name}" for name in made.sample(timm.list_models(), MODELS)]
    names += [
        f"torchvision {name}"
        for name in list_models()
        if not name.startswith(("quantized_", "raft_")) and "_rcnn" not in name
    ]
    for name in names:
        library, model_name = name.split()
        try:
            with torch.device("meta"), torch.no_grad():
                if library == "timm":
                    model = timm.create_model(model_name)
                    run(model, model.pretrained_cfg["input_size"])
                else:
                    run(get_model(model_name, weights=None), (3, 224, 224))
        except Exception as error:  # some cannot be built without memory, or take something else than images
            print(name, type(error).__name__, str(error)[:80], flush=True)
    lines = ",\n".join(found)
    Recording("accuracy/drawn/layers.json").write_text(f"[\n{lines}\n]\n")
    print(len(found), "convolutions")


def drawn(made: random.Random, layers: list[Any]) -> dict[str, Any]:
    """Draw a convolution."""
    transposed, inner, outer, size, kernel, stride, padding, dilation, groups = made.choice(layers)
    if made.random() < 0.25:
        size = [max(3, int(one * made.uniform(0.4, 1.6))) for one in size]
        if groups == 1:
            inner, outer = (max(1, int(one * made.choice((0.5, 0.75, 1.5, 2)))) for one in (inner, outer))
    batch = made.choice((1, 1, 2, 3, 4, 6, 8, 8, 16, 16, 24, 32, 32, 64, 128))
    elements = max(inner, outer)
    for one in size:
        elements *= one
    while batch > 1 and batch * elements > LARGEST:
        batch //= 2
    return {
        "type": made.choice(TYPES),
        "channels_last": made.random() < 0.35 and len(size) == 2,
        "benchmark": made.random() < 0.15,
        "transposed": transposed,
        "batch": batch,
        "in": inner,
        "out": outer,
        "size": size,
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
    }


def record(out: Path, seconds: float, number: int) -> None:
    """Record until the time is over, in a process of its own."""
    import torch

    begin, made = time.monotonic(), random.Random(SEED + 1 + number)
    layers = json.loads(Recording("accuracy/drawn/layers.json").read_text())
    watch()
    with out.with_suffix(f".{number}").open("w", encoding="utf-8") as file:
        about = {
            "gpu": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "cudnn": torch.backends.cudnn.version(),
        }
        file.write(json.dumps(about | {"fields": FIELDS}) + "\n")
        while time.monotonic() - begin < seconds:
            row = drawn(made, layers)
            try:
                measure(row)
            except Exception as error:
                row |= {"forward": f"{type(error).__name__}: {error}"[:100]}
                if isinstance(error, torch.AcceleratorError):
                    break
            file.write(json.dumps([row.get(name) for name in FIELDS], separators=(",", ":")) + "\n")
            if torch.cuda.memory_reserved() > KEPT:
                torch.cuda.empty_cache()


def watch() -> None:
    """Let PyTorch record its allocations, anew."""
    import torch

    torch.cuda.memory._record_memory_history(None)
    torch.cuda.memory._record_memory_history(context=None, stacks="python", max_entries=1000)


def requested(call: Callable[[], Any]) -> tuple[list[int], Any]:
    """Return what a call requested of the allocator, and freed, and its result."""
    import torch

    before = len(torch.cuda.memory._snapshot()["device_traces"][0])
    result = call()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    signs = {"alloc": 1, "free_completed": -1}
    sizes = [signs[one["action"]] * one["size"] for one in events[before:] if one["action"] in signs]
    if len(events) > 150:
        watch()
    return sizes, result


def measure(row: dict[str, Any]) -> None:
    """Run a convolution and its gradients, and add what they requested beside their results."""
    import torch

    torch.backends.cudnn.allow_tf32 = row["type"] == "tf32"
    torch.backends.cudnn.benchmark = row["benchmark"]
    kind = {"tf32": torch.float32}.get(row["type"]) or getattr(torch, row["type"])
    layout = torch.channels_last if row["channels_last"] else torch.contiguous_format
    x = torch.empty(row["batch"], row["in"], *row["size"], device="cuda", dtype=kind, memory_format=layout).fill_(1)
    filters = (
        (row["in"], row["out"] // row["groups"]) if row["transposed"] else (row["out"], row["in"] // row["groups"])
    )
    w = torch.empty(*filters, *row["kernel"], device="cuda", dtype=kind, memory_format=layout).fill_(1)
    extra = [0] * len(row["size"])
    settings = (row["stride"], row["padding"], row["dilation"], row["transposed"], extra)
    with torch.no_grad():
        row["forward"], y = requested(lambda: torch.ops.aten.convolution(x, w, None, *settings, row["groups"]))
        grad = torch.ones_like(y)
        for what, mask in (("input", [True, False, False]), ("weight", [False, True, False])):
            args = (grad, x, w, None, *settings, row["groups"], mask)
            row[what], _ = requested(lambda args=args: torch.ops.aten.convolution_backward(*args))  # type: ignore[misc]


def main() -> None:
    """Collect, or record with several processes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--number", type=int)
    asked = parser.parse_args()
    if asked.collect:
        collect()
        return
    if asked.number is not None:
        record(asked.out, asked.seconds, asked.number)
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    words = [sys.executable, __file__, "--out", str(asked.out), "--seconds", str(asked.seconds), "--number"]
    children = [os.posix_spawn(sys.executable, [*words, str(number)], os.environ) for number in range(asked.processes)]
    for child in children:
        os.waitpid(child, 0)
    parts = [asked.out.with_suffix(f".{number}") for number in range(asked.processes)]
    asked.out.write_text("".join(part.read_text(encoding="utf-8") for part in parts if part.exists()), encoding="utf-8")
    for part in parts:
        part.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
