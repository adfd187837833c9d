"""What accelerate's estimate-memory says of a model, in MiB, by the functions of its command.

The command itself takes names of models on the Hugging Face Hub only, and builds them on the meta device, as here.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from accelerate.commands.estimate import estimate_training_usage
from accelerate.utils import calculate_maximum_sizes


def model(program: str, arguments: list[str]) -> tuple[torch.nn.Module, bool, str]:
    """Return a model, whether it is trained, and the type in which it is."""
    if program == "transformer":
        sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests_py" / "frameworks" / "simulated"))
        import recorded_transformer

        return recorded_transformer.Transformer(int(arguments[0])), arguments[1] == "training", "float32"
    import timm

    return timm.create_model("vit_giant_patch14_dinov2", num_classes=45, img_size=224).bfloat16(), True, "bfloat16"


def main() -> None:
    """Print the estimate: the weights, or for training the most of the model, its gradients, the optimizer and its
    step.
    """
    with torch.device("meta"):
        found, trains, kind = model(sys.argv[1], sys.argv[2:])
    size, _ = calculate_maximum_sizes(found)
    if trains:
        usage = estimate_training_usage(size * (2 if kind == "bfloat16" else 1), kind)
        size = max(usage.values())
    print(f"ESTIMATED {size / 2**20}", flush=True)


if __name__ == "__main__":
    main()
