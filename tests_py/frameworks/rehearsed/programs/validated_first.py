# fits, whole
"""Thirty forward passes come before the first step, which needs far more."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
model.eval()
with torch.no_grad():
    for _ in range(30):
        model(torch.randn(32, 64, device="cuda"))
model.train()
for _ in range(5):
    model(torch.randn(1_000_000, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
