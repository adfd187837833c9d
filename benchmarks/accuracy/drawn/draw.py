"""Draws the programs of rows.json. It was run once for each draw, before the first prediction and before the recording.

    python benchmarks/accuracy/drawn/draw.py second

Adds the rows of a draw of DRAWS to the file. Needs torch, torchvision, timm, transformers and torch_geometric, and no
GPU. The rule is RULE; the seed makes the same draws with the same versions, which rows.json names.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent.parent))

from tests_py.recordings import Recording  # noqa: E402

# Of each draw, its seed and how many programs it has of each library.
DRAWS: dict[str, tuple[int, dict[str, int]]] = {
    "first": (20261126, {"torchvision": 14, "timm": 18, "transformers": 18, "torch.nn": 10, "torch_geometric": 2}),
    "second": (20261127, {"torchvision": 12, "timm": 24, "transformers": 16, "torch.nn": 8}),
}
PARAMETERS = 400_000_000
PIXELS, TOKENS = 1_000_000, 2_048  # of a batch
SECONDS = 60  # for the check of a row
TASKS = {
    "AutoModelForCausalLM": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "AutoModelForMaskedLM": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "AutoModelForSeq2SeqLM": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "AutoModelForSequenceClassification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "AutoModelForTokenClassification": "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
    "AutoModelForQuestionAnswering": "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES",
    "AutoModelForImageClassification": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
}
LAYERS = (
    "LSTM",
    "GRU",
    "RNN",
    "MultiheadAttention",
    "Transformer",
    "TransformerEncoder",
    "Linear",
    "Conv1d",
    "Conv2d",
    "Conv3d",
)
LAYERS += ("ConvTranspose2d", "EmbeddingBag", "Embedding")
GRAPHS = ("GCN", "GraphSAGE", "GIN", "GAT")
RULE = [
    "The models are drawn from torchvision.models.list_models() without quantized_* (int8 on CPUs) and raft_* (pairs "
    "of images); "
    "from timm.list_models(); from the tasks of draw.py and then the model types in the task's mapping of "
    "transformers; from a "
    "list of layers of torch.nn; and from four models of torch_geometric.nn.models. No model twice.",
    "The settings are drawn as in draw.py. Then the batch is halved until it has at most 1,000,000 pixels (images) or "
    "2,048 tokens "
    "(transformers), and a length until it is less than the model has positions. Models of transformers have their "
    "default "
    "configuration with at most two or four layers.",
    "A draw is kept if its model has at most 400 million parameters (those of timm and transformers are counted on "
    "the meta "
    "device, where it must be possible to build them), and a forward pass of it, with a batch of one and the loss if "
    "trained, "
    "ends on a CPU within 60 s without an error; otherwise the next is drawn. Nothing was dropped for another reason.",
    "A third of the rows, drawn by the same seed, is unseen: it is predicted after the last change that the others "
    "gave rise to.",
]


def main() -> None:
    """Add the rows of a draw to rows.json."""
    import timm
    import torch
    import torch_geometric
    import torchvision
    import transformers

    warnings.simplefilter("ignore")
    file = Recording("accuracy/drawn/rows.json")
    written = json.loads(file.read_text())
    seed, counts = DRAWS[sys.argv[1]]
    made = random.Random(seed)
    before = {one["model"] for one in written["rows"] if one["library"] not in ("torch.nn", "torch_geometric")}
    rows: list[dict[str, Any]] = []
    for library, count in counts.items():
        models: set[str] = set()
        while len(models) < count:
            row = drawn(made, library)
            if row["model"] in models | before:
                continue
            why = unusable(row)
            print(library, row["model"], why or "", flush=True)
            if why:
                written["dropped"].append(f"{library} {row['model']}: {why}")
                continue
            models.add(row["model"])
            if library == "transformers":
                row["length"] = length_within(row)
            rows.append(row)
    unseen = set(made.sample(range(len(rows)), len(rows) // 3))
    for number, row in enumerate(rows):
        row |= {"row": len(written["rows"]) + number, "unseen": number in unseen, "draw": sys.argv[1]}
    written["versions"] = {
        one.__name__: one.__version__ for one in (torch, torchvision, timm, transformers, torch_geometric)
    }
    lines = ",\n".join("    " + json.dumps(row) for row in written.pop("rows") + rows)
    head = json.dumps(written, indent=2)[:-2]
    file.write_text(f'{head},\n  "rows": [\n{lines}\n  ]\n}}\n')


def drawn(made: random.Random, library: str) -> dict[str, Any]:
    """Draw a model of a library, and settings."""
    training = made.random() < 0.75
    row: dict[str, Any] = {
        "library": library,
        "training": training,
        "batch": made.choice((2, 4, 8, 16, 32)),
        "length": made.choice((128, 256, 512, 1024)),
        "size": made.choice((160, 224, 288)),
        "width": made.choice((256, 512, 1024)),
        "layers": made.choice((2, 4)),
        "option": made.random() < 0.5,
        "attention": made.choice(("sdpa", "sdpa", "sdpa", "eager")),
        "optimizer": made.choice(
            ("SGD", "SGD momentum", "Adam", "AdamW foreach", "AdamW fused", "Adafactor", "RMSprop")
        ),
        "precision": made.choice(("float32", "tf32", "autocast bf16", "autocast fp16", "pure bf16")),
        "checkpointing": training and made.random() < 0.3,
        "channels_last": made.random() < 0.4,
        "cudnn_benchmark": made.random() < 0.3,
        "accumulation": made.choice((1, 1, 1, 2)),
        "set_to_none": made.random() < 0.8,
        "inputs": made.choice(("gpu", "cpu")),
        "allocator": made.choice([""] * 8 + ["expandable_segments:True", "max_split_size_mb:128"]),
    }
    return row | modelled(made, row)


def modelled(made: random.Random, row: dict[str, Any]) -> dict[str, Any]:
    """Draw a model, and return it with the settings that it limits."""
    if row["library"] == "timm":
        import timm

        name = made.choice(timm.list_models())
        size = timm.get_pretrained_cfg(name)
        pixels = size.input_size[1] * size.input_size[2] if size else 224 * 224
        return {"model": name, "batch": halved(row["batch"], pixels, PIXELS)}
    if row["library"] == "torchvision":
        from torchvision.models import get_model_builder, list_models

        name = made.choice([name for name in list_models() if not name.startswith(("quantized_", "raft_"))])
        frames = 16 if ".video." in get_model_builder(name).__module__ else 1
        return {"model": name, "batch": halved(row["batch"], frames * row["size"] ** 2, PIXELS), "checkpointing": False}
    if row["library"] == "transformers":
        from transformers.models.auto import modeling_auto

        task = made.choice(list(TASKS))
        images = task == "AutoModelForImageClassification"
        kind = made.choice(list(getattr(modeling_auto, TASKS[task])))
        batch = halved(row["batch"], 224 * 224 if images else row["length"], PIXELS if images else TOKENS)
        return {"model": kind, "task": task, "batch": batch, "channels_last": row["channels_last"] and images}
    names = LAYERS if row["library"] == "torch.nn" else GRAPHS
    name = made.choice(names)
    # It is for four dimensions.
    channels_last = row["channels_last"] and row["library"] == "torch.nn" and name != "Conv3d"
    return {"model": name, "checkpointing": False, "channels_last": channels_last}


def halved(batch: int, size: int, most: int) -> int:
    """Return the batch, halved until it is at most so large."""
    while batch > 1 and batch * size > most:
        batch //= 2
    return batch


def length_within(row: dict[str, Any]) -> int:
    """Return the length, halved until it is less than the number of positions that a model of transformers has."""
    from benchmarks.accuracy.drawn import models

    length: int = row["length"]
    while length >= getattr(models.configuration(row), "max_position_embeddings", length + 1):
        length //= 2
    return length


def unusable(row: dict[str, Any]) -> str:
    """Return why a row cannot be used, or an empty string."""
    import torch

    from benchmarks.accuracy.drawn import models

    def late(*_: object) -> None:
        raise TimeoutError(f"not within {SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        # Some of timm's are too large.
        with torch.device("meta" if row["library"] in ("timm", "transformers") else "cpu"):
            size = sum(one.numel() for one in models.build(row)[0].parameters())
        if size > PARAMETERS:
            return f"{size:,} parameters"
        model, make, loss_of = models.build(row | {"batch": 1, "length": min(row["length"], 128)})
        model.train(row["training"])
        single = row["training"] and any(
            isinstance(one, torch.nn.modules.batchnorm._BatchNorm) for one in model.modules()
        )
        if single:  # which cannot be trained with one item
            model, make, loss_of = models.build(row | {"batch": 2, "length": min(row["length"], 128)})
        inputs, named, target = make("cpu")
        with torch.no_grad():
            output = model.train(row["training"])(*inputs, **named)
            if row["training"]:
                loss_of(output, target).item()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:120] if str(error) else ''}"
    finally:
        signal.alarm(0)
    return ""


if __name__ == "__main__":
    main()
