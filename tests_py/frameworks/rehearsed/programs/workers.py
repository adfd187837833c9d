# fits, cut, tqdm
"""Processes load the data, a generator and a progress bar stand around the loader, and the last batch is smaller."""

from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(
    TensorDataset(torch.randn(5050, 256)), batch_size=100, num_workers=2, persistent_workers=True, pin_memory=True
)


def batches() -> Iterator[torch.Tensor]:
    for (rows,) in loader:
        yield rows.cuda(non_blocking=True)


for _epoch in range(2):
    for _number, rows in enumerate(tqdm(batches(), total=len(loader))):
        model(rows).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
