"""The models of rows.json, with random inputs.

A builder takes a row and returns the model, a function that makes a batch on a device, and a function that makes a loss
of the model's output. A batch is the arguments of the model and the target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Row = Mapping[str, Any]
Batch = tuple[tuple[Any, ...], dict[str, Any], Any]
Work = tuple[nn.Module, Callable[[str], Batch], Callable[[Any, Any], torch.Tensor]]

# Names of the numbers of layers in configurations of transformers.
LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_encoder_layers", "num_decoder_layers")
LAYERS += ("encoder_layers", "decoder_layers", "depths")


def build(row: Row) -> Work:
    """Return the model of a row, on the CPU, and its functions."""
    return BUILDERS[row["library"]](row)


def class_loss(output: Any, target: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy of a classifier's output, or the mean of those of several outputs."""
    if isinstance(output, (tuple, list)):
        return torch.stack([class_loss(one, target) for one in output if one is not None]).mean()
    if isinstance(output, dict):
        return class_loss(list(output.values()), target)
    return functional.cross_entropy(output, target)


def _classifier(row: Row, model: nn.Module, *shape: int) -> Work:
    def batch(device: str) -> Batch:
        images = torch.randn(row["batch"], *shape, device=device)
        return (images,), {}, torch.zeros(row["batch"], dtype=torch.long, device=device)

    return model, batch, class_loss


def _timm(row: Row) -> Work:
    import timm

    model = timm.create_model(row["model"])
    if row["checkpointing"]:
        model.set_grad_checkpointing()
    return _classifier(row, model, *model.pretrained_cfg["input_size"])


def _torchvision(row: Row) -> Work:
    from torchvision.models import detection, get_model, get_model_builder, segmentation, video

    module = get_model_builder(row["model"]).__module__
    weights = {} if module.startswith(video.__name__) else {"weights_backbone": None}
    size = row["size"]
    if module.startswith(detection.__name__):
        return _detector(row, get_model(row["model"], weights=None, **weights))
    if module.startswith(segmentation.__name__):
        model = get_model(row["model"], weights=None, **weights)

        def batch(device: str) -> Batch:
            images = torch.randn(row["batch"], 3, size, size, device=device)
            return (images,), {}, torch.zeros(row["batch"], size, size, dtype=torch.long, device=device)

        return model, batch, class_loss
    model = get_model(row["model"], weights=None)
    return _classifier(row, model, *([3, 16, size, size] if module.startswith(video.__name__) else [3, size, size]))


def _detector(row: Row, model: nn.Module) -> Work:
    def batch(device: str) -> Batch:
        images = [torch.rand(3, row["size"], row["size"], device=device) for _ in range(row["batch"])]
        boxes = torch.tensor([[10.0, 10.0, 90.0, 90.0], [50.0, 60.0, 130.0, 150.0]], device=device)
        labels = torch.tensor([1, 2], device=device)
        masks = torch.zeros(2, row["size"], row["size"], dtype=torch.uint8, device=device)
        points = torch.ones(2, 17, 3, device=device)
        target = {"boxes": boxes, "labels": labels, "masks": masks, "keypoints": points}
        return (images, [target for _ in images]) if row["training"] else (images,), {}, None

    return model, batch, lambda output, _: sum(output.values()) if row["training"] else torch.zeros(())


def configuration(row: Row) -> Any:
    """Return the default configuration of a model type of transformers, with at most row["layers"] layers."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = CONFIG_MAPPING[row["model"]]
    default = kind().to_dict()
    fewer = {name: min(default[name], row["layers"]) for name in LAYERS if isinstance(default.get(name), int)}
    config = kind(**fewer)
    if getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = 0
    return config


def _transformers(row: Row) -> Work:
    import transformers

    config = configuration(row)
    model = getattr(transformers, row["task"]).from_config(config, attn_implementation=row["attention"])
    if row["checkpointing"]:
        model.gradient_checkpointing_enable()
    shape = (row["batch"], row["length"])

    def batch(device: str) -> Batch:
        if row["task"] == "AutoModelForImageClassification":
            size = config.image_size if isinstance(getattr(config, "image_size", 224), int) else 224
            images = torch.randn(row["batch"], getattr(config, "num_channels", 3), size, size, device=device)
            return (
                (),
                {"pixel_values": images, "labels": torch.zeros(row["batch"], dtype=torch.long, device=device)},
                None,
            )
        words = torch.randint(10, min(config.get_text_config().vocab_size, 20_000), shape, device=device)
        given: dict[str, Any] = {
            "input_ids": words,
            "attention_mask": torch.ones(shape, dtype=torch.long, device=device),
        }
        if row["task"] == "AutoModelForQuestionAnswering":
            given["start_positions"] = given["end_positions"] = torch.ones(
                row["batch"], dtype=torch.long, device=device
            )
        elif row["task"] == "AutoModelForSequenceClassification":
            given["labels"] = torch.zeros(row["batch"], dtype=torch.long, device=device)
        elif row["task"] == "AutoModelForTokenClassification":
            given["labels"] = torch.zeros(shape, dtype=torch.long, device=device)
        else:
            given["labels"] = words.clone()
        return (), given, None

    return model, batch, lambda output, _: output.loss


class Recurrent(nn.Module):
    """Two layers of an RNN, and a classifier of its last state."""

    def __init__(self, kind: str, width: int, both: bool) -> None:
        """Make an RNN of this class of torch.nn, of one direction or both."""
        super().__init__()
        self.layers = getattr(nn, kind)(width, width, num_layers=2, batch_first=True, dropout=0.1, bidirectional=both)
        self.head = nn.Linear(width * (2 if both else 1), 1000)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the classes of each sequence."""
        return self.head(self.layers(words)[0][:, -1])


class Attention(nn.Module):
    """Four layers of attention, with or without their weights."""

    def __init__(self, width: int, weights: bool) -> None:
        """Make the layers; `weights` is need_weights of torch.nn.MultiheadAttention."""
        super().__init__()
        self.layers = nn.ModuleList(nn.MultiheadAttention(width, 8, dropout=0.1, batch_first=True) for _ in range(4))
        self.weights = weights
        self.head = nn.Linear(width, 1000)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the classes of each sequence."""
        for layer in self.layers:
            words = words + layer(words, words, words, need_weights=self.weights)[0]
        return self.head(words.mean(1))


class Translator(nn.Module):
    """torch.nn.Transformer, and a classifier of its output."""

    def __init__(self, width: int) -> None:
        """Make two layers each of the encoder and the decoder."""
        super().__init__()
        self.layers = nn.Transformer(width, 8, 2, 2, 4 * width, batch_first=True)
        self.head = nn.Linear(width, 1000)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the classes of each sequence."""
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1], device=words.device, dtype=words.dtype)
        return self.head(self.layers(words, words, tgt_mask=mask, tgt_is_causal=True).mean(1))


class Pooled(nn.Module):
    """Layers, the mean over all but the first two dimensions, and a classifier."""

    def __init__(self, width: int, *layers: nn.Module, dims: tuple[int, ...]) -> None:
        """Take the layers, and the dimensions over which to take the mean."""
        super().__init__()
        self.layers, self.head, self.dims = nn.Sequential(*layers), nn.Linear(width, 1000), dims

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return the classes of each item of the batch."""
        return self.head(self.layers(given).mean(self.dims))


class Bag(nn.Module):
    """torch.nn.EmbeddingBag and a multilayer perceptron."""

    def __init__(self, width: int) -> None:
        """Make a table of 100,000 words."""
        super().__init__()
        self.bag = nn.EmbeddingBag(100_000, width, mode="mean")
        self.head = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.LayerNorm(4 * width), nn.Linear(4 * width, 1000)
        )

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the classes of each item of the batch."""
        return self.head(self.bag(words))


class Language(nn.Module):
    """An embedding, a GRU, and logits over 30,000 words."""

    def __init__(self, width: int) -> None:
        """Make the layers."""
        super().__init__()
        self.words = nn.Embedding(30_000, width)
        self.layers = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, 30_000)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the logits, classes second."""
        return self.head(self.layers(self.words(words))[0]).transpose(1, 2)


def _convolutions(kind: str, norm: str, width: int, first: int, stride: int) -> list[nn.Module]:
    """Return four blocks of a class of convolutions of torch.nn, with normalization."""
    layers: list[nn.Module] = []
    for number in range(4):
        convolution = getattr(nn, kind)(first if number == 0 else width, width, 3, stride=stride, padding=1)
        layers += [convolution, nn.GroupNorm(8, width) if norm == "GroupNorm" else getattr(nn, norm)(width), nn.SiLU()]
    return layers


def _layers(row: Row) -> Work:
    width, batch, length, size = row["width"], row["batch"], row["length"], row["size"]
    name = row["model"]
    words = (length, width)
    if name in ("LSTM", "GRU", "RNN"):
        return _classifier(row, Recurrent(name, width, row["option"]), *words)
    if name == "MultiheadAttention":
        return _classifier(row, Attention(width, row["option"]), *words)
    if name == "Transformer":
        return _classifier(row, Translator(width), *words)
    if name == "TransformerEncoder":
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, norm_first=row["option"])
        encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=not row["option"])
        return _classifier(row, Pooled(width, encoder, dims=(1,)), *words)
    if name == "Linear":
        layers = [
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Dropout(0.1),
            nn.Linear(4 * width, width),
            nn.LayerNorm(width),
        ]
        return _classifier(row, Pooled(width, *layers, *layers, dims=(1,)), *words)
    if name == "Conv1d":
        return _classifier(
            row, Pooled(width, *_convolutions("Conv1d", "BatchNorm1d", width, width, 1), dims=(2,)), width, length
        )
    if name == "Conv2d":
        norm = "GroupNorm" if row["option"] else "BatchNorm2d"
        return _classifier(row, Pooled(width, *_convolutions("Conv2d", norm, width, 3, 2), dims=(2, 3)), 3, size, size)
    if name == "Conv3d":
        layers = _convolutions("Conv3d", "BatchNorm3d", width // 4, 3, 2)
        return _classifier(row, Pooled(width // 4, *layers, dims=(2, 3, 4)), 3, 16, size, size)
    if name == "ConvTranspose2d":
        layers = _convolutions("ConvTranspose2d", "BatchNorm2d", width // 4, width // 4, 2)
        return _classifier(row, Pooled(width // 4, *layers, dims=(2, 3)), width // 4, size // 16, size // 16)
    made = Bag(width) if name == "EmbeddingBag" else Language(width)
    targets = (batch,) if name == "EmbeddingBag" else (batch, length)

    def tokens(device: str) -> Batch:
        target = torch.zeros(targets, dtype=torch.long, device=device)
        return (torch.randint(0, 30_000, (batch, length), device=device),), {}, target

    return made, tokens, class_loss


def _geometric(row: Row) -> Work:
    from torch_geometric.nn import models

    nodes, edges = 64 * row["length"], 512 * row["length"]
    model = getattr(models, row["model"])(row["width"] // 2, row["width"], num_layers=3, out_channels=40, dropout=0.1)

    def batch(device: str) -> Batch:
        graph = torch.randint(0, nodes, (2, edges), device=device)
        features = torch.randn(nodes, row["width"] // 2, device=device)
        return (features, graph), {}, torch.zeros(nodes, dtype=torch.long, device=device)

    return model, batch, class_loss


BUILDERS: dict[str, Callable[[Row], Work]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "transformers": _transformers,
    "torch.nn": _layers,
    "torch_geometric": _geometric,
}
