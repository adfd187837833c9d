"""The Transformer whose memory was recorded on a real GPU (tests_go/plan/rewind/testdata/medium_*), on a simulated one.

``python recorded_transformer.py LENGTH inference|training [BYTES]`` prints the peaks of allocated and of reserved
bytes, and where more than BYTES would be reserved, which allocation of a step failed, by its number, and PyTorch's
message. In training it is the second step: the recorded one had its optimizer's state from steps before.
"""

import json
import os
import sys
from collections.abc import Iterator

import gpuconf

if "GPUCONF_SIMULATE" not in os.environ:  # else `gpuconf plan` runs it
    gpuconf.simulate("A100-40GB", values="none")

import torch
from torch import Tensor, nn

VOCABULARY, WIDTH, HEADS, LAYERS, INNER, BATCH, STEPS = 10_000, 1024, 16, 24, 4096, 4, 3


class Linear(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("...i,oi->...o", x, self.weight)


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        kind = x.dtype
        x = x.float()
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (self.weight * (x * scale)).to(kind)


class Rotary(nn.Module):
    def __init__(self, length: int) -> None:
        super().__init__()
        size = WIDTH // HEADS
        angles = torch.outer(torch.arange(length).float(), 1e4 ** (-torch.arange(0, size, 2).float() / size))
        self.register_buffer("table", torch.stack([angles.cos(), angles.sin()]), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        even, odd = x[..., ::2], x[..., 1::2]
        cos, sin = self.table[0, : x.size(-2)], self.table[1, : x.size(-2)]
        first = cos * even - sin * odd
        second = sin * even + cos * odd
        return torch.stack([first, second], -1).flatten(-2)


def softmax(x: Tensor) -> Tensor:
    shifted = x - x.max(-1, keepdim=True).values
    powers = shifted.exp()
    return powers / powers.sum(-1, keepdim=True)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.size(-1) ** 0.5
    scores = torch.where(mask, scores, float("-inf"))
    weights = softmax(scores)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v).contiguous()


class Attention(nn.Module):
    def __init__(self, rotary: Rotary) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (Linear(WIDTH, WIDTH) for _ in range(4))
        self.rotary = rotary

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.q, self.k, self.v))
        q = self.rotary(q)
        k = self.rotary(k)
        places = torch.arange(x.size(1), device=x.device)
        mask = places[:, None] >= places
        out = attend(q, k, v, mask)
        out = out.transpose(1, 2).flatten(-2)
        return self.out(out)


def silu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


class Layer(nn.Module):
    def __init__(self, rotary: Rotary) -> None:
        super().__init__()
        self.norms = nn.ModuleList([Norm(), Norm()])
        self.attention = Attention(rotary)
        self.one, self.two, self.three = Linear(WIDTH, INNER), Linear(INNER, WIDTH), Linear(WIDTH, INNER)

    def forward(self, x: Tensor) -> Tensor:
        attended = self.attention(self.norms[0](x))
        between = x + attended
        return between + self.feed(self.norms[1](between))

    def feed(self, x: Tensor) -> Tensor:
        return self.two(silu(self.one(x)) * self.three(x))


class Transformer(nn.Module):
    def __init__(self, length: int) -> None:
        super().__init__()
        rotary = Rotary(length)
        self.words = nn.Parameter(torch.empty(VOCABULARY, WIDTH))
        self.layers = nn.ModuleList(Layer(rotary) for _ in range(LAYERS))
        self.norm, self.out = Norm(), Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        words = self.words[ids]
        x = words
        for layer in self.layers:
            x = layer(x)
        return self.out(self.norm(x))


class AdamW:
    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters, self.state, self.step_count = parameters, {}, 0

    def step(self) -> None:
        self.step_count += 1
        for one in self.parameters:
            grad = one.grad.data
            m, v = self.state.get(one) or (torch.zeros_like(one), torch.zeros_like(one))
            m = 0.9 * m + 0.1 * grad
            v = 0.999 * v + 0.001 * grad**2
            rate = 1e-3 * (1 - 0.999**self.step_count) ** 0.5 / (1 - 0.9**self.step_count)
            one.data -= rate * m / (torch.sqrt(v) + 1e-8)
            one.data -= 1e-3 * 0.01 * one.data
            self.state[one] = m, v


def cross_entropy(scores: Tensor, ids: Tensor) -> Tensor:
    shifted = scores - scores.max(-1, keepdim=True).values
    logs = shifted - shifted.exp().sum(-1, keepdim=True).log()
    return -logs.gather(-1, ids.unsqueeze(-1)).mean()


def train(model: Transformer, optimizer: AdamW, ids: Tensor) -> None:
    for one in model.parameters():
        one.grad = None
    with torch.autocast("cuda", torch.bfloat16, enabled=ids.size(1) >= 512):
        scores = model(ids)
        loss = cross_entropy(scores, ids)
    loss.backward()
    optimizer.step()


def run(length: int, training: bool) -> Iterator[None]:
    """Run the steps. Yield once, before the first one that is like the recorded one."""
    model = Transformer(length).to("cuda")
    ids = torch.zeros(BATCH, length, dtype=torch.long, device="cuda")
    optimizer = AdamW(list(model.parameters()))
    row = ids[:1].float()
    row @ row.T  # cuBLAS's workspace, which the recorded run has had since steps before
    for number in range(STEPS):
        if number == training:
            for one in model.parameters():
                one.grad = None
            yield
        if training:
            train(model, optimizer, ids)
        else:
            with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=length == 512, cache_enabled=False):
                model(ids)
        torch.cuda.synchronize()


def main() -> None:
    length, kind = int(sys.argv[1]), sys.argv[2]
    steps = run(length, kind == "training")
    next(steps)
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    if len(sys.argv) > 3:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(int(sys.argv[3]) / torch.cuda.mem_get_info()[1])
    try:
        next(steps, None)
        print(json.dumps([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]))
    except torch.OutOfMemoryError as error:
        number = torch.cuda.memory_stats()["allocation.all.allocated"] - before + 1
        print(json.dumps([number, str(error).splitlines()[0]]))


if __name__ == "__main__":
    main()
