# fits, whole
"""The program takes batches by next(), and begins the loader again."""

import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.RMSprop(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(500, 256)), batch_size=64)
batches = iter(loader)
for _ in range(30):
    try:
        (rows,) = next(batches)
    except StopIteration:
        batches = iter(loader)
        (rows,) = next(batches)
    model(rows.cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
