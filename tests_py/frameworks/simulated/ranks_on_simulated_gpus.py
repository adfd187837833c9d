"""A program for torchrun: ranks that train together, on the GPUs that they see with NCCL, or on the CPU with Gloo.

``python -m torch.distributed.run --nproc-per-node N ranks_on_simulated_gpus.py cpu|cuda NAME ...`` runs these programs.
The first rank prints a line for each: its name, its numbers, and the peak of its memory. Nothing here knows of gpuconf.
"""

import json
import os
import sys
from collections.abc import Iterable

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

MANY = 1 << 20  # elements: more than one piece of what the ranks exchange


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 32)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.out = nn.Linear(32, 50)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.words(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(x).flatten(0, 1)


def seeded_model(device: torch.device) -> Transformer:
    torch.manual_seed(1)
    return Transformer().to(device)


def train(model: nn.Module, device: torch.device, steps: int = 4) -> list[float]:
    """Train with a batch of this rank's own. Returns the losses, averaged over the ranks."""
    generator = torch.Generator().manual_seed(100 + dist.get_rank())
    x = torch.randint(0, 50, (2, 9), generator=generator).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).float(), x.flatten())
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
    return losses


def ddp(device: torch.device) -> Iterable[float]:
    ids = [device.index] if device.type == "cuda" else None
    model = DistributedDataParallel(seeded_model(device), device_ids=ids, bucket_cap_mb=1)
    losses = train(model, device)
    with model.no_sync():
        model(torch.zeros(1, 3, dtype=torch.long, device=device)).sum().backward()
    return losses


def _sharded(device: torch.device, **options: object) -> nn.Module:
    model = seeded_model(device)
    for layer in model.layers:
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def fsdp2(device: torch.device) -> Iterable[float]:
    model = _sharded(device)
    losses = train(model, device)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
    whole = model.out.weight.full_tensor()
    return [*losses, norm.item(), whole.sum().item()]


def fsdp2_mixed(device: torch.device) -> Iterable[float]:
    """Parameters in bfloat16 and gradients reduced in float32.

    Of narrow numbers, the CPU's are rounded as the simulated GPU's.
    """
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return train(_sharded(device, mp_policy=policy), device)


def hybrid(device: torch.device) -> Iterable[float]:
    """Shards in groups of two, copies between the groups: communicators that are split."""
    mesh = init_device_mesh(device.type, (dist.get_world_size() // 2, 2), mesh_dim_names=("copies", "shards"))
    return train(_sharded(device, mesh=mesh), device)


def collectives(device: torch.device) -> Iterable[float]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own = torch.arange(MANY, dtype=torch.float32, device=device) * (rank + 1)
    found = []

    def keep(tensor: torch.Tensor) -> None:
        found.append(tensor.double().sum().item())

    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
        reduced = own.clone() / MANY
        dist.all_reduce(reduced, op)
        keep(reduced)
    sent = own.clone()
    dist.broadcast(sent, src=ranks - 1)
    keep(sent)
    parts = [torch.empty_like(own) for _ in range(ranks)]
    dist.all_gather(parts, own)
    keep(torch.stack(parts))
    part = torch.empty(MANY // ranks, device=device)
    dist.reduce_scatter_tensor(part, own)
    keep(part)
    exchanged = torch.empty_like(own)
    dist.all_to_all_single(exchanged, own)
    keep(exchanged)
    others = torch.empty_like(own)
    requests = [dist.P2POp(dist.isend, own, (rank + 1) % ranks), dist.P2POp(dist.irecv, others, (rank - 1) % ranks)]
    for request in dist.batch_isend_irecv(requests):
        request.wait()
    keep(others)
    group = dist.new_group([0, ranks - 1])
    if rank in (0, ranks - 1):
        pair = own.clone()
        dist.all_reduce(pair, group=group)
        keep(pair)
    objects: list[object] = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    found.append(float(sum(one["rank"] for one in objects)))
    dist.barrier()
    return found


def captured(device: torch.device) -> Iterable[float]:
    """A collective between two operations of a CUDA graph, replayed with other inputs.

    The CPU runs the operations each time.
    """
    x, out = torch.zeros(MANY, device=device), torch.zeros(MANY, device=device)

    def step() -> None:
        doubled = x * 2
        dist.all_reduce(doubled)
        out.copy_(doubled + 1)

    step()
    replay = step
    if device.type == "cuda":
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        replay = graph.replay
    found = []
    for value in (1.0, 5.0):
        x.fill_(value + dist.get_rank())
        replay()
        found.append(out.sum().item())
    return found


PROGRAMS = {one.__name__: one for one in (ddp, fsdp2, fsdp2_mixed, hybrid, collectives, captured)}


def main() -> None:
    kind, *names = sys.argv[1:]
    torch.set_num_threads(1)
    device = torch.device(kind, int(os.environ["LOCAL_RANK"]) if kind == "cuda" else None)
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    for name in names:
        if kind == "cuda":
            torch.cuda.reset_peak_memory_stats()
        numbers = list(PROGRAMS[name](device))
        peak = torch.cuda.max_memory_allocated() if kind == "cuda" else 0
        if dist.get_rank() == 0:
            print(json.dumps([name, numbers, peak]), flush=True)
    if kind == "cpu":
        dist.barrier()
        os._exit(0)  # PyTorch 2.6 once waited for ever for a thread of Gloo's at this end
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
