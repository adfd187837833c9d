# fits, cut
"""A step for each eight batches, with a scaler, gradients that are clipped and a schedule."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
model = nn.Sequential(nn.Embedding(1000, 256), nn.TransformerEncoder(layer, 2), nn.Linear(256, 1000)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=1000)
scaler = torch.amp.GradScaler()
for number, (tokens,) in enumerate(DataLoader(TensorDataset(torch.randint(0, 1000, (960, 64))), batch_size=8), 1):
    tokens = tokens.cuda()
    with torch.autocast("cuda", torch.float16):
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    scaler.scale(loss / 8).backward()
    if number % 8 == 0:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        schedule.step()
