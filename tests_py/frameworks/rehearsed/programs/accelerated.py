# fits, cut, accelerate
"""accelerate's loader looks one batch ahead, and its last batch ends an accumulation."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(gradient_accumulation_steps=4)
model = torch.nn.Linear(512, 512)
optimizer = torch.optim.AdamW(model.parameters())
data = DataLoader(TensorDataset(torch.randn(2000, 512)), batch_size=16, shuffle=True)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for _epoch in range(2):
    for (rows,) in data:
        with accelerator.accumulate(model):
            accelerator.backward(model(rows).square().mean())
            optimizer.step()
            optimizer.zero_grad()
accelerator.save_state("state")
