"""Units of operator_recorder.py that op_db does not have: larger shapes, whole layers, optimizers, graphs; drawn by a seeded rule."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from operator_recorder import Phases, Unit, both
from torch import nn

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
CARD = "cuda"


def short(dtype: torch.dtype) -> str:
    return str(dtype)[6:]


def made(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = True) -> torch.Tensor:
    one = torch.randn(*shape, device=CARD, dtype=dtype)
    return one.requires_grad_(grad) if grad and (dtype.is_floating_point or dtype.is_complex) else one


def drawn(*shape: int, high: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return values that are the same on every card."""
    generator = torch.Generator().manual_seed(5)
    if high:
        return torch.randint(0, high, shape, generator=generator).to(CARD)
    return torch.randn(*shape, generator=generator).to(CARD, dtype)


def simple(call: Callable[..., Any], *inputs: Callable[[], Any], **named: Any) -> Unit:
    def unit(phase: Phases, rule: random.Random) -> None:
        both(phase, call, *[one() if callable(one) else one for one in inputs], **named)

    return unit


def module(make: Callable[[], nn.Module], *inputs: Callable[[], Any], train: bool = True, **named: Any) -> Unit:
    def unit(phase: Phases, rule: random.Random) -> None:
        with torch.device(CARD):
            layer = make().train(train)
        given = [one() for one in inputs]
        both(phase, layer, *given, **named)

    return unit


def warm_up(phase: Phases, rule: random.Random) -> None:
    """Make the handles and workspaces of the main thread and of autograd's."""
    a = made(64, 64)
    c = torch.randn(64, 64, device=CARD, dtype=torch.complex64)
    with phase("matmul"):
        b = a @ a
    with phase("backward"):
        b.sum().backward()
    with phase("addmm"):
        F.linear(a, a, a[0])
    with phase("half"):
        F.linear(a.detach().half(), a.detach().half(), a[0].detach().half())
    with phase("complex"):
        c @ c
    with phase("convolution"):
        F.conv2d(torch.randn(2, 4, 9, 9, device=CARD), torch.randn(4, 4, 3, 3, device=CARD))
    with phase("solver"):
        torch.linalg.inv(a.detach())
    with phase("dropout"):
        F.dropout(a.detach())
    with phase("fft"):
        torch.fft.fft(c)
    with phase("sparse"):
        a.detach().to_sparse() @ a.detach()


# ---- products ----


def products() -> Iterator[tuple[str, Unit]]:
    sizes = [8, 17, 64, 100, 128, 255, 512, 768, 1000, 1024, 2048, 3072, 4096]
    types = (*FLOATS, torch.float64, torch.complex64)
    for dtype, layout, number in itertools.product(types, ("nn", "nt", "tn", "tt"), range(3)):
        rule = random.Random(f"product {dtype} {layout} {number}")
        m, n, k, batch = rule.choice(sizes), rule.choice(sizes), rule.choice(sizes), rule.choice([2, 3, 8, 16])

        def a(*lead: int, m: int = m, k: int = k, dtype: torch.dtype = dtype, layout: str = layout) -> torch.Tensor:
            return (
                made(*lead, m, k, dtype=dtype)
                if layout[0] == "n"
                else made(*lead, k, m, dtype=dtype).mT.detach().requires_grad_()
            )

        def b(*lead: int, n: int = n, k: int = k, dtype: torch.dtype = dtype, layout: str = layout) -> torch.Tensor:
            return (
                made(*lead, k, n, dtype=dtype)
                if layout[1] == "n"
                else made(*lead, n, k, dtype=dtype).mT.detach().requires_grad_()
            )

        where = f"{short(dtype)}/{layout}/{m}x{n}x{k}"
        yield f"mm/{where}", simple(torch.mm, a, b)
        yield f"addmm/{where}", simple(torch.addmm, partial(made, n, dtype=dtype), a, b)
        yield f"addmm-full/{where}", simple(torch.addmm, partial(made, m, n, dtype=dtype), a, b)
        yield f"mv/{where}", simple(torch.mv, a, partial(made, k, dtype=dtype))
        if m * k * batch < 1 << 25 and n * k * batch < 1 << 25 and m * n * batch < 1 << 25:
            yield f"bmm/{where}/{batch}", simple(torch.bmm, partial(a, batch), partial(b, batch))
            yield (
                f"baddbmm/{where}/{batch}",
                simple(torch.baddbmm, partial(made, batch, m, n, dtype=dtype), partial(a, batch), partial(b, batch)),
            )
            yield f"matmul-broadcast/{where}/{batch}", simple(torch.matmul, partial(a, batch), b)
            yield (
                f"addbmm/{where}/{batch}",
                simple(torch.addbmm, partial(made, m, n, dtype=dtype), partial(a, batch), partial(b, batch)),
            )
    for dtype in FLOATS:
        for number in range(6):
            rule = random.Random(f"linear {dtype} {number}")
            rows, wide, out = rule.choice([1, 16, 77, 512, 4096]), rule.choice(sizes[2:]), rule.choice(sizes[2:])
            for bias in (False, True):
                layer = partial(nn.Linear, wide, out, bias=bias, dtype=dtype)
                x = partial(made, 2, rows, wide, dtype=dtype)
                yield f"linear/{short(dtype)}/{rows}x{wide}x{out}/bias={bias}", module(layer, x)
                yield f"linear-autocast/{short(dtype)}/{rows}x{wide}x{out}/bias={bias}", autocast(layer, x, dtype)
        for equation, shapes in (
            ("bhqd,bhkd->bhqk", ((2, 8, 128, 64), (2, 8, 128, 64))),
            ("bqhd,bkhd->bhqk", ((2, 128, 8, 64), (2, 128, 8, 64))),
            ("bhqk,bkhd->bqhd", ((2, 8, 128, 128), (2, 128, 8, 64))),
            ("ij,jk,kl->il", ((64, 128), (128, 32), (32, 256))),
            ("bi,bj->bij", ((64, 32), (64, 48))),
            ("bnd,de->bne", ((4, 100, 256), (256, 300))),
            ("ii->i", ((64, 64),)),
            ("ijk->kj", ((8, 16, 32),)),
        ):
            yield (
                f"einsum/{equation}/{short(dtype)}",
                simple(partial(torch.einsum, equation), *[partial(made, *s, dtype=dtype) for s in shapes]),
            )
    yield (
        "int_mm",
        simple(
            torch._int_mm,
            lambda: torch.ones(64, 128, device=CARD, dtype=torch.int8),
            lambda: torch.ones(64, 128, device=CARD, dtype=torch.int8).t(),
        ),
    )
    for m, n, k in ((64, 128, 256), (1024, 1024, 1024)):
        one = partial(torch.tensor, 1.0, device=CARD)
        yield (
            f"scaled_mm/{m}x{n}x{k}",
            simple(
                lambda a, b, s, t: torch._scaled_mm(a, b, s, t, out_dtype=torch.bfloat16),
                lambda m=m, k=k: torch.ones(m, k, device=CARD).to(torch.float8_e4m3fn),
                lambda n=n, k=k: torch.ones(n, k, device=CARD).to(torch.float8_e4m3fn).t(),
                one,
                one,
            ),
        )
    for dtype in (torch.float32, torch.bfloat16, torch.complex64):
        for size in (100, 100000):
            yield (
                f"dot/{short(dtype)}/{size}",
                simple(torch.dot, partial(made, size, dtype=dtype), partial(made, size, dtype=dtype)),
            )
            yield (
                f"vdot/{short(dtype)}/{size}",
                simple(torch.vdot, partial(made, size, dtype=dtype), partial(made, size, dtype=dtype)),
            )
        yield (
            f"outer/{short(dtype)}",
            simple(torch.outer, partial(made, 1000, dtype=dtype), partial(made, 700, dtype=dtype)),
        )
        yield (
            f"multi_dot/{short(dtype)}",
            simple(
                lambda *a: torch.linalg.multi_dot(a),
                partial(made, 50, 600, dtype=dtype),
                partial(made, 600, 70, dtype=dtype),
                partial(made, 70, 800, dtype=dtype),
            ),
        )
        yield (
            f"kron/{short(dtype)}",
            simple(torch.kron, partial(made, 50, 60, dtype=dtype), partial(made, 40, 30, dtype=dtype)),
        )
        yield (
            f"bilinear/{short(dtype)}",
            simple(
                F.bilinear,
                partial(made, 64, 40, dtype=dtype),
                partial(made, 64, 50, dtype=dtype),
                partial(made, 30, 40, 50, dtype=dtype),
            ),
        )
    for one in ("relu", "gelu"):
        yield (
            f"addmm_activation/{one}",
            simple(
                partial(torch._addmm_activation, use_gelu=one == "gelu"),
                partial(made, 512, dtype=torch.bfloat16, grad=False),
                partial(made, 256, 384, dtype=torch.bfloat16, grad=False),
                partial(made, 384, 512, dtype=torch.bfloat16, grad=False),
            ),
        )


def autocast(make: Callable[[], nn.Module], x: Callable[[], Any], dtype: torch.dtype) -> Unit:
    def unit(phase: Phases, rule: random.Random) -> None:
        with torch.device(CARD):
            layer = make().float()

        def call(given: torch.Tensor) -> Any:
            with torch.autocast("cuda", dtype=torch.bfloat16 if dtype == torch.float32 else dtype):
                return layer(given)

        both(phase, call, x().detach().float().requires_grad_())

    return unit


# ---- convolutions ----


def convolutions() -> Iterator[tuple[str, Unit]]:
    for number in range(120):
        rule = random.Random(f"convolution {number}")
        dims = rule.choice([1, 2, 2, 2, 2, 3])
        transposed = rule.random() < 0.25
        dtype = rule.choice(FLOATS)
        kernel = rule.choice([1, 3, 3, 3, 5, 7]) if dims < 3 else rule.choice([1, 3])
        groups_of = rule.choice(["one", "one", "one", "some", "depthwise"])
        channels, out = rule.choice([3, 16, 32, 64, 100, 128, 256]), rule.choice([16, 32, 64, 128, 256])
        groups = 1
        if groups_of == "some" and channels % 4 == 0:
            groups = 4
        if groups_of == "depthwise":
            groups, out = channels, channels * rule.choice([1, 1, 2])
        stride, dilation = rule.choice([1, 1, 2]), rule.choice([1, 1, 1, 2])
        padding = rule.choice([0, kernel // 2, kernel // 2])
        batch = rule.choice([1, 2, 8, 16])
        side = {1: rule.choice([64, 500, 1024]), 2: rule.choice([14, 28, 56, 112]), 3: rule.choice([8, 16, 24])}[dims]
        last = dims > 1 and rule.random() < 0.35
        benchmark, deterministic, bias = rule.random() < 0.25, rule.random() < 0.2, rule.random() < 0.5
        name = (
            f"conv{'_transpose' if transposed else ''}{dims}d/{short(dtype)}/{batch}x{channels}x{side}/to{out}/kernel{kernel}/groups{groups}/"
            f"stride{stride}/padding{padding}/dilation{dilation}{'/last' if last else ''}{'/benchmark' if benchmark else ''}"
            f"{'/deterministic' if deterministic else ''}{'/bias' if bias else ''}/{number}"
        )
        yield (
            name,
            convolution(
                dims,
                transposed,
                dtype,
                kernel,
                groups,
                channels,
                out,
                stride,
                dilation,
                padding,
                batch,
                side,
                last,
                benchmark,
                deterministic,
                bias,
            ),
        )


def convolution(
    dims: int, transposed: bool, dtype: torch.dtype, kernel: int, groups: int, channels: int, out: int, stride: int, dilation: int,
    padding: int, batch: int, side: int, last: bool, benchmark: bool, deterministic: bool, bias: bool,
) -> Unit:  # fmt: skip
    def unit(phase: Phases, rule: random.Random) -> None:
        kind: Any = getattr(nn, f"Conv{'Transpose' if transposed else ''}{dims}d")
        layer = kind(
            channels,
            out,
            kernel,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
            device=CARD,
            dtype=dtype,
        )
        x = torch.randn(batch, channels, *[side] * dims, device=CARD, dtype=dtype)
        if last:
            form = torch.channels_last if dims == 2 else torch.channels_last_3d
            x, layer = x.to(memory_format=form), layer.to(memory_format=form)
        x.requires_grad_()
        with torch.backends.cudnn.flags(
            enabled=True, benchmark=benchmark, deterministic=deterministic, allow_tf32=True
        ):
            with phase("forward"):
                y = layer(x)
            g = torch.ones_like(y)
            with phase("backward"):
                y.backward(g)
            with phase("forward again"):
                y = layer(x)
            with phase("backward again"):
                y.backward(g)

    return unit


# ---- normalization, recurrent networks, attention ----


def normalizations() -> Iterator[tuple[str, Unit]]:
    for dtype in FLOATS:
        d = short(dtype)
        for train, last, shape in itertools.product(
            (True, False), (False, True), ((8, 64, 28, 28), (2, 3, 112, 112), (32, 512, 7, 7))
        ):
            for kind in ("module", "functional"):

                def x(shape: Any = shape, dtype: Any = dtype, last: bool = last) -> torch.Tensor:
                    one = torch.randn(*shape, device=CARD, dtype=dtype)
                    return (one.to(memory_format=torch.channels_last) if last else one).requires_grad_()

                where = f"{d}/{'x'.join(map(str, shape))}/train={train}/last={last}"
                if kind == "module":
                    yield (
                        f"batch_norm/{where}",
                        module(partial(nn.BatchNorm2d, shape[1], dtype=torch.float32), x, train=train),
                    )
                    yield (
                        f"batch_norm-same/{where}",
                        module(partial(nn.BatchNorm2d, shape[1], dtype=dtype), x, train=train),
                    )
                elif train:
                    yield f"instance_norm/{where}", simple(F.instance_norm, x)
                    yield f"group_norm/{where}", simple(partial(F.group_norm, num_groups=1 if shape[1] == 3 else 8), x)
        for shape in ((4, 128, 768), (1000, 64), (3, 5, 4096), (2, 70000)):
            x2 = partial(made, *shape, dtype=dtype)
            where = f"{d}/{'x'.join(map(str, shape))}"
            yield f"layer_norm/{where}", module(partial(nn.LayerNorm, shape[-1], dtype=dtype), x2)
            yield f"rms_norm/{where}", module(partial(nn.RMSNorm, shape[-1], dtype=dtype), x2)
            yield f"layer_norm-autocast/{where}", autocast(partial(nn.LayerNorm, shape[-1]), x2, dtype)
            yield f"softmax/{where}", simple(partial(F.softmax, dim=-1), x2)
            yield f"softmax-0/{where}", simple(partial(F.softmax, dim=0), x2)
            yield f"log_softmax/{where}", simple(partial(F.log_softmax, dim=-1), x2)
            yield f"softmax-float/{where}", simple(partial(F.softmax, dim=-1, dtype=torch.float32), x2)
        yield f"weight_norm/{d}", module(partial(weight_normed, dtype), partial(made, 32, 128, dtype=dtype))
        yield f"spectral_norm/{d}", module(partial(spectral_normed, dtype), partial(made, 32, 128, dtype=dtype))
        yield (
            f"local_response_norm/{d}",
            simple(partial(F.local_response_norm, size=5), partial(made, 4, 32, 28, 28, dtype=dtype)),
        )


def weight_normed(dtype: torch.dtype) -> nn.Module:
    return torch.nn.utils.parametrizations.weight_norm(nn.Linear(128, 96, dtype=dtype))  # type: ignore[no-any-return]


def spectral_normed(dtype: torch.dtype) -> nn.Module:
    return torch.nn.utils.parametrizations.spectral_norm(nn.Linear(128, 96).to(CARD)).to(dtype)  # type: ignore[no-any-return]


def recurrent() -> Iterator[tuple[str, Unit]]:
    number = 0
    for kind, dtype, layers, both_ways in itertools.product(("RNN", "LSTM", "GRU"), FLOATS, (1, 2), (False, True)):
        number += 1
        rule = random.Random(f"recurrent {number}")
        wide, hidden, length, batch = (
            rule.choice([32, 100, 256]),
            rule.choice([64, 128, 200, 512]),
            rule.choice([5, 32, 100]),
            rule.choice([1, 8, 64]),
        )
        dropout = rule.choice([0.0, 0.3]) if layers > 1 else 0.0
        first = rule.random() < 0.5
        bias = rule.random() < 0.8
        shape = (batch, length, wide) if first else (length, batch, wide)
        make = partial(
            getattr(nn, kind),
            wide,
            hidden,
            layers,
            bidirectional=both_ways,
            dropout=dropout,
            batch_first=first,
            bias=bias,
            dtype=dtype,
        )
        name = f"{kind}/{short(dtype)}/{batch}x{length}x{wide}/hidden{hidden}/layers{layers}/bidirectional={both_ways}/dropout={dropout}/first={first}/bias={bias}"
        yield f"{name}/train", module(make, partial(made, *shape, dtype=dtype))
        yield f"{name}/eval", module(make, partial(made, *shape, dtype=dtype, grad=False), train=False)
        yield f"{name}/no_grad", without_grad(make, partial(made, *shape, dtype=dtype, grad=False))
        if dtype == torch.float32:
            yield f"{name}/packed", packed(make, shape, first)
    yield "LSTM/projection", module(partial(nn.LSTM, 64, 128, proj_size=32), partial(made, 20, 8, 64))
    for cell in ("RNNCell", "LSTMCell", "GRUCell"):
        for dtype in FLOATS:
            yield (
                f"{cell}/{short(dtype)}",
                module(partial(getattr(nn, cell), 64, 128, dtype=dtype), partial(made, 32, 64, dtype=dtype)),
            )


def packed(make: Callable[[], nn.Module], shape: tuple[int, ...], first: bool) -> Unit:
    def unit(phase: Phases, rule: random.Random) -> None:
        layer = make().to(CARD)
        batch, length = (shape[0], shape[1]) if first else (shape[1], shape[0])
        lengths = torch.tensor(sorted((1 + (i * 7) % length for i in range(batch)), reverse=True))
        x = made(*shape)
        with phase("pack"):
            one = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=first)
        with phase("forward"):
            y, _ = layer(one)
        with phase("pad"):
            z, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=first)
        g = torch.ones_like(z)
        with phase("backward"):
            z.backward(g)

    return unit


def without_grad(make: Callable[[], nn.Module], *inputs: Callable[[], Any]) -> Unit:
    def unit(phase: Phases, rule: random.Random) -> None:
        with torch.device(CARD):
            layer = make().eval()
        given = [one() for one in inputs]
        with torch.no_grad():
            both(phase, layer, *given)

    return unit


def attention() -> Iterator[tuple[str, Unit]]:
    from torch.nn.attention import SDPBackend

    backends = {
        "chosen": None,
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "math": SDPBackend.MATH,
    }
    for number, (backend, dtype) in enumerate(itertools.product(backends, FLOATS)):
        for again in range(9):
            rule = random.Random(f"attention {number} {again}")
            batch, heads, wide = (
                rule.choice([1, 2, 4]),
                rule.choice([4, 8, 12]),
                rule.choice([32, 64, 64, 80, 128, 96, 256, 40]),
            )
            query = rule.choice([1, 64, 128, 200, 512, 1024])
            key = query if rule.random() < 0.6 else rule.choice([64, 77, 300, 1024])
            mask = ["none", "causal", "bool", "float", "dropout", "gqa", "grad-mask", "none-layout", "no-grad"][again]
            name = f"attention/{backend}/{short(dtype)}/{batch}x{heads}x{query}x{key}x{wide}/{mask}"
            yield name, one_attention(backends[backend], dtype, batch, heads, query, key, wide, mask)
    for dtype in FLOATS:
        for train in (True, False):
            for bias in (True, False):
                where = f"{short(dtype)}/train={train}/bias={bias}"
                yield (
                    f"MultiheadAttention/{where}",
                    module(
                        partial(own_attention, dtype, bias, False), partial(made, 4, 100, 256, dtype=dtype), train=train
                    ),
                )
                yield (
                    f"MultiheadAttention-weights/{where}",
                    module(
                        partial(own_attention, dtype, bias, True), partial(made, 4, 100, 256, dtype=dtype), train=train
                    ),
                )
            for first in (True, False):
                layer = partial(
                    nn.TransformerEncoderLayer, 256, 8, 1024, batch_first=True, norm_first=first, dtype=dtype
                )
                yield (
                    f"TransformerEncoderLayer/{short(dtype)}/train={train}/norm_first={first}",
                    module(layer, partial(made, 4, 100, 256, dtype=dtype), train=train),
                )
                if not train:
                    yield (
                        f"TransformerEncoderLayer/{short(dtype)}/no_grad/norm_first={first}",
                        without_grad(layer, partial(made, 4, 100, 256, dtype=dtype, grad=False)),
                    )
            decoder = partial(nn.TransformerDecoderLayer, 256, 8, 1024, batch_first=True, dtype=dtype)
            yield (
                f"TransformerDecoderLayer/{short(dtype)}/train={train}",
                module(
                    decoder,
                    partial(made, 4, 60, 256, dtype=dtype),
                    partial(made, 4, 100, 256, dtype=dtype),
                    train=train,
                ),
            )
        encoder = partial(stack_of_layers, dtype)
        yield f"TransformerEncoder/{short(dtype)}", module(encoder, partial(made, 4, 128, 512, dtype=dtype))
        yield (
            f"TransformerEncoder/{short(dtype)}/no_grad",
            without_grad(encoder, partial(made, 4, 128, 512, dtype=dtype, grad=False)),
        )
        yield (
            f"TransformerEncoder/{short(dtype)}/autocast",
            autocast(partial(stack_of_layers, torch.float32), partial(made, 4, 128, 512, dtype=dtype), dtype),
        )


def stack_of_layers(dtype: torch.dtype) -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dtype=dtype), 3)


class own_attention(nn.Module):
    def __init__(self, dtype: torch.dtype, bias: bool, weights: bool) -> None:
        super().__init__()
        self.weights = weights
        self.layer = nn.MultiheadAttention(256, 8, bias=bias, batch_first=True, dtype=dtype)

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x, x, x, need_weights=self.weights)[0]


def one_attention(
    backend: Any, dtype: torch.dtype, batch: int, heads: int, query: int, key: int, wide: int, mask: str
) -> Unit:
    from torch.nn.attention import sdpa_kernel

    def unit(phase: Phases, rule: random.Random) -> None:
        few = heads // 4 if mask == "gqa" else heads
        grad = mask != "no-grad"
        if mask == "none-layout":
            q = torch.randn(batch, query, heads, wide, device=CARD, dtype=dtype).transpose(1, 2).requires_grad_()
            k, v = (
                torch.randn(batch, key, few, wide, device=CARD, dtype=dtype).transpose(1, 2).requires_grad_()
                for _ in range(2)
            )
        else:
            q = made(batch, heads, query, wide, dtype=dtype, grad=grad)
            k, v = (made(batch, few, key, wide, dtype=dtype, grad=grad) for _ in range(2))
        named: dict[str, Any] = {}
        if mask == "causal":
            named["is_causal"] = True
        elif mask == "bool":
            named["attn_mask"] = torch.ones(query, key, device=CARD, dtype=torch.bool).tril()
        elif mask in ("float", "grad-mask"):
            named["attn_mask"] = made(batch, heads, query, key, dtype=dtype, grad=mask == "grad-mask")
        elif mask == "dropout":
            named["dropout_p"] = 0.1
        elif mask == "gqa":
            named["enable_gqa"] = True
        with sdpa_kernel(backend) if backend is not None else contextlib.nullcontext():
            both(phase, F.scaled_dot_product_attention, q, k, v, **named)

    return unit


# ---- sorting, indices, reductions, scans ----


def indices() -> Iterator[tuple[str, Unit]]:
    sizes = (100, 1000, 2049, 5000, 65536, 1 << 20, 3000001)
    for size in sizes:
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.bool, torch.uint8):

            def x(size: int = size, dtype: torch.dtype = dtype) -> torch.Tensor:
                return drawn(size, high=1000).to(dtype)

            where = f"{short(dtype)}/{size}"
            yield f"sort/{where}", simple(torch.sort, x)
            yield f"sort-stable/{where}", simple(partial(torch.sort, stable=True, descending=True), x)
            yield f"argsort/{where}", simple(torch.argsort, x)
            yield f"nonzero/{where}", simple(torch.nonzero, x)
            yield f"unique/{where}", simple(partial(torch.unique, return_inverse=True, return_counts=True), x)
            yield f"unique-alone/{where}", simple(torch.unique, x)
            yield f"cumsum/{where}", simple(partial(torch.cumsum, dim=0), x)
            if dtype != torch.bool:
                yield f"topk/{where}", simple(partial(torch.topk, k=min(50, size)), x)
                yield f"unique_consecutive/{where}", simple(partial(torch.unique_consecutive, return_counts=True), x)
                yield f"cumprod/{where}", simple(partial(torch.cumprod, dim=0), x)
                yield f"cummax/{where}", simple(partial(torch.cummax, dim=0), x)
                yield f"kthvalue/{where}", simple(partial(torch.kthvalue, k=size // 2), x)
                yield f"median/{where}", simple(torch.median, x)
                yield f"isin/{where}", simple(torch.isin, x, partial(x, 5000))
            yield f"masked_select/{where}", simple(torch.masked_select, x, lambda size=size: drawn(size) > 0.5)
            yield f"index-bool/{where}", simple(lambda a, m: a[m], x, lambda size=size: drawn(size) > 0.5)
            yield f"flip/{where}", simple(partial(torch.flip, dims=(0,)), x)
            yield f"any/{where}", simple(torch.any, x)
            yield f"count_nonzero/{where}", simple(torch.count_nonzero, x)
        yield f"randperm/{size}", simple(partial(torch.randperm, size, device=CARD))
        yield f"bincount/{size}", simple(torch.bincount, lambda size=size: drawn(size, high=77))
        yield f"histc/{size}", simple(partial(torch.histc, bins=100), lambda size=size: drawn(size))
        yield f"histc-range/{size}", simple(partial(torch.histc, bins=64, min=-1, max=1), lambda size=size: drawn(size))
        yield (
            f"multinomial/{size}",
            simple(
                partial(torch.multinomial, num_samples=20, replacement=True),
                lambda size=size: drawn(min(size, 1 << 20)).abs(),
            ),
        )
        yield (
            f"multinomial-without/{size}",
            simple(partial(torch.multinomial, num_samples=20), lambda size=size: drawn(min(size, 1 << 20)).abs()),
        )
        yield (
            f"searchsorted/{size}",
            simple(torch.searchsorted, lambda size=size: drawn(size).sort()[0], partial(drawn, 300)),
        )
        yield (
            f"bucketize/{size}",
            simple(torch.bucketize, partial(drawn, size), lambda: torch.arange(10.0, device=CARD)),
        )
        yield f"quantile/{size}", simple(partial(torch.quantile, q=0.3), partial(drawn, size))
        yield (
            f"logcumsumexp/{size}",
            simple(partial(torch.logcumsumexp, dim=0), lambda size=size: drawn(size).requires_grad_()),
        )
        yield f"diff/{size}", simple(torch.diff, lambda size=size: drawn(size).requires_grad_())
    for rows, wide, dtype in itertools.product(
        (3, 64, 5000), (10, 300, 1025, 40000), (torch.float32, torch.bfloat16, torch.int64)
    ):
        if rows * wide > 1 << 24:
            continue
        where = f"{short(dtype)}/{rows}x{wide}"

        def x2(rows: int = rows, wide: int = wide, dtype: torch.dtype = dtype) -> torch.Tensor:
            one = drawn(rows, wide, high=1000).to(dtype)
            return one.requires_grad_() if dtype.is_floating_point else one

        for dim in (0, 1):
            yield f"sort/{where}/dim={dim}", simple(partial(torch.sort, dim=dim), x2)
            yield f"topk/{where}/dim={dim}", simple(partial(torch.topk, k=3, dim=dim), x2)
            yield f"cumsum/{where}/dim={dim}", simple(partial(torch.cumsum, dim=dim), x2)
            yield f"argmax/{where}/dim={dim}", simple(partial(torch.argmax, dim=dim), x2)
            yield f"max/{where}/dim={dim}", simple(partial(torch.max, dim=dim), x2)
            yield f"sum/{where}/dim={dim}", simple(partial(torch.sum, dim=dim), x2)
            yield f"unique/{where}/dim={dim}", simple(partial(torch.unique, dim=dim), x2)
            yield f"median/{where}/dim={dim}", simple(partial(torch.median, dim=dim), x2)
            yield f"mode/{where}/dim={dim}", simple(partial(torch.mode, dim=dim), x2)
            if dtype.is_floating_point:
                yield f"var/{where}/dim={dim}", simple(partial(torch.var, dim=dim), x2)
                yield f"norm/{where}/dim={dim}", simple(partial(torch.linalg.vector_norm, dim=dim), x2)
                yield f"logsumexp/{where}/dim={dim}", simple(partial(torch.logsumexp, dim=dim), x2)
        yield f"sum/{where}", simple(torch.sum, x2)
        yield f"max/{where}", simple(torch.max, x2)
        yield f"argmax/{where}", simple(torch.argmax, x2)
        yield f"prod/{where}", simple(torch.prod, x2)
        yield f"nonzero/{where}", simple(torch.nonzero, x2)
        if dtype.is_floating_point:
            yield f"mean/{where}", simple(torch.mean, x2)
            yield f"std/{where}", simple(torch.std, x2)
            yield f"norm/{where}", simple(torch.linalg.vector_norm, x2)
            yield f"var_mean/{where}", simple(torch.var_mean, x2)
        take = partial(drawn, 200, high=rows)
        one = partial(drawn, 200, wide, dtype=torch.float32)
        yield f"index/{where}", simple(lambda a, i: a[i], x2, take)
        yield f"index_select/{where}", simple(lambda a, i: a.index_select(0, i), x2, take)
        yield f"gather/{where}", simple(lambda a, i: a.gather(0, i[:, None].expand(-1, a.shape[1])), x2, take)
        if dtype.is_floating_point:
            yield f"index_put/{where}", simple(lambda a, i, o: a.clone().index_put((i,), o.to(a.dtype)), x2, take, one)
            yield (
                f"index_put-accumulate/{where}",
                simple(lambda a, i, o: a.clone().index_put((i,), o.to(a.dtype), accumulate=True), x2, take, one),
            )
            yield f"index_add/{where}", simple(lambda a, i, o: a.clone().index_add(0, i, o.to(a.dtype)), x2, take, one)
            yield (
                f"index_add-deterministic/{where}",
                deterministic(lambda a, i, o: a.clone().index_add(0, i, o.to(a.dtype)), x2, take, one),
            )
            yield (
                f"index_copy/{where}",
                simple(lambda a, i, o: a.clone().index_copy(0, i, o.to(a.dtype)), x2, take, one),
            )
            yield (
                f"scatter_add/{where}",
                simple(
                    lambda a, i, o: a.scatter_add(0, i[:, None].expand(-1, a.shape[1]), o.to(a.dtype)), x2, take, one
                ),
            )
            yield (
                f"scatter_add-deterministic/{where}",
                deterministic(
                    lambda a, i, o: a.scatter_add(0, i[:, None].expand(-1, a.shape[1]), o.to(a.dtype)), x2, take, one
                ),
            )
            yield (
                f"scatter_reduce/{where}",
                simple(
                    lambda a, i, o: a.scatter_reduce(0, i[:, None].expand(-1, a.shape[1]), o.to(a.dtype), "amax"),
                    x2,
                    take,
                    one,
                ),
            )
            yield (
                f"scatter/{where}",
                simple(lambda a, i, o: a.scatter(0, i[:, None].expand(-1, a.shape[1]), o.to(a.dtype)), x2, take, one),
            )
            yield f"masked_fill/{where}", simple(lambda a: a.masked_fill(a > 500, 0), x2)
            yield f"masked_scatter/{where}", simple(lambda a, o: a.masked_scatter(a > 500, torch.ones_like(a)), x2, one)
            yield f"where/{where}", simple(lambda a: torch.where(a > 500, a, 0.0), x2)
            yield f"dropout/{where}", simple(partial(F.dropout, p=0.2), x2)
            yield f"cross_entropy/{where}", simple(F.cross_entropy, x2, partial(drawn, rows, high=wide))
            yield (
                f"cross_entropy-smoothing/{where}",
                simple(partial(F.cross_entropy, label_smoothing=0.1), x2, partial(drawn, rows, high=wide)),
            )
            yield (
                f"cross_entropy-weights/{where}",
                simple(
                    lambda a, t: F.cross_entropy(a, t, weight=torch.ones(a.shape[1], device=CARD, dtype=a.dtype)),
                    x2,
                    partial(drawn, rows, high=wide),
                ),
            )
            for act in (
                "gelu",
                "silu",
                "relu",
                "softplus",
                "mish",
                "hardswish",
                "elu",
                "glu",
                "leaky_relu",
                "sigmoid",
                "tanh",
            ):
                if wide % 2 == 0:
                    yield (
                        f"{act}/{where}",
                        simple(getattr(torch, act) if act in ("sigmoid", "tanh") else getattr(F, act), x2),
                    )


def deterministic(call: Callable[..., Any], *inputs: Callable[[], Any]) -> Unit:
    def unit(phase: Phases, rule: random.Random) -> None:
        given = [one() for one in inputs]
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            both(phase, call, *given)
        finally:
            torch.use_deterministic_algorithms(False)

    return unit


def embeddings() -> Iterator[tuple[str, Unit]]:
    for dtype, rows, wide, count in itertools.product(FLOATS, (100, 50257), (64, 768), (7, 1000, 4096)):
        where = f"{short(dtype)}/{rows}x{wide}/{count}"
        x = partial(drawn, 2, count, high=rows)
        yield f"embedding/{where}", module(partial(nn.Embedding, rows, wide, dtype=dtype), x)
        yield f"embedding-padding/{where}", module(partial(nn.Embedding, rows, wide, padding_idx=0, dtype=dtype), x)
        yield (
            f"embedding-frequency/{where}",
            module(partial(nn.Embedding, rows, wide, scale_grad_by_freq=True, dtype=dtype), x),
        )
        yield f"embedding-sparse/{where}", module(partial(nn.Embedding, rows, wide, sparse=True, dtype=dtype), x)
        for mode in ("sum", "mean", "max"):
            yield (
                f"embedding_bag/{mode}/{where}",
                module(partial(nn.EmbeddingBag, rows, wide, mode=mode, dtype=dtype), x),
            )
            yield (
                f"embedding_bag-offsets/{mode}/{where}",
                module(
                    partial(nn.EmbeddingBag, rows, wide, mode=mode, dtype=dtype),
                    partial(drawn, count, high=rows),
                    lambda: torch.tensor([0, 3, 5], device=CARD),
                ),
            )
        yield (
            f"embedding_bag-sparse/{where}",
            module(partial(nn.EmbeddingBag, rows, wide, mode="sum", sparse=True, dtype=dtype), x),
        )


# ---- pictures, Fourier transforms, linear algebra ----


def pictures() -> Iterator[tuple[str, Unit]]:
    for dtype, last in itertools.product(FLOATS, (False, True)):

        def x(dtype: torch.dtype = dtype, last: bool = last) -> torch.Tensor:
            one = torch.randn(4, 32, 57, 57, device=CARD, dtype=dtype)
            return (one.to(memory_format=torch.channels_last) if last else one).requires_grad_()

        where = f"{short(dtype)}/last={last}"
        for name, call in {
            "max_pool2d": partial(F.max_pool2d, kernel_size=3, stride=2, padding=1),
            "avg_pool2d": partial(F.avg_pool2d, kernel_size=3, stride=2),
            "adaptive_avg_pool2d": partial(F.adaptive_avg_pool2d, output_size=7),
            "adaptive_avg_pool2d-1": partial(F.adaptive_avg_pool2d, output_size=1),
            "adaptive_max_pool2d": partial(F.adaptive_max_pool2d, output_size=7),
            "lp_pool2d": partial(F.lp_pool2d, norm_type=2, kernel_size=3),
            "fractional_max_pool2d": partial(F.fractional_max_pool2d, kernel_size=3, output_size=20),
            "interpolate-nearest": partial(F.interpolate, scale_factor=2),
            "interpolate-bilinear": partial(F.interpolate, size=(100, 90), mode="bilinear"),
            "interpolate-antialias": partial(F.interpolate, size=(30, 30), mode="bilinear", antialias=True),
            "interpolate-bicubic": partial(F.interpolate, scale_factor=1.5, mode="bicubic"),
            "interpolate-area": partial(F.interpolate, scale_factor=0.5, mode="area"),
            "pad-reflect": partial(F.pad, pad=(2, 3, 1, 2), mode="reflect"),
            "pad-replicate": partial(F.pad, pad=(2, 3, 1, 2), mode="replicate"),
            "pad-circular": partial(F.pad, pad=(2, 3, 1, 2), mode="circular"),
            "pad": partial(F.pad, pad=(2, 3, 1, 2)),
            "unfold": partial(F.unfold, kernel_size=3, padding=1),
            "pixel_shuffle": partial(F.pixel_shuffle, upscale_factor=2),
            "channel_shuffle": partial(F.channel_shuffle, groups=4),
            "dropout2d": F.dropout2d,
            "normalize": F.normalize,
        }.items():
            yield f"{name}/{where}", simple(call, x)
        yield (
            f"grid_sample/{where}",
            simple(partial(F.grid_sample, align_corners=False), x, partial(made, 4, 20, 20, 2, dtype=dtype)),
        )
        yield (
            f"affine_grid/{where}",
            simple(
                partial(F.affine_grid, size=(4, 3, 30, 30), align_corners=False), partial(made, 4, 2, 3, dtype=dtype)
            ),
        )
    for dtype in FLOATS:
        volume = partial(made, 2, 8, 14, 14, 14, dtype=dtype)
        line = partial(made, 4, 32, 500, dtype=dtype)
        yield f"max_pool3d/{short(dtype)}", simple(partial(F.max_pool3d, kernel_size=2), volume)
        yield f"avg_pool3d/{short(dtype)}", simple(partial(F.avg_pool3d, kernel_size=2), volume)
        yield f"adaptive_avg_pool3d/{short(dtype)}", simple(partial(F.adaptive_avg_pool3d, output_size=3), volume)
        yield (
            f"interpolate-trilinear/{short(dtype)}",
            simple(partial(F.interpolate, scale_factor=2, mode="trilinear"), volume),
        )
        yield f"max_pool1d/{short(dtype)}", simple(partial(F.max_pool1d, kernel_size=3), line)
        yield f"avg_pool1d/{short(dtype)}", simple(partial(F.avg_pool1d, kernel_size=3), line)
        yield (
            f"fold/{short(dtype)}",
            simple(partial(F.fold, output_size=(20, 20), kernel_size=3), partial(made, 2, 27, 324, dtype=dtype)),
        )
        yield (
            f"ctc_loss/{short(dtype)}",
            simple(
                lambda x: F.ctc_loss(
                    x.float().log_softmax(2),
                    torch.randint(1, 20, (4, 10), device=CARD),
                    torch.full((4,), 50),
                    torch.full((4,), 10),
                ),
                partial(made, 50, 4, 20, dtype=dtype),
            ),
        )


def transforms() -> Iterator[tuple[str, Unit]]:
    sizes = (7, 64, 100, 127, 1000, 1024, 1009, 4096, 5000, 10007, 65536, 100000, 1 << 20)
    for size, kind in itertools.product(sizes, ("fft", "rfft", "irfft", "ifft", "hfft")):
        for batch in (1, 16):

            def x(size: int = size, batch: int = batch, kind: str = kind) -> torch.Tensor:
                return made(batch, size, dtype=torch.float32 if kind in ("rfft",) else torch.complex64)

            yield f"fft/{kind}/{batch}x{size}", simple(getattr(torch.fft, kind), x)
    for dtype in (torch.complex128, torch.complex32):
        for size in (64, 1000, 1024, 10007):
            if dtype == torch.complex128 or size in (64, 1024):
                yield (
                    f"fft/fft/{short(dtype)}/{size}",
                    simple(
                        torch.fft.fft, lambda size=size, dtype=dtype: torch.zeros(4, size, device=CARD, dtype=dtype)
                    ),
                )
    for shape in (
        (32, 32),
        (100, 120),
        (256, 255),
        (512, 512),
        (1009, 64),
        (16, 24, 32),
        (64, 64, 64),
        (2, 8, 100, 100),
    ):
        where = "x".join(map(str, shape))
        yield f"fft/fftn/{where}", simple(torch.fft.fftn, partial(made, *shape, dtype=torch.complex64))
        yield f"fft/rfftn/{where}", simple(torch.fft.rfftn, partial(made, *shape))
        yield f"fft/irfft2/{where}", simple(torch.fft.irfft2, partial(made, *shape, dtype=torch.complex64))
        yield (
            f"fft/fft-first/{where}",
            simple(partial(torch.fft.fft, dim=0), partial(made, *shape, dtype=torch.complex64)),
        )
        yield f"fft/fft2-norm/{where}", simple(partial(torch.fft.fft2, norm="ortho"), partial(made, *shape))
    for size in (400, 1024):
        yield (
            f"fft/stft/{size}",
            simple(
                lambda x, size=size: torch.stft(
                    x, size, window=torch.hann_window(size, device=CARD), return_complex=True
                ),
                partial(made, 4, 16000),
            ),
        )
        yield (
            f"fft/istft/{size}",
            simple(
                lambda x, size=size: torch.istft(x, size, window=torch.hann_window(size, device=CARD)),
                partial(made, 4, size // 2 + 1, 60, dtype=torch.complex64),
            ),
        )


def linear_algebra() -> Iterator[tuple[str, Unit]]:
    def positive(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        a = drawn(*shape).to(dtype)
        return (a @ a.mT + shape[-1] * torch.eye(shape[-1], device=CARD, dtype=dtype)).detach().requires_grad_()

    for dtype, n, batch in itertools.product(
        (torch.float32, torch.float64, torch.complex64), (3, 32, 33, 100, 256, 513, 1000), ((), (2,), (9,), (600,))
    ):
        if (
            (batch == (600,) and n > 40)
            or (batch == (9,) and n > 300)
            or (n == 1000 and (batch or dtype != torch.float32))
        ):
            continue
        where = f"{short(dtype)}/{'x'.join(map(str, (*batch, n)))}"
        a = partial(positive, *batch, n, n, dtype=dtype)
        b = partial(made, *batch, n, 5, dtype=dtype)
        wide = partial(made, *batch, n, n + 20, dtype=dtype)
        tall = partial(made, *batch, n + 20, n, dtype=dtype)
        la = torch.linalg
        for name, call, inputs in (
            ("cholesky", la.cholesky, (a,)),
            ("cholesky_ex", la.cholesky_ex, (a,)),
            ("inv", la.inv, (a,)),
            ("det", la.det, (a,)),
            ("slogdet", la.slogdet, (a,)),
            ("solve", la.solve, (a, b)),
            ("lu_factor", la.lu_factor, (a,)),
            ("lu", la.lu, (a,)),
            ("eigh", la.eigh, (a,)),
            ("eigvalsh", la.eigvalsh, (a,)),
            ("svd", la.svd, (tall,)),
            ("svd-wide", partial(la.svd, full_matrices=False), (wide,)),
            ("svdvals", la.svdvals, (tall,)),
            ("qr", la.qr, (tall,)),
            ("qr-complete", partial(la.qr, mode="complete"), (tall,)),
            ("qr-r", partial(la.qr, mode="r"), (tall,)),
            ("pinv", la.pinv, (tall,)),
            (
                "lstsq",
                lambda x, y: (
                    la.lstsq(
                        x, torch.cat([y, y[..., :20, :]], -2) if y.shape[-2] >= 20 else y.new_zeros(*x.shape[:-1], 5)
                    ).solution
                ),
                (tall, b),
            ),
            ("cholesky_solve", lambda x, y: torch.cholesky_solve(y, x), (a, b)),
            ("cholesky_inverse", torch.cholesky_inverse, (a,)),
            ("triangular", partial(la.solve_triangular, upper=True), (a, b)),
            ("matrix_exp", la.matrix_exp, (lambda a=a: (a().detach() / 1e4).requires_grad_(),)),
            ("matrix_power", partial(la.matrix_power, n=3), (a,)),
            ("matrix_rank", la.matrix_rank, (tall,)),
            ("cond", la.cond, (a,)),
            ("norm-nuclear", partial(la.matrix_norm, ord="nuc"), (tall,)),
            ("householder", lambda x: la.householder_product(*torch.geqrf(x)), (tall,)),
            ("ldl", la.ldl_factor, (a,)),
        ):
            yield f"linalg/{name}/{where}", simple(call, *inputs)
        if n <= 100 and batch != (600,):
            yield f"linalg/eig/{where}", simple(la.eig, a)
        for driver in ("gesvd", "gesvdj", "gesvda"):
            if n <= 256 and batch in ((), (2,)):
                yield f"linalg/svd-{driver}/{where}", simple(partial(la.svd, full_matrices=False, driver=driver), tall)


# ---- distances, optimizers, training, graphs, what is left ----


def others() -> Iterator[tuple[str, Unit]]:
    for p, rows in itertools.product((0.0, 1.0, 2.0, 3.5, float("inf")), (20, 300, 2000)):
        yield f"cdist/{p}/{rows}", simple(partial(torch.cdist, p=p), partial(made, rows, 30), partial(made, 500, 30))
        yield f"pdist/{p}/{rows}", simple(partial(F.pdist, p=p), partial(made, rows, 30))
    for kind in ("rand", "randn"):
        for dtype in FLOATS:
            yield f"{kind}/{short(dtype)}", simple(partial(getattr(torch, kind), 1000, 333, device=CARD, dtype=dtype))
    for kind in (
        "normal_",
        "uniform_",
        "bernoulli_",
        "exponential_",
        "cauchy_",
        "log_normal_",
        "geometric_",
        "random_",
    ):
        arguments = (0.3,) if kind == "geometric_" else ()
        yield (
            f"{kind}",
            simple(
                lambda x, kind=kind, arguments=arguments: getattr(x, kind)(*arguments),
                partial(made, 1000, 50, grad=False),
            ),
        )
    yield "poisson", simple(torch.poisson, lambda: drawn(1000, 50).abs())
    yield "gumbel_softmax", simple(partial(F.gumbel_softmax, hard=True), partial(made, 100, 50))
    yield "rrelu", simple(partial(F.rrelu, training=True), partial(made, 100, 50))
    for loss in (
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "binary_cross_entropy_with_logits",
        "kl_div",
        "soft_margin_loss",
        "poisson_nll_loss",
    ):
        for dtype in FLOATS:
            yield (
                f"{loss}/{short(dtype)}",
                simple(
                    getattr(F, loss),
                    partial(made, 300, 1000, dtype=dtype),
                    lambda dtype=dtype: torch.ones(300, 1000, device=CARD, dtype=dtype),
                ),
            )
    for loss in ("triplet_margin_loss",):
        yield loss, simple(getattr(F, loss), *[partial(made, 300, 128)] * 3)
    yield "cosine_similarity", simple(F.cosine_similarity, *[partial(made, 300, 128)] * 2)
    yield (
        "cosine_embedding_loss",
        simple(F.cosine_embedding_loss, *[partial(made, 300, 128)] * 2, lambda: torch.ones(300, device=CARD)),
    )
    for shape in ((100, 200, 30), (64, 3, 224)):
        where = "x".join(map(str, shape))
        x = partial(made, *shape)
        for name, call in {
            "permute-contiguous": lambda x: x.permute(2, 0, 1).contiguous(),
            "cat": lambda x: torch.cat([x, x, x], 1),
            "stack": lambda x: torch.stack([x, x]),
            "split-cat": lambda x: torch.cat([a * 2 for a in x.split(7, 0)]),
            "repeat": lambda x: x.repeat(1, 2, 1),
            "repeat_interleave": lambda x: x.repeat_interleave(3, dim=1),
            "roll": lambda x: x.roll(3, 1),
            "half": lambda x: x.half(),
            "double": lambda x: x.double(),
            "to-cpu": lambda x: x.cpu(),
            "broadcast": lambda x: x * x[:1] + x[:, :1],
            "pow": lambda x: x**2 + x**3,
            "mean-var": lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True),
            "view-complex": lambda x: torch.view_as_complex(x.view(-1, 2)).abs(),
            "triu": lambda x: x.triu(),
            "clamp": lambda x: x.clamp(-1, 1),
            "item": lambda x: x.sum().item(),
            "tolist": lambda x: x[0, 0].tolist(),
            "index-pair": lambda x: x[torch.arange(3, device=CARD), torch.tensor([0, 1, 2], device=CARD)],
            "index-host": lambda x: x[[0, 1, 2]],
            "allclose": lambda x: torch.allclose(x, x),
            "equal": lambda x: torch.equal(x, x),
            "nan_to_num": torch.nan_to_num,
            "lerp": lambda x: torch.lerp(x, x * 2, 0.5),
            "addcmul": lambda x: torch.addcmul(x, x, x),
            "erfinv": torch.erfinv,
            "digamma": torch.digamma,
        }.items():
            yield f"{name}/{where}", simple(call, x)
    yield "from-host", simple(lambda: torch.arange(100000.0).to(CARD))
    yield "from-host-pinned", simple(lambda: torch.arange(100000.0).pin_memory().to(CARD, non_blocking=True))
    yield (
        "upsample-cat",
        simple(
            lambda x: torch.cat([F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=2)], 1),
            partial(made, 2, 16, 30, 30),
        ),
    )


def optimizers() -> Iterator[tuple[str, Unit]]:
    for kind in (
        "SGD",
        "Adam",
        "AdamW",
        "Adagrad",
        "Adadelta",
        "Adamax",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Rprop",
        "ASGD",
        "Adafactor",
        "Muon",
    ):
        for way in (
            {},
            {"foreach": True},
            {"foreach": False},
            {"fused": True},
            {"capturable": True},
            {"capturable": True, "foreach": True},
            {"differentiable": True},
        ):
            for more in ({}, {"amsgrad": True}, {"momentum": 0.9}, {"weight_decay": 0.1}, {"maximize": True}):
                if (("amsgrad" in more) and kind not in ("Adam", "AdamW")) or (
                    "momentum" in more and kind not in ("SGD", "RMSprop")
                ):
                    continue
                said = ",".join(f"{k}={v}" for k, v in {**way, **more}.items()) or "default"
                yield f"optimizer/{kind}/{said}", optimizer(kind, {**way, **more})
    yield "optimizer/LBFGS", lbfgs
    yield "optimizer/SparseAdam", sparse_adam


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(300, 700), nn.GELU(), nn.LayerNorm(700), nn.Linear(700, 300), nn.Linear(300, 1)).to(
        CARD
    )


def optimizer(kind: str, named: dict[str, Any]) -> Unit:
    def unit(phase: Phases, rule: random.Random) -> None:
        net: nn.Module = (
            network()
            if kind != "Muon"
            else nn.Sequential(nn.Linear(300, 700, bias=False), nn.Linear(700, 300, bias=False)).to(CARD)
        )
        own: Any = None
        with phase("make"):
            own = getattr(torch.optim, kind)(net.parameters(), lr=0.01, **named)
        x = torch.randn(64, 300, device=CARD)
        for step in range(2):
            net(x).sum().backward()
            with phase(f"step {step}"):
                own.step()
            with phase(f"zero {step}"):
                own.zero_grad()

    return unit


def lbfgs(phase: Phases, rule: random.Random) -> None:
    net = network()
    own = torch.optim.LBFGS(net.parameters(), max_iter=2)
    x = torch.ones(8, 300, device=CARD)

    def closure() -> Any:
        own.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss

    with phase("step"):
        own.step(closure)


def sparse_adam(phase: Phases, rule: random.Random) -> None:
    net = nn.Embedding(1000, 64, sparse=True).to(CARD)
    own = torch.optim.SparseAdam(list(net.parameters()))
    for step in range(2):
        net(drawn(50, high=1000)).sum().backward()
        with phase(f"step {step}"):
            own.step()


def training() -> Iterator[tuple[str, Unit]]:
    for dtype in (torch.float16, torch.bfloat16):
        for clip in (False, True):
            yield f"training/scaler/{short(dtype)}/clip={clip}", partial(scaled, dtype, clip)
    for foreach in (None, True, False):
        for kind in (2.0, 1.0, float("inf")):
            yield f"training/clip_grad_norm/{foreach}/{kind}", partial(clipped, foreach, kind)
    yield "training/clip_grad_value", partial(clipped, "value", 2.0)
    for reentrant in (True, False):
        yield f"training/checkpoint/reentrant={reentrant}", partial(checkpointed, reentrant)
    yield "training/accumulate", accumulated
    yield "training/ema", averaged
    yield "training/double-backward", double_backward
    yield "training/vmap-grad", per_sample
    yield "training/jacobian", jacobian
    yield "training/save_on_cpu", saved_on_cpu
    yield "graph/linear", graph
    yield "graph/callable", graphed_callable
    yield "stream/side", side_stream
    yield "nested/jagged", partial(nested, "jagged")
    yield "nested/strided", partial(nested, "strided")
    for name, make in {
        "coo": lambda x: x.to_sparse(),
        "csr": lambda x: x.to_sparse_csr(),
        "csc": lambda x: x.to_sparse_csc(),
        "bsr": lambda x: x.to_sparse_bsr((4, 4)),
    }.items():
        yield f"sparse/{name}", partial(sparse, make)


def scaled(dtype: torch.dtype, clip: bool, phase: Phases, rule: random.Random) -> None:
    net = network()
    own = torch.optim.AdamW(net.parameters())
    scaler = torch.amp.GradScaler("cuda")
    x = torch.ones(64, 300, device=CARD)
    for step in range(2):
        with phase(f"forward {step}"), torch.autocast("cuda", dtype=dtype):
            loss = net(x).float().mean()
        with phase(f"backward {step}"):
            scaler.scale(loss).backward()
        with phase(f"step {step}"):
            if clip:
                scaler.unscale_(own)
                torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(own)
            scaler.update()
        own.zero_grad()


def clipped(foreach: Any, kind: float, phase: Phases, rule: random.Random) -> None:
    net = network()
    net(torch.ones(64, 300, device=CARD)).sum().backward()
    with phase("clip"):
        if foreach == "value":
            torch.nn.utils.clip_grad_value_(net.parameters(), 1.0)
        else:
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0, norm_type=kind, foreach=foreach)


def checkpointed(reentrant: bool, phase: Phases, rule: random.Random) -> None:
    from torch.utils.checkpoint import checkpoint

    net = nn.Sequential(nn.Linear(256, 1024), nn.Dropout(0.1), nn.GELU(), nn.Linear(1024, 256)).to(CARD)
    both(phase, lambda x: checkpoint(net, x, use_reentrant=reentrant), made(512, 256))


def accumulated(phase: Phases, rule: random.Random) -> None:
    net = network()
    for step in range(3):
        with phase(f"step {step}"):
            net(torch.ones(64, 300, device=CARD)).sum().backward()


def averaged(phase: Phases, rule: random.Random) -> None:
    net = network()
    with phase("make"):
        own = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    with phase("update"):
        own.update_parameters(net)
    with phase("update again"):
        own.update_parameters(net)


def double_backward(phase: Phases, rule: random.Random) -> None:
    net, x = network(), made(32, 300)
    with phase("grad"):
        (g,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    with phase("backward"):
        g.square().sum().backward()


def per_sample(phase: Phases, rule: random.Random) -> None:
    from torch.func import functional_call, grad, vmap

    net = network()
    weights = {k: v.detach() for k, v in net.named_parameters()}
    x = torch.ones(16, 300, device=CARD)
    with phase("vmap"):
        vmap(grad(lambda w, x: functional_call(net, w, (x,)).sum()), in_dims=(None, 0))(weights, x)


def jacobian(phase: Phases, rule: random.Random) -> None:
    w = torch.ones(30, 40, device=CARD)
    with phase("jacrev"):
        torch.func.jacrev(lambda x: (x @ w).tanh())(torch.ones(5, 30, device=CARD))
    with phase("jacfwd"):
        torch.func.jacfwd(lambda x: (x @ w).tanh())(torch.ones(5, 30, device=CARD))
    with phase("hessian"):
        torch.func.hessian(lambda x: (x @ w).tanh().sum())(torch.ones(5, 30, device=CARD))


def saved_on_cpu(phase: Phases, rule: random.Random) -> None:
    net, x = network(), made(64, 300)
    with phase("forward"), torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = net(x).sum()
    with phase("backward"):
        y.backward()


def graph(phase: Phases, rule: random.Random) -> None:
    net, x = network(), torch.ones(64, 300, device=CARD)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with phase("warm up"), torch.cuda.stream(side):
        for _ in range(2):
            net(x).sum().backward()
            net.zero_grad()
        torch.cuda.current_stream().wait_stream(side)
    own = torch.cuda.CUDAGraph()
    with phase("capture"), torch.cuda.graph(own):
        y = net(x).sum()
        y.backward()
    with phase("replay"):
        own.replay()
    with phase("reset"):
        del own, y


def graphed_callable(phase: Phases, rule: random.Random) -> None:
    net = network()
    with phase("make"):
        own = torch.cuda.make_graphed_callables(net, (torch.ones(64, 300, device=CARD),))
    with phase("forward"):
        y = own(torch.ones(64, 300, device=CARD)).sum()
    with phase("backward"):
        y.backward()


def side_stream(phase: Phases, rule: random.Random) -> None:
    a = torch.ones(512, 512, device=CARD)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with phase("product"), torch.cuda.stream(side):
        b = a @ a
        c = a.half() @ a.half()
    with phase("record"):
        b.record_stream(torch.cuda.current_stream())
        c.record_stream(torch.cuda.current_stream())
        del b, c


def nested(layout: str, phase: Phases, rule: random.Random) -> None:
    parts = [torch.ones(n, 64, device=CARD) for n in (5, 30, 17)]
    with phase("make"):
        x = torch.nested.nested_tensor(
            parts, layout=torch.jagged if layout == "jagged" else torch.strided, requires_grad=True
        )
    layer = nn.Linear(64, 96).to(CARD)
    with phase("forward"):
        y = layer(x)
    with phase("padded"):
        z = torch.nested.to_padded_tensor(y, 0.0)
    with phase("backward"):
        z.sum().backward()


def sparse(make: Callable[[Any], Any], phase: Phases, rule: random.Random) -> None:
    dense = drawn(256, 512)
    dense = torch.where(dense > 1.5, dense, 0.0)
    other = torch.ones(512, 64, device=CARD, requires_grad=True)
    with phase("make"):
        a = make(dense)
    with phase("product"):
        b = a @ other
    with phase("backward"):
        b.sum().backward()
    with phase("vector"):
        a @ other[:, 0]
    with phase("dense"):
        a.to_dense()
    with phase("transpose"):
        a.t()
    with phase("add"):
        a + a
    with phase("sum"):
        a.sum()
    with phase("sparse product"):
        a @ make(dense.t().contiguous())
    with phase("softmax"):
        torch.sparse.softmax(a, 1)


def units() -> Iterator[tuple[str, Unit]]:
    for group in (
        products, convolutions, normalizations, recurrent, attention, indices, embeddings, pictures, transforms, linear_algebra, others,
        optimizers, training,
    ):  # fmt: skip
        for name, unit in group():
            yield f"{group.__name__}/{name}", unit


def grids() -> Iterator[tuple[str, Unit]]:
    """Yield units whose shapes lie on grids, for what decides the sizes of cuDNN's workspaces."""
    from torch.nn.attention import SDPBackend

    for dtype, n, c, side in itertools.product(
        (torch.float32, torch.bfloat16), (2, 8, 32), (8, 16, 64, 100, 256, 1024), (7, 28, 112)
    ):
        if n * c * side * side < 1 << 25:

            def x(shape: Any = (n, c, side, side), dtype: Any = dtype) -> torch.Tensor:
                return (
                    torch.randn(*shape, device=CARD, dtype=dtype).to(memory_format=torch.channels_last).requires_grad_()
                )

            yield f"batch_norm/{short(dtype)}/{n}x{c}x{side}", module(partial(nn.BatchNorm2d, c), x)
    for mask, batch, heads, length, wide in itertools.product(
        ("none", "causal", "gqa", "dropout"), (1, 4), (4, 12), (1, 100, 128, 500, 1024, 2048), (64, 80, 128)
    ):
        if (batch, heads) in ((1, 4), (4, 12)) or mask == "none":
            name = f"attention/{batch}x{heads}x{length}x{wide}/{mask}"
            yield (
                name,
                one_attention(SDPBackend.CUDNN_ATTENTION, torch.bfloat16, batch, heads, length, length, wide, mask),
            )
    for dtype, last, (c, out, kernel, stride, side, groups), n in itertools.product(
        (torch.float32, torch.bfloat16),
        (False, True),
        (
            (3, 64, 7, 2, 224, 1), (64, 64, 3, 1, 56, 1), (64, 256, 1, 1, 56, 1), (256, 512, 1, 2, 56, 1), (512, 512, 3, 1, 7, 1), (96, 96, 7, 1, 56, 96),
            (3, 768, 16, 16, 224, 1), (320, 320, 3, 1, 32, 1), (128, 128, 3, 2, 28, 32),
        ),
        (1, 8, 32),
    ):  # fmt: skip
        name = f"conv2d/{short(dtype)}/last={last}/{n}x{c}x{side}/to{out}/kernel{kernel}/stride{stride}/groups{groups}"
        yield (
            name,
            convolution(
                2,
                False,
                dtype,
                kernel,
                groups,
                c,
                out,
                stride,
                1,
                0 if kernel == 16 else kernel // 2,
                n,
                side,
                last,
                False,
                False,
                True,
            ),
        )


# ---- units that need a process of their own ----


def fresh_units() -> Iterator[tuple[str, dict[str, str], Unit]]:
    yield "fresh/warm-up", {}, warm_up
    square = partial(torch.ones, 256, 256, device=CARD)
    for dtype in (torch.float32, torch.bfloat16, torch.complex64, torch.float64):
        x = partial(made, 256, 256, dtype=dtype)
        yield f"fresh/mm/{short(dtype)}", {}, simple(torch.mm, x, x)
        yield f"fresh/linear/{short(dtype)}", {}, simple(F.linear, x, x, partial(made, 256, dtype=dtype))
    yield "fresh/bmm", {}, simple(torch.bmm, partial(made, 4, 256, 256), partial(made, 4, 256, 256))
    for variable, value in (
        ("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
        ("CUBLAS_WORKSPACE_CONFIG", ":16:8"),
        ("CUBLASLT_WORKSPACE_SIZE", "1024"),
        ("TORCH_CUBLASLT_UNIFIED_WORKSPACE", "0"),
        ("TORCH_CUBLASLT_UNIFIED_WORKSPACE", "1"),
        ("DISABLE_ADDMM_CUDA_LT", "1"),
        ("TORCH_BLAS_PREFER_CUBLASLT", "1"),
        ("PYTORCH_ALLOC_CONF", "expandable_segments:True"),
        ("PYTORCH_ALLOC_CONF", "roundup_power2_divisions:4"),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"),
    ):
        yield f"fresh/{variable}={value}", {variable: value}, warm_up
    yield "fresh/inv", {}, simple(torch.linalg.inv, partial(made, 100, 100))
    yield "fresh/svd", {}, simple(torch.linalg.svd, partial(made, 100, 80))
    yield "fresh/eigh", {}, simple(torch.linalg.eigh, partial(made, 100, 100))
    yield "fresh/conv2d", {}, simple(F.conv2d, partial(made, 4, 16, 56, 56), partial(made, 32, 16, 3, 3))
    yield "fresh/lstm", {}, module(partial(nn.LSTM, 64, 128, 2, dropout=0.1), partial(made, 20, 8, 64))
    yield "fresh/fft", {}, simple(torch.fft.fft, partial(made, 1000, dtype=torch.complex64))
    yield "fresh/sort", {}, simple(torch.sort, partial(made, 100000, grad=False))
    yield "fresh/attention", {}, one_attention(None, torch.bfloat16, 2, 8, 512, 512, 64, "causal")
    yield "fresh/dropout", {}, simple(F.dropout, partial(made, 1000))
    yield "fresh/graph", {}, graph
    yield "fresh/callable", {}, graphed_callable
    yield "fresh/stream", {}, side_stream
    yield (
        "fresh/scaled_mm",
        {},
        simple(
            lambda a, s: torch._scaled_mm(a, a.t(), s, s, out_dtype=torch.bfloat16),
            lambda: square().to(torch.float8_e4m3fn),
            partial(torch.tensor, 1.0, device=CARD),
        ),
    )
    yield "fresh/network", {}, lambda phase, rule: both(phase, network(), made(64, 300))
    yield "fresh/clear", {}, cleared


def cleared(phase: Phases, rule: random.Random) -> None:
    a = made(256, 256)
    with phase("matmul"):
        (a @ a).sum().backward()
    with phase("clear"):
        torch._C._cuda_clearCublasWorkspaces()
    with phase("again"):
        (a @ a).sum().backward()
