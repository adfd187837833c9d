# fits, whole
"""Losses are estimated before the first step, and a loop without a loader accumulates gradients under autocast."""

import torch
from torch import nn
from torch.nn import functional

ROWS, TOKENS, WIDTH, WORDS = 8, 256, 384, 8000
torch.manual_seed(0)
text = torch.randint(0, WORDS, (100_000,))
layer = nn.TransformerEncoderLayer(WIDTH, 6, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
blocks = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
model = nn.ModuleDict({"words": nn.Embedding(WORDS, WIDTH), "blocks": blocks, "head": nn.Linear(WIDTH, WORDS)}).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
mask = nn.Transformer.generate_square_subsequent_mask(TOKENS, device="cuda")


def loss_of_a_batch() -> torch.Tensor:
    starts = torch.randint(len(text) - TOKENS - 1, (ROWS,))
    batch = torch.stack([text[start : start + TOKENS + 1] for start in starts]).cuda()
    with torch.autocast("cuda", torch.bfloat16):
        outputs = model["head"](model["blocks"](model["words"](batch[:, :-1]), mask=mask, is_causal=True))
    return functional.cross_entropy(outputs.flatten(0, 1), batch[:, 1:].flatten())


for step in range(12):
    if step % 6 == 0:
        model.eval()
        with torch.no_grad():
            print(step, sum(loss_of_a_batch() for _ in range(10)).item() / 10)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
        model.train()
    for _ in range(4):
        (loss_of_a_batch() / 4).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
