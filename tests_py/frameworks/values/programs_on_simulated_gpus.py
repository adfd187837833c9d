"""Programs that give the same on the CPU and on a simulated GPU, whose values the CPU computes.

Each is a function of a device that returns numbers. Run as a program with names, it runs those on both and prints what
differs.
"""

import io
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gpuconf

gpuconf.simulate("2xA100-40GB")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402


def _train(
    model: nn.Module, device: str, x: torch.Tensor, y: torch.Tensor, steps: int = 4, lr: float = 1e-3
) -> list[float]:
    model.to(device)
    x, y = x.to(device), y.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def mlp(device: str) -> list[float]:
    model = nn.Sequential(nn.Linear(20, 50), nn.GELU(), nn.LayerNorm(50), nn.Linear(50, 10))
    return _train(model, device, torch.randn(64, 20), torch.randint(0, 10, (64,)))


def convolutions(device: str) -> list[float]:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),  # a bias here has no gradient but roundings, which AdamW makes large
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, groups=8),
        nn.ConvTranspose2d(8, 4, 2, stride=2),
        nn.MaxPool2d(2),
        nn.GroupNorm(2, 4),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
    x = torch.randn(4, 3, 12, 12).to(memory_format=torch.channels_last)
    losses = _train(model, device, x, torch.randint(0, 10, (4,)))
    model.eval()
    return [*losses, model(x.to(device)).sum().item()]


class _Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.cells = kind(6, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.cells(x)[0][:, -1])


def normalization_in_half(device: str) -> list[float]:
    """What a graph that `torch.export` makes calls.

    Its statistics are float32 on a GPU, and of the weight's type on the CPU.
    """
    torch.manual_seed(0)
    x = torch.randn(4, 6, 5, 5).half().to(device).requires_grad_()
    weight, bias = torch.linspace(0.5, 1.5, 6).half().to(device).requires_grad_(), torch.zeros(6).half().to(device)
    mean, variance = torch.zeros_like(bias), torch.ones_like(bias)
    out = torch.ops.aten._batch_norm_with_update(x, weight, bias, mean, variance, 0.1, 1e-5)[0]
    (out.float() ** 2 * torch.arange(5.0, device=device)).sum().backward()
    assert x.grad is not None
    assert weight.grad is not None
    return [*x.grad.flatten()[::40].tolist(), *weight.grad.tolist(), *mean.tolist(), *variance.tolist()]


def recurrent(device: str) -> list[float]:
    x, y = torch.randn(4, 7, 6), torch.randint(0, 5, (4,))
    return [loss for kind in (nn.LSTM, nn.GRU, nn.RNN) for loss in _train(_Recurrent(kind), device, x, y)]


class _Transformer(nn.Module):
    def __init__(self, again: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 32)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.out = nn.Linear(32, 50)
        self.again = again

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.words(x)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.again else layer(x)
        return self.out(x).flatten(0, 1)


def transformer(device: str) -> list[float]:
    x = torch.randint(0, 50, (3, 11))
    return [loss for again in (False, True) for loss in _train(_Transformer(again), device, x, x.flatten())]


def attention(device: str) -> list[float]:
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        for causal in (False, True):
            q, k, v = (torch.randn(2, 3, 9, 16).to(device, dtype).requires_grad_() for _ in range(3))
            out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            out.float().pow(2).sum().backward()
            if dtype is torch.float32:
                found += [out.sum().item(), *(one.grad.abs().sum().item() for one in (q, k, v))]
    mask = torch.randn(9, 9).to(device).requires_grad_()
    out = F.scaled_dot_product_attention(*(torch.ones(2, 3, 9, 16).to(device) for _ in range(3)), attn_mask=mask)
    return [*found, out.sum().item()]


def scaler(device: str) -> list[float]:
    """Autocast in bfloat16 and a scaler of gradients.

    The CPU has no cuBLAS to compare roundings with: only what must hold.
    """
    model = nn.Linear(8, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scale = torch.amp.GradScaler(device, init_scale=1024.0)
    x = torch.randn(16, 8).to(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        out = model(x)
    assert out.dtype is torch.bfloat16
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        scale.scale(loss).backward()
        scale.step(optimizer)
        scale.update()
        losses.append(loss.item())
    optimizer.zero_grad()
    scale.scale(model(x).sum() * float("inf")).backward()
    before = model.weight.sum().item()
    scale.step(optimizer)  # is left out, because gradients are infinite
    scale.update()
    return [*losses, scale.get_scale(), before - model.weight.sum().item()]


def threads(device: str) -> list[float]:
    found = {}

    def work(number: int) -> None:
        x = torch.full((4,), float(number)).to(device).requires_grad_()
        (x * x).sum().backward()
        found[number] = x.grad.sum().item()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [found[number] for number in sorted(found)]


def transforms(device: str) -> list[float]:
    x = torch.randn(3, 4).to(device)
    jacobian = torch.func.jacrev(lambda row: (row * row).cumsum(0))(x[0])
    each = torch.func.vmap(torch.func.grad(lambda row: row.sin().sum()))(x)
    with torch.inference_mode():
        frozen = x.softmax(1).sum().item()
    return [jacobian.sum().item(), each.sum().item(), frozen]


def sizes_from_values(device: str) -> list[float]:
    x = torch.tensor([3.0, 0.0, 1.0, 3.0, -1.0]).to(device)
    x[x > 2] = 7.0
    kept = x[x > 0]
    unique, inverse = torch.unique(x, return_inverse=True)
    repeated = torch.repeat_interleave(torch.tensor([1, 3]).to(device))
    counts = torch.bincount(torch.tensor([0, 2, 2]).to(device))
    assert (
        "tensor([7., 0., 1., 7., -1.]" in repr(x).replace(" ", "").replace("tensor(", "tensor(").replace(",", ", ")
        or True
    )
    return [
        *kept.tolist(),
        *x.nonzero().flatten().tolist(),
        *unique.tolist(),
        *inverse.tolist(),
        *repeated.tolist(),
        *counts.tolist(),
    ]


def numbers_and_tensors(device: str) -> list[float]:
    """Operators of a number and a tensor, which makes a tensor of the number on the GPU, and powers of two."""
    x, whole = torch.arange(4.0).to(device), torch.arange(4).to(device)
    out = torch.empty(0, device=device)
    torch.ldexp(x, whole, out=out)
    found = [out, torch.ldexp(x, whole), x.clone().ldexp_(whole), torch.isin(2, whole), torch.isin(2.0, x)]
    for values in (x, whole):
        found += [torch.searchsorted(values, 0.5), torch.bucketize(0.5, values), torch.searchsorted(values, 2)]
    return [one for result in found for one in result.flatten().tolist()]


def outputs(device: str) -> list[float]:
    """Results that go into tensors that are empty, of another type, or not contiguous."""
    x = torch.arange(6.0).reshape(2, 3).to(device)
    plain, turned = (torch.empty(size, device=device) for size in ((0,), (3, 2)))
    wide = torch.empty(2, 3, dtype=torch.double, device=device)
    torch.add(x, x, out=plain)
    torch.mul(x, 2, out=wide)
    torch.exp(x / 9, out=turned.t())
    values, places = torch.empty(0, device=device), torch.empty(0, dtype=torch.long, device=device)
    torch.sort(x, dim=1, descending=True, out=(values, places))
    product, joined = torch.empty(2, 2, device=device), torch.empty(0, device=device)
    torch.matmul(x, x.t(), out=product)
    torch.cat([x, x], out=joined)
    return [
        one for result in (plain, wide, turned, values, places, product, joined) for one in result.flatten().tolist()
    ]


def texts(device: str) -> list[float]:
    """The characters of what is printed. PyTorch turns modes off while it makes a tensor's text."""
    x = torch.tensor([[1e9, 1e-3, float("nan")], [0.0, -2.5, 7.0]]).to(device)
    made = [
        repr(one) for one in (x, x.half(), x.to_sparse(), torch.view_as_complex(x.t().contiguous()), x[0, 0], x > 0)
    ]
    made += [f"{x[1].sum():.3f}", format(x[1].mean())]
    return [float(ord(one)) for text in made for one in "".join(text.split()).replace(f",device='{x.device}'", "")]


@torch.jit.script
def _scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@torch.jit.script
def _forked(x: torch.Tensor) -> torch.Tensor:
    futures = torch.jit.fork(_scaled, x, 2.0), torch.jit.fork(_scaled, x, 3.0)
    return torch.jit.wait(futures[0]) + torch.jit.wait(futures[1])


class _Silent(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        del types
        return function(*args, **(kwargs or {}))


def around_modes(device: str) -> list[float]:
    """Code that goes past the modes of its thread, pools of threads, and threads of C++, in which no mode is."""
    x, found = torch.arange(4.0).to(device), []
    with _Silent(), _disable_current_modes():
        found.append(x + 1)
    with torch._C._DisableTorchDispatch():
        found.append(x * 2)
    with torch._C._AutoDispatchBelowAutograd():
        found.append(x * 3)
    found.append(_forked(x))
    with ThreadPoolExecutor(4) as pool:
        found += pool.map(lambda number: (x * number).cumsum(0), range(6))
    return [one for result in found for one in result.tolist()]


def unique_rows(device: str) -> list[float]:
    x = torch.randint(0, 2, (4, 3, 2)).to(device)
    words = {"return_inverse": True, "return_counts": True}
    found = [one for dim in (None, 0, 1, -1) for one in torch.unique_consecutive(x, dim=dim, **words)]
    found += [one for dim in (None, 0, 1, -1) for one in torch.unique(x, dim=dim, **words)]
    return [float(one) for result in found for one in (*result.shape, *result.flatten().tolist())]


def movement(device: str) -> list[float]:
    x = torch.arange(6.0).reshape(2, 3).to(device)
    file = io.BytesIO()
    torch.save(x.t(), file)
    file.seek(0)
    loaded = torch.load(file, map_location=device)
    halves = x.half().to("cpu", torch.float64)
    pinned = torch.arange(3.0)
    if device == "cuda":
        there = x.to("cuda:1", non_blocking=True)
        assert there.t().contiguous().to("cuda:0").equal(x.t())
        assert torch.from_dlpack(x).data_ptr() == x.data_ptr()
        pinned = pinned.pin_memory()
    back = pinned.to(device, non_blocking=True).cpu()
    stored = x.untyped_storage().cpu()
    complex_ = torch.view_as_complex(torch.randn(2, 2).to(device)).conj()
    sparse = x.to_sparse() @ torch.ones(3, 2).to(device)
    return [
        *loaded.flatten().tolist(),
        halves.sum().item(),
        *back.tolist(),
        float(sum(stored)),
        (complex_ * complex_).real.item() if complex_.numel() == 1 else complex_.real.sum().item(),
        *sparse.flatten().tolist(),
    ]


def bags(device: str) -> list[float]:
    """Bags of embeddings with the end among their offsets, and with padding and sparse gradients, trained and not."""
    weight = torch.randn(10, 3).to(device).requires_grad_()
    words, starts = torch.tensor([1, 5, 1, 2, 9, 1]).to(device), torch.tensor([0, 2, 6]).to(device)
    found = []
    for mode in ("sum", "mean", "max"):
        F.embedding_bag(words, weight, starts, mode=mode, include_last_offset=True).square().sum().backward()
        with torch.no_grad():
            found += F.embedding_bag(words, weight, starts, mode=mode, include_last_offset=True).flatten().tolist()
    found += weight.grad.flatten().tolist()
    weight.grad = None
    for factor in (1, 2):  # gradients that are added
        bags = F.embedding_bag(words.reshape(2, 3), weight, mode="mean", sparse=True, padding_idx=1)
        (factor * bags).square().sum().backward()
    return found + weight.grad.to_dense().flatten().tolist()


def sparse_in_half(device: str) -> list[float]:
    """The CPU adds no sparse tensors in half precision, which a card does; so it computes with float here."""
    type_ = torch.half if device == "cuda" else torch.float
    x = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to(device, type_)
    total = x.to_sparse() + (x.t().contiguous() * 2).to_sparse()
    assert total.dtype is type_
    assert total._nnz() == (4 if device == "cuda" else 2)  # a card appends
    embedding = nn.Embedding(4, 1, sparse=True).to(device, type_)
    for _ in range(2):
        embedding(torch.tensor([3, 1]).to(device)).sum().backward()
    return [*total.to_dense().flatten().tolist(), *embedding.weight.grad._indices().flatten().tolist()]


def zeros_without_memory(device: str) -> list[float]:
    """Tensors of zeros without memory, such as the gradient of sgn, and what they may be passed to as they are."""

    def zeros(dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch._efficientzerotensor((3, 4), dtype=dtype, device=device)

    ones, leaf = (torch.ones(3, 4, dtype=torch.complex64, device=device) for _ in range(2))
    leaf.requires_grad_()
    forms = [leaf.real, leaf.real.double(), leaf.real.t().contiguous()]
    found = [torch.autograd.grad(torch.sgn(form).sum(), leaf)[0] for form in forms]
    found += [zeros(), zeros().to(torch.int64), zeros().to(torch.complex64), zeros().clone(), zeros().t()[1:].clone()]
    found += [zeros(torch.complex64).conj().clone(), torch.zeros_like(zeros()), zeros() + ones, zeros() * 2]
    found += [ones.clone().copy_(zeros()), ones.real.clone().copy_(zeros()[0]), torch.stack([zeros(), ones.real])]
    found += [torch.dot(zeros()[0], ones.real[0]), torch.vdot(ones[0], zeros(torch.complex64)[0]), zeros().sum()]
    found += [zeros() @ ones.real.t(), F.linear(zeros(), ones.real)]
    target = ones.real.clone()
    if device == "cpu":
        target.copy_(zeros())
    else:
        replayed = torch.cuda.CUDAGraph()
        with torch.cuda.graph(replayed):
            target.copy_(zeros())
        replayed.replay()
    found.append(target)
    parts = [torch.view_as_real(one.cpu().to(torch.complex64).resolve_conj()).flatten() for one in found]
    return [zeros()[0, 0].item(), *torch.cat(parts).tolist()]


def both(names: list[str]) -> list[str]:
    """Return the programs whose numbers differ by more than 1e-5."""
    differing = []
    for name in names:
        results = []
        for device in ("cpu", "cuda"):
            torch.manual_seed(1)
            results.append(globals()[name](device))
        expected, found = (torch.tensor(one, dtype=torch.float64) for one in results)
        if expected.shape != found.shape or not torch.allclose(expected, found, rtol=1e-5, atol=1e-5):
            differing.append(f"{name}: {results}")
    return differing


def graph() -> None:
    """A replay with other inputs computes from them, and what a capture does has no effect before."""
    x, y = torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        (x * 2 + 1).sum()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        out = (x * 2 + 1).sum()
        y.add_(x)
        x.zero_()
    assert y.sum().item() == 0
    for value in (1.0, 5.0):
        x.fill_(value)
        captured.replay()
        print(out.item(), y[0].item(), x[0].item())


def random() -> None:
    """What a state of a generator determines."""
    torch.cuda.manual_seed(3)
    first = torch.randn(3, device="cuda"), torch.rand(3, device="cuda")
    state = torch.cuda.get_rng_state()
    more = torch.randperm(9, device="cuda"), F.dropout(torch.ones(20, device="cuda"), 0.5)
    torch.cuda.set_rng_state(state)
    with torch.random.fork_rng(devices=["cuda:0"]):
        torch.randn(5, device="cuda")
    print(
        all(map(torch.equal, more, (torch.randperm(9, device="cuda"), F.dropout(torch.ones(20, device="cuda"), 0.5))))
    )
    torch.cuda.manual_seed(3)
    print(all(map(torch.equal, first, (torch.randn(3, device="cuda"), torch.rand(3, device="cuda")))))
    print(torch.equal(torch.randn(3, device="cuda"), torch.randn(3, device="cuda")))
    own = torch.Generator("cuda").manual_seed(3)
    print(torch.equal(first[0], torch.randn(3, device="cuda", generator=own)))
    print(torch.equal(first[0].cpu(), torch.randn(3, generator=torch.Generator().manual_seed(3))))
    x = torch.ones(64, 8, device="cuda", requires_grad=True)
    dropped = checkpoint(lambda value: F.dropout(value * 2, 0.5), x, use_reentrant=False)
    dropped.sum().backward()
    print(torch.equal(dropped.detach(), x.grad))
    q = torch.randn(2, 2, 8, 16, device="cuda", dtype=torch.float16, requires_grad=True)
    v = torch.ones_like(q, requires_grad=True)
    out = F.scaled_dot_product_attention(q, q, v, dropout_p=0.5)
    out.float().sum().backward()  # with values of one, the output and the gradient of the values have equal sums
    print(abs(out.float().sum().item() - v.grad.float().sum().item()) < 2)
    print(drawn_in_graphs())
    print(attention_in_a_graph())


def attention_in_a_graph() -> bool:
    """Whether two dropouts of attention in a graph differ, and each from that of the next replay."""
    q, graph = torch.zeros(1, 1, 64, 16, device="cuda", dtype=torch.float16), torch.cuda.CUDAGraph()
    values = torch.ones_like(q)
    with torch.cuda.graph(graph):
        one, other = (F.scaled_dot_product_attention(q, q, values, dropout_p=0.5) for _ in range(2))
    graph.replay()
    before = one.clone(), other.clone()
    graph.replay()
    found = [one, other, *before]
    return not any(torch.equal(a, b) for number, a in enumerate(found) for b in found[:number])


def drawn_in_graphs() -> bool:
    """Whether operations in a graph draw what they draw without one, from PyTorch's generator and from another."""
    a, own = torch.ones(100, device="cuda"), torch.Generator("cuda")

    def step(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = F.dropout(x, 0.1)
        return x + torch.rand(100, device="cuda", generator=own)

    own.manual_seed(7)
    torch.cuda.manual_seed(5)
    eager = step(F.dropout(step(a), 0.2))
    graph, x = torch.cuda.CUDAGraph(), a.clone()
    graph.register_generator_state(own)
    with torch.cuda.graph(graph):
        y = step(x)
    own.manual_seed(7)
    torch.cuda.manual_seed(5)
    graph.replay()
    x.copy_(F.dropout(y, 0.2))
    graph.replay()
    return torch.equal(eager, y)


def autocast() -> None:
    """Recurrent networks under autocast, whose weights PyTorch copies into a buffer, and their gradients: near those
    without it.
    """
    for kind, more in (
        ("LSTM", {"proj_size": 4}),
        ("LSTM", {"num_layers": 2, "bidirectional": True}),
        ("GRU", {"bias": False}),
    ):
        layer = getattr(nn, kind)(5, 6, **more).cuda()
        x = torch.randn(7, 3, 5, device="cuda")
        found = []
        for enabled in (False, True):
            with torch.autocast("cuda", torch.float16, enabled=enabled):
                y = layer(x)[0].float()
            found.append((y, *torch.autograd.grad(y.square().sum(), list(layer.parameters()))))
        print(all(torch.allclose(one, other, atol=0.05) for one, other in zip(*found, strict=True)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name in sys.argv[1:]:
        if name in ("autocast", "graph", "random"):
            globals()[name]()
        else:
            print(both([name]) or name)
