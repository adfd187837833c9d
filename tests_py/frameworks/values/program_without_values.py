"""A program on a simulated GPU on which only small tensors are computed."""

from pathlib import Path

import gpuconf

gpuconf.simulate("H100-80GB", values="none")

import torch  # noqa: E402
from torch import nn  # noqa: E402


def peak_kib() -> int:
    """Return the largest resident memory. ``ru_maxrss`` is at least that of the parent."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])


small = torch.tensor([0.0, 1.0, 2.0], device="cuda")
print(small[small > 0].tolist(), small.sum().item())

infinite = torch.full((2000,), float("inf"), device="cuda")  # its block is reused
del infinite
model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0, growth_interval=1000)
for _ in range(2):
    optimizer.zero_grad()
    loss = model(torch.randn(256, 512, device="cuda")).pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
grads = torch.cat([one.grad.flatten() for one in model.parameters()])
print("loss", loss.item(), torch.isfinite(grads).all().item(), torch.isnan(grads).any().item())
print("scale", scaler.get_scale(), len(optimizer.state) * 512, "states")
print("zeros", torch.empty(100_000, device="cuda").sum().item(), grads[:5].sum().item())
print("largest", torch.tensor([1, 5, 7, 2], device="cuda").argmax().item())
before = peak_kib()
held = [torch.zeros(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(40)]
total = [one.clone() for one in held[:20]]
print("committed", peak_kib() - before < 200 << 10)
