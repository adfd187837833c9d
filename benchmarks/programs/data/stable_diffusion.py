"""A folder ``sd`` with a model of the sizes of Stable Diffusion 1.5. Its weights are zero, and need no room on disk."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import torch
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel

ROOT = Path("sd")


def save(name: str, model: torch.nn.Module, weights: str) -> None:
    """Write the model's configuration and its weights."""
    folder = ROOT / name
    folder.mkdir(parents=True)
    model.config.save_pretrained(folder) if name == "text_encoder" else model.save_config(folder)
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for key, one in model.state_dict().items():
        size = one.numel() * 4
        header[key] = {"dtype": "F32", "shape": list(one.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with (folder / weights).open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)


blocks = {"block_out_channels": (128, 256, 512, 512), "layers_per_block": 2, "latent_channels": 4, "sample_size": 512}
down, up = ("DownEncoderBlock2D",) * 4, ("UpDecoderBlock2D",) * 4
with torch.device("meta"):
    unet = UNet2DConditionModel(sample_size=64, cross_attention_dim=768)
    vae = AutoencoderKL(down_block_types=down, up_block_types=up, **blocks)
    text = CLIPTextModel(CLIPTextConfig(hidden_size=768, intermediate_size=3072, num_attention_heads=12))
    text.config.architectures = ["CLIPTextModel"]
save("unet", unet, "diffusion_pytorch_model.safetensors")
save("vae", vae, "diffusion_pytorch_model.safetensors")
save("text_encoder", text, "model.safetensors")
DDPMScheduler(beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012).save_pretrained(ROOT / "scheduler")
(ROOT / "tokenizer").mkdir()
letters = [chr(one) for one in range(33, 127)]
words = [*letters, *(f"{one}</w>" for one in letters), "<|startoftext|>", "<|endoftext|>"]
(ROOT / "tokenizer/vocab.json").write_text(json.dumps({word: at for at, word in enumerate(words)}), encoding="utf-8")
(ROOT / "tokenizer/merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
special = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
settings = {**special, "unk_token": "<|endoftext|>", "model_max_length": 77, "tokenizer_class": "CLIPTokenizer"}
(ROOT / "tokenizer/tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
index = {
    "_class_name": "StableDiffusionPipeline",
    "feature_extractor": [None, None],
    "image_encoder": [None, None],
    "requires_safety_checker": False,
    "safety_checker": [None, None],
    "scheduler": ["diffusers", "DDPMScheduler"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "unet": ["diffusers", "UNet2DConditionModel"],
    "vae": ["diffusers", "AutoencoderKL"],
}
(ROOT / "model_index.json").write_text(json.dumps(index), encoding="utf-8")
