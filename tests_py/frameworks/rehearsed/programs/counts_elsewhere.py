# fits, cut
"""A method that the loop calls counts its steps, and validates with many rows after each 25 of them."""

import torch
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self) -> None:
        self.model = torch.nn.Linear(256, 256).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.step = 0

    def train(self, rows: torch.Tensor) -> None:
        self.model(rows).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        if self.step % 25 == 0:
            with torch.no_grad():
                self.model(torch.randn(50_000, 256, device="cuda"))


trainer = Trainer()
for (batch,) in DataLoader(TensorDataset(torch.randn(4000, 256)), batch_size=10):
    trainer.train(batch.cuda())
