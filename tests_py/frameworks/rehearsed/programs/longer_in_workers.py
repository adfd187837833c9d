# fits, whole
"""A curriculum in what makes the batches, of which each worker has a copy: the sequences become longer later."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Longer:
    """Makes batches, which are longer after some time."""

    made = 0

    def __call__(self, items: list[tuple[torch.Tensor]]) -> torch.Tensor:
        self.made += 1
        length = 64 if self.made < 40 else 256
        return torch.stack([tokens for (tokens,) in items])[:, :length]


model = nn.Sequential(nn.Embedding(500, 128), nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 500)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
data = TensorDataset(torch.randint(0, 500, (1600, 256)))
for tokens in DataLoader(data, batch_size=16, num_workers=2, collate_fn=Longer()):
    loss = model(tokens.cuda()).float().logsumexp(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
