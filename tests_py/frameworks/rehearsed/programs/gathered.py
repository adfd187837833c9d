# fits, whole
"""What a loop gathers on the GPU, and in the host's memory to go there in the end."""

import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(64, 256).cuda().eval()
loader = DataLoader(TensorDataset(torch.randn(20_000, 64)), batch_size=200)
with torch.no_grad():
    kept = [model(rows.cuda()) for (rows,) in loader]
    features = []
    for (rows,) in loader:
        features.append(model(rows.cuda()).cpu())
    similar = torch.cat(features).cuda()
    similar = similar @ similar[:1000].T
