"""The program of README's answer to "will it fit?": a Transformer of 217 million parameters, trained for steps of 256
tokens.
"""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=16)
batch = parser.parse_args().batch
layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
model = nn.Sequential(nn.Embedding(32000, 1024), nn.TransformerEncoder(layer, 12), nn.Linear(1024, 32000)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(20):
    tokens = torch.randint(0, 32000, (batch, 256), device="cuda")
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.save(model.state_dict(), "best.pt")
