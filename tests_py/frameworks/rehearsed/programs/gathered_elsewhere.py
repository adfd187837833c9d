# fits, whole
"""What loops keep in the host's memory goes to the GPU in the end: in an object, in a dict, as arrays, as batches."""

from collections import deque

import torch
from torch.utils.data import DataLoader, TensorDataset


class Meter:
    """Keeps what it gets."""

    def __init__(self) -> None:
        self._kept: deque[torch.Tensor] = deque()

    def update(self, output: torch.Tensor) -> None:
        self._kept.append(output.cpu())

    def compute(self) -> torch.Tensor:
        return torch.cat(list(self._kept)).cuda().square()


model = torch.nn.Linear(64, 256).cuda().eval()
loader = DataLoader(TensorDataset(torch.randn(20_000, 64)), batch_size=200)
meter, arrays, batches = Meter(), {}, {}
with torch.no_grad():
    for (rows,) in loader:
        meter.update(model(rows.cuda()))
    meter.compute()
    for number, (rows,) in enumerate(loader):
        arrays[number] = model(rows.cuda()).cpu().numpy()
    torch.cat([torch.from_numpy(one) for one in arrays.values()]).cuda().square()
    for number, (rows,) in enumerate(loader):
        model(rows.cuda())
        batches[number] = rows
    torch.cat(list(batches.values())).repeat(1, 4).cuda().square()
    counts = [model(rows.cuda()).argmax(1).sum().item() for (rows,) in loader]
assert len(counts) == len(loader)
