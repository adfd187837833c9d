# fits, whole
"""The program counts what it got, and ends with an error if a loop ended early."""

import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(1000, 64))
model = torch.nn.Linear(64, 64).cuda()
count = 0
with torch.no_grad():
    for (rows,) in DataLoader(data, batch_size=20):
        model(rows.cuda())
        count += len(rows)
assert count == len(data)
