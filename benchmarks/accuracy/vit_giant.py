"""A step of a vision Transformer as in PyTorch AO's README: bfloat16, activations checkpointed, batches of 32, fused
AdamW.

Prints the peak in MiB. Instead of the data set's images these are random ones.
"""

from __future__ import annotations

import timm
import torch
from torch.nn import functional

model = timm.create_model("vit_giant_patch14_dinov2", num_classes=45, img_size=224)
model.set_grad_checkpointing()
model.bfloat16().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0, fused=True)
model.train()
for _ in range(3):
    images = torch.zeros(32, 3, 224, 224).bfloat16()
    labels = torch.zeros(32, dtype=torch.long)
    loss = functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"MEMORY {torch.cuda.max_memory_allocated() / 2**20}", flush=True)
