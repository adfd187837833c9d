# depends, cut
"""An iterable data set: its later batches are not known without running them."""

from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, IterableDataset


class Rows(IterableDataset):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return (torch.zeros(256) for _ in range(10_000))


model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for rows in DataLoader(Rows(), batch_size=100):
    model(rows.cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
