# fits, cut
"""Validation takes larger batches than training, and comes after it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def rows(count: int) -> TensorDataset:
    return TensorDataset(torch.randn(count, 1, 28, 28), torch.randint(0, 10, (count,)))


model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(5408, 10)).cuda()
optimizer = torch.optim.Adadelta(model.parameters())
training, validation = DataLoader(rows(3000), batch_size=64, shuffle=True), DataLoader(rows(5500), batch_size=1000)
for _epoch in range(3):
    model.train()
    for step, (images, labels) in enumerate(training):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, loss.item())
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in validation:
            right += (model(images.cuda()).argmax(1) == labels.cuda()).sum().item()
    torch.save(model.state_dict(), "model.pt")
