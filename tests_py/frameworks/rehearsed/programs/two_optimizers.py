# fits, cut
"""Two networks that train against each other, and pictures of one of them after each epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

maker = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 4096)).cuda()
judge = nn.Sequential(nn.Linear(4096, 1024), nn.LeakyReLU(0.2), nn.Linear(1024, 1)).cuda()
of_maker = torch.optim.Adam(maker.parameters(), lr=2e-4, betas=(0.5, 0.999))
of_judge = torch.optim.Adam(judge.parameters(), lr=2e-4, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
fixed = torch.randn(4096, 64, device="cuda")
for _epoch in range(2):
    for (real,) in DataLoader(TensorDataset(torch.randn(3000, 4096)), batch_size=100):
        judge.zero_grad()
        noise = torch.randn(len(real), 64, device="cuda")
        fake = maker(noise)
        criterion(judge(real.cuda()), torch.ones(len(real), 1, device="cuda")).backward()
        criterion(judge(fake.detach()), torch.zeros(len(real), 1, device="cuda")).backward()
        of_judge.step()
        maker.zero_grad()
        criterion(judge(fake), torch.ones(len(real), 1, device="cuda")).backward()
        of_maker.step()
    with torch.no_grad():
        maker(fixed)
