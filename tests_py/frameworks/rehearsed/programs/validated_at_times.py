# fits, cut
"""A validation within the loop, after each 40 steps, and another one that calls a function."""

import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.no_grad()
def validate() -> None:
    model.eval()
    for (rows,) in DataLoader(TensorDataset(torch.randn(40_000, 256)), batch_size=10_000):
        model(rows.cuda())
    model.train()


step = 0
for (rows,) in DataLoader(TensorDataset(torch.randn(4000, 256)), batch_size=10):
    model(rows.cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    step += 1  # noqa: SIM113 - as many programs count
    if step % 40 == 0:
        validate()
