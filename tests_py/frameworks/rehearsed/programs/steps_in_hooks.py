# fits, cut
"""An optimizer for each parameter, which steps within the backward pass."""

import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(6))).cuda()
optimizers = {parameter: torch.optim.AdamW([parameter]) for parameter in model.parameters()}


def step(parameter: torch.Tensor) -> None:
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(step)
for (rows,) in DataLoader(TensorDataset(torch.randn(60_000, 512)), batch_size=2048):
    model(rows.cuda()).square().mean().backward()
