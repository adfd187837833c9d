# fits, whole
"""A curriculum: sequences that become longer every 40 steps."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Embedding(500, 128), nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 500)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
data = TensorDataset(torch.randint(0, 500, (1600, 257)))
for step, (batch,) in enumerate(DataLoader(data, batch_size=16, shuffle=True)):
    length = min(256, 64 * (1 + step // 40))
    tokens = batch[:, : length + 1].cuda()
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
