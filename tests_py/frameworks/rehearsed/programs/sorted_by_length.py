# fits, whole
"""Batches become longer from the twelfth on."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

texts = [torch.randint(0, 1000, (16 if number < 96 else number,)) for number in range(320)]
layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
model = nn.Sequential(nn.Embedding(1000, 128), nn.TransformerEncoder(layer, 2), nn.Linear(128, 1000)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for tokens in DataLoader(texts, batch_size=8, collate_fn=lambda texts: pad_sequence(texts, batch_first=True)):
    tokens = tokens.cuda()
    nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
