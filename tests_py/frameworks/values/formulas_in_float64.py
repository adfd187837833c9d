"""Operators that the CPU has no kernel for, and backward passes with a formula, beside another formula in float64, with
gradients.

Each function compares. Run as a program with names, it prints those that agree, and how the others differ.
"""

import itertools
import math
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence

import gpuconf

gpuconf.simulate("A100-40GB")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812
from gpuconf.simulation.values.formulas.table import FORMULAS, REFUSED  # noqa: E402
from torch import Tensor, nn  # noqa: E402

ROUNDING = {torch.float64: 1e-10, torch.float32: 2e-4, torch.bfloat16: 4e-2, torch.float16: 6e-3}


def compare(
    compute: Callable[..., Tensor],
    formula: Callable[..., Tensor],
    tensors: Sequence[Tensor],
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Compare results, and the gradients of all tensors, which are rounded to a type first. Returns the result."""
    here = [one.to(dtype).cuda().requires_grad_() for one in tensors]
    there = [one.detach().cpu().double().requires_grad_() for one in here]
    found, expected = compute(*here), formula(*there)
    factor = torch.randn(expected.shape, dtype=torch.float64)
    near(found, expected, dtype)
    found.backward(factor.to(found.dtype).cuda())
    expected.backward(factor.to(found.dtype).double())
    for one, other in zip(here, there, strict=True):
        near(one.grad, other.grad, dtype)
    return found


def near(found: Tensor, expected: Tensor, dtype: torch.dtype = torch.float32) -> None:
    size = max(1.0, expected.abs().max().item())
    torch.testing.assert_close(found.detach().cpu().double(), expected.detach(), rtol=0, atol=ROUNDING[dtype] * size)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, causal: bool = False, scale: float | None = None
) -> Tensor:
    groups = q.size(1) // k.size(1)
    k, v = (one.repeat_interleave(groups, 1) for one in (k, v))
    scores = torch.einsum("bhqe,bhke->bhqk", q, k) * (q.size(-1) ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if causal:
        rows, columns = scores.shape[-2:]
        scores = scores.masked_fill(torch.arange(columns) > torch.arange(rows).unsqueeze(1), -math.inf)
    shares = torch.exp(scores - scores.amax(-1, keepdim=True))
    return torch.einsum("bhqk,bhke->bhqe", shares / shares.sum(-1, keepdim=True), v)


def flash_attention() -> None:
    for dtype, causal, heads, scale in itertools.product(
        (torch.float16, torch.bfloat16), (False, True), (4, 2), (None, 0.3)
    ):
        tensors = torch.randn(2, 4, 7, 16), torch.randn(2, heads, 7, 16), torch.randn(2, heads, 7, 16)
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
            compare(
                lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=True),  # noqa: B023
                lambda q, k, v: _attend(q, k, v, causal=causal, scale=scale),  # noqa: B023
                tensors,
                dtype,
            )


def efficient_attention() -> None:
    for dtype, causal, columns in itertools.product((torch.float32, torch.float16), (False, True), (7, 8)):
        tensors = torch.randn(2, 3, 7, 8), torch.randn(2, 3, columns, 8), torch.randn(2, 3, columns, 8)
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
            compare(
                lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal),  # noqa: B023
                lambda q, k, v: _attend(q, k, v, causal=causal),  # noqa: B023
                tensors,
                dtype,
            )
            if not causal:
                compare(F.scaled_dot_product_attention, _attend, (*tensors, torch.randn(2, 3, 7, columns)), dtype)


def softmax_to_float32() -> None:
    """As under autocast to float16, where PyTorch's CUDA kernels take float16 and return float32."""
    for call in (torch.softmax, torch.log_softmax):
        compare(lambda x: call(x, -1, dtype=torch.float32), lambda x: call(x, -1), [torch.randn(5, 7)], torch.float16)  # noqa: B023
    with torch.autocast("cuda", torch.float16):
        compare(lambda x: torch.softmax(x, 0), lambda x: torch.softmax(x, 0), [torch.randn(5, 7)], torch.float16)


def attention_of_cudnn() -> None:
    for causal in (False, True):
        tensors = [torch.randn(2, 3, 8, 16) for _ in range(3)]
        call = torch.ops.aten._scaled_dot_product_cudnn_attention

        def compute(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return call(q, k, v, None, True, 0.0, causal)[0]  # noqa: B023

        compare(compute, lambda q, k, v: _attend(q, k, v, causal=causal), tensors, torch.float16)  # noqa: B023


def attention_with_dropout() -> None:
    """With a unit matrix as values, the result is the weights that the dropout left.

    Gradients are of the same weights.
    """
    for backend, dtype in (("FLASH_ATTENTION", torch.float16), ("EFFICIENT_ATTENTION", torch.float32)):
        q, k = torch.randn(2, 2, 16, 16), torch.randn(2, 2, 16, 16)
        v = torch.eye(16).expand(2, 2, 16, 16).contiguous()
        with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, backend)):
            here = [one.to(dtype).cuda().requires_grad_() for one in (q, k, v)]
            found = F.scaled_dot_product_attention(*here, dropout_p=0.5)
        kept = (found.detach().cpu() != 0).double()
        assert 0.3 < kept.mean() < 0.7
        there = [one.detach().cpu().double().requires_grad_() for one in here]
        weights = _attend(there[0], there[1], torch.eye(16, dtype=torch.float64).expand(2, 2, 16, 16)) * kept * 2
        expected = weights @ there[2]
        near(found, expected, dtype)
        factor = torch.randn(expected.shape).to(dtype)
        found.backward(factor.cuda())
        expected.backward(factor.double())
        for one, other in zip(here, there, strict=True):
            near(one.grad, other.grad, dtype)


def masks_of_dropouts() -> None:
    """What a dropout left out, as PyTorch's tests find it: from the seed, and from the signs of flash attention's last
    result.
    """
    q, k, v = (torch.randn(2, 3, 37, 16, device="cuda") for _ in range(3))
    attend = torch.ops.aten._scaled_dot_product_attention_math.default
    torch.manual_seed(7)
    out, _, seed, offset = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, False, 0.3)
    drawn = torch._fill_mem_eff_dropout_mask_(torch.empty(2, 3, 37, 37, device="cuda"), 0.3, seed.item(), offset.item())
    near(out, attend(q, k, v, dropout_p=0.3, dropout_mask=drawn > 0.3)[0].cpu().double())
    q, k, v = q.half(), k.half(), v.half()
    out, *_, signed = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.3, False, True)
    expected = attend(q.float(), k.float(), v.float(), dropout_p=0.3, dropout_mask=signed[:, :, :37, :37] >= 0)[0]
    near(out, expected.cpu().double(), torch.half)


def attention_of_sequences() -> None:
    """Sequences of several lengths one after the other, by the operators and as nested tensors."""
    aten, ends = torch.ops.aten, [0, 2, 7, 8]
    lengths = torch.tensor(ends, dtype=torch.int32, device="cuda")

    def parted(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
        rows = [
            [one[begin:end].transpose(0, 1).unsqueeze(0) for one in (q, k, v)]
            for begin, end in itertools.pairwise(ends)
        ]
        return torch.cat([_attend(*three, causal=causal).squeeze(0).transpose(0, 1) for three in rows])

    tensors = [torch.randn(8, 2, 8) for _ in range(3)]
    for causal in (False, True):
        out, sums, *_ = flash = aten._flash_attention_forward(
            *(one.half().cuda() for one in tensors), lengths, lengths, 5, 5, 0.0, causal, False
        )
        there = [one.half().double().requires_grad_() for one in tensors]
        expected, grad = parted(*there, causal), torch.randn(8, 2, 8).half()
        near(out, expected, torch.float16)
        expected.backward(grad.double())
        here = [one.half().cuda() for one in tensors]
        found = aten._flash_attention_backward(
            grad.cuda(), *here, out, sums, lengths, lengths, 5, 5, 0.0, causal, flash[2], flash[3]
        )
        for one, other in zip(found, there, strict=True):
            near(one, other.grad, torch.float16)

    def nested(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        three = [torch.nested.nested_tensor_from_jagged(one, lengths.long()).transpose(1, 2) for one in (q, k, v)]
        return F.scaled_dot_product_attention(*three).transpose(1, 2).values()

    compare(nested, parted, tensors)
    compare(nested, parted, tensors, torch.float16)


def _convolve(x: Tensor, weight: Tensor, stride: int, padding: int, dilation: int, groups: int) -> Tensor:
    """A convolution as a product of unfolded patches."""
    n, _, high, wide = x.shape
    out, per, rows, columns = weight.shape
    patches = F.unfold(x, (rows, columns), dilation, padding, stride).reshape(n, groups, per * rows * columns, -1)
    product = torch.einsum("gok,ngkl->ngol", weight.reshape(groups, out // groups, -1), patches)
    sizes = [
        (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel in ((high, rows), (wide, columns))
    ]
    return product.reshape(n, out, *sizes)


def convolutions() -> None:
    for stride, padding, dilation, groups in ((1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 4), (1, 1, 1, 4)):
        x, weight = torch.randn(2, 4, 9, 8), torch.randn(8, 4 // groups, 3, 3)
        compare(
            lambda x, w: F.conv2d(x, w, None, stride, padding, dilation, groups),  # noqa: B023
            lambda x, w: _convolve(x, w, stride, padding, dilation, groups),  # noqa: B023
            (x, weight),
        )
        expected = _convolve(x.double(), weight.double(), stride, padding, dilation, groups)
        ints = [stride] * 2, [padding] * 2, [dilation] * 2
        flags = groups, False, False, False
        aten, here = torch.ops.aten, (x.cuda(), weight.cuda())
        near(aten.cudnn_convolution(*here, ints[1], ints[0], ints[2], *flags), expected)
        bias, z = torch.randn(8), torch.randn(expected.shape)
        shifted = expected + bias.reshape(-1, 1, 1)
        near(aten.cudnn_convolution_relu(*here, bias.cuda(), *ints, groups), shifted.clamp(min=0))
        near(
            aten.cudnn_convolution_add_relu(*here, z.cuda(), 0.5, bias.cuda(), *ints, groups),
            (shifted + 0.5 * z).clamp(min=0),
        )


def transposed_convolutions() -> None:
    """It is the gradient of a convolution."""
    for stride, padding in ((1, 0), (2, 1)):
        x, weight = torch.randn(2, 4, 5, 6, dtype=torch.float64), torch.randn(4, 3, 3, 3, dtype=torch.float64)
        sizes = [(size - 1) * stride - 2 * padding + 3 for size in (5, 6)]
        source = torch.zeros(2, 3, *sizes, dtype=torch.float64, requires_grad=True)
        (expected,) = torch.autograd.grad(_convolve(source, weight, stride, padding, 1, 1), source, x)
        near(F.conv_transpose2d(x.cuda(), weight.cuda(), None, stride, padding), expected, torch.float64)
        near(
            torch.ops.aten.cudnn_convolution_transpose(
                x.cuda(), weight.cuda(), [padding] * 2, [0, 0], [stride] * 2, [1, 1], 1, False, False, False
            ),
            expected,
            torch.float64,
        )


def depthwise_convolutions() -> None:
    x, weight = torch.randn(2, 3, 5, 6), torch.randn(3, 1, 3, 3)
    with torch.backends.cudnn.flags(enabled=False):
        compare(lambda x, w: F.conv2d(x, w, padding=1, groups=3), lambda x, w: _convolve(x, w, 1, 1, 1, 3), (x, weight))
    flat = torch.randn(2, 3, 1, 5, 6), torch.randn(3, 1, 1, 3, 3)
    with torch.backends.cudnn.flags(enabled=False):
        compare(
            lambda x, w: F.conv3d(x, w, groups=3),
            lambda x, w: _convolve(x.squeeze(2), w.squeeze(2), 1, 0, 1, 3).unsqueeze(2),
            flat,
        )


def _normalize(x: Tensor, dims: list[int]) -> Tensor:
    centered = x - x.mean(dims, keepdim=True)
    return centered / (centered.pow(2).mean(dims, keepdim=True) + 1e-5).sqrt()


def normalizations() -> None:
    x, weight, bias = torch.randn(5, 6, 4, 4), torch.randn(6), torch.randn(6)

    def shaped(one: Tensor) -> Tensor:
        return one.reshape(-1, 1, 1)

    for fast in (True, False):
        with torch.backends.cudnn.flags(enabled=fast):
            compare(
                lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
                lambda x, w, b: _normalize(x, [0, 2, 3]) * shaped(w) + shaped(b),
                (x, weight, bias),
            )
            mean, variance = torch.zeros(6, device="cuda"), torch.ones(6, device="cuda")
            F.batch_norm(x.cuda(), mean, variance, training=True, momentum=0.25)
            near(mean, x.double().mean([0, 2, 3]) * 0.25)
            near(variance, 0.75 + 0.25 * x.double().var([0, 2, 3], unbiased=True))
    compare(
        lambda x, w, b: F.group_norm(x, 3, w, b),
        lambda x, w, b: _normalize(x.reshape(5, 3, -1), [2]).reshape(x.shape) * shaped(w) + shaped(b),
        (x, weight, bias),
    )
    rows = torch.randn(5, 3, 6)
    for dtype in (torch.float32, torch.bfloat16):
        compare(
            lambda x, w, b: F.layer_norm(x, (6,), w, b),
            lambda x, w, b: _normalize(x, [2]) * w + b,
            (rows, weight, bias),
            dtype,
        )
    compare(
        lambda x, w: F.rms_norm(x, (6,), w, 1e-5),
        lambda x, w: x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * w,
        (rows, weight),
    )
    compare(F.logsigmoid, lambda x: -torch.log1p(torch.exp(-x)), (torch.randn(40),))


def normalization_of_several_processes() -> None:
    """The kernels of SyncBatchNorm, as two ranks call them."""
    x, weight, bias, grad = torch.randn(6, 3, 4), torch.randn(3), torch.randn(3), torch.randn(6, 3, 4)
    double = [one.double().requires_grad_() for one in (x, weight, bias)]
    expected = _normalize(double[0], [0, 2]) * double[1].reshape(-1, 1) + double[2].reshape(-1, 1)
    expected.backward(grad.double())
    parts, grads = (
        [one.contiguous().cuda() for one in x.split([2, 4])],
        [one.contiguous().cuda() for one in grad.split([2, 4])],
    )
    statistics = [torch.batch_norm_stats(one, 1e-5) for one in parts]
    means, deviations = (torch.stack([one[at] for one in statistics]) for at in (0, 1))
    counts = torch.tensor([8.0, 16.0], device="cuda")
    running = torch.zeros(3, device="cuda"), torch.ones(3, device="cuda")
    mean, invstd = torch.batch_norm_gather_stats_with_counts(parts[0], means, deviations, *running, 0.5, 1e-5, counts)
    near(running[0], 0.5 * x.double().mean([0, 2]))
    near(running[1], 0.5 + 0.5 * x.double().var([0, 2], unbiased=True))
    w, b = weight.cuda(), bias.cuda()
    near(torch.cat([torch.batch_norm_elemt(one, w, b, mean, invstd, 1e-5) for one in parts]), expected)
    reduced = [
        torch.batch_norm_backward_reduce(g, one, mean, invstd, w, True, True, True)
        for g, one in zip(grads, parts, strict=True)
    ]
    sums, products, of_weight, of_bias = (sum(one[at] for one in reduced) for at in range(4))
    near(of_weight, double[1].grad)
    near(of_bias, double[2].grad)
    found = [
        torch.batch_norm_backward_elemt(g, one, mean, invstd, w, sums, products, counts.int())
        for g, one in zip(grads, parts, strict=True)
    ]
    near(torch.cat(found), double[0].grad)


def _cell(
    kind: str, x: Tensor, h: Tensor, c: Tensor, wi: Tensor, wh: Tensor, bi: Tensor, bh: Tensor
) -> tuple[Tensor, Tensor]:
    first, second = x @ wi.T + bi, h @ wh.T + bh
    if kind == "LSTM":
        i, f, g, o = (first + second).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
    if kind == "GRU":
        (r, z, n), (hr, hz, hn) = first.chunk(3, 1), second.chunk(3, 1)
        update = (z + hz).sigmoid()
        return (1 - update) * (n + (r + hr).sigmoid() * hn).tanh() + update * h, c
    return (first + second).tanh(), c


def cells() -> None:
    for kind, gates in (("LSTM", 4), ("GRU", 3)):
        tensors = [torch.randn(3, 4), torch.randn(3, 5), torch.randn(3, 5)]
        tensors += [
            torch.randn(gates * 5, 4),
            torch.randn(gates * 5, 5),
            torch.randn(gates * 5),
            torch.randn(gates * 5),
        ]

        def compute(x: Tensor, h: Tensor, c: Tensor, *weights: Tensor) -> Tensor:
            if kind == "LSTM":  # noqa: B023
                return torch.cat(torch.lstm_cell(x, (h, c), *weights), 1)
            return torch.cat((torch.gru_cell(x, h, *weights), c), 1)

        compare(compute, lambda *all_: torch.cat(_cell(kind, *all_), 1), tensors)  # noqa: B023


def recurrent_networks() -> None:
    """Two layers in both directions, by a loop over time."""
    for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        network = getattr(nn, kind)(4, 5, num_layers=2, bidirectional=True).cuda()
        names = [name for name, _ in network.named_parameters()]
        tensors = [torch.randn(6, 3, 4), torch.randn(4, 3, 5), *(one.detach().clone() for one in network.parameters())]
        assert tensors[2].size(0) == gates * 5

        def compute(x: Tensor, h: Tensor, *weights: Tensor) -> Tensor:
            state = (h, torch.zeros_like(h)) if kind == "LSTM" else h  # noqa: B023
            out, last = torch.func.functional_call(network, dict(zip(names, weights, strict=True)), (x, state))  # noqa: B023
            return torch.cat([one.flatten() for one in (out, *(last if isinstance(last, tuple) else (last,)))])

        def formula(x: Tensor, h: Tensor, *weights: Tensor) -> Tensor:
            named = dict(zip(names, weights, strict=True))  # noqa: B023
            hs, cs = [], []
            for layer in range(2):
                outs = []
                for at, end in enumerate(("", "_reverse")):
                    four = [named[f"{part}_l{layer}{end}"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
                    state, memory, steps = h[2 * layer + at], torch.zeros_like(h[0]), []
                    for row in x.flip(0) if end else x:
                        state, memory = _cell(kind, row, state, memory, *four)  # noqa: B023
                        steps.append(state)
                    outs.append(torch.stack(steps[::-1] if end else steps))
                    hs.append(state)
                    cs.append(memory)
                x = torch.cat(outs, 2)
            parts = [x, torch.stack(hs)] + ([torch.stack(cs)] if kind == "LSTM" else [])  # noqa: B023
            return torch.cat([one.flatten() for one in parts])

        compare(compute, formula, tensors)


def bags() -> None:
    indices, offsets = torch.tensor([1, 2, 2, 5, 0, 3]), torch.tensor([0, 3, 3])
    for mode in ("sum", "mean", "max"):

        def formula(weight: Tensor) -> Tensor:
            rows = []
            for begin, end in ((0, 3), (3, 3), (3, 6)):
                chosen = weight[indices[begin:end]]
                empty = torch.zeros(4, dtype=weight.dtype)
                rows.append(empty if begin == end else chosen.amax(0) if mode == "max" else getattr(chosen, mode)(0))  # noqa: B023
            return torch.stack(rows)

        compare(lambda w: F.embedding_bag(indices.cuda(), w, offsets.cuda(), mode=mode), formula, (torch.randn(7, 4),))  # noqa: B023


def dropouts() -> None:
    x = torch.randn(50, 40)
    found, mask = torch._fused_dropout(x.cuda(), 0.25)
    assert 0.2 < mask.float().mean().item() < 0.3
    near(found, x.double() * mask.cpu() * 4)
    near(torch._masked_scale(x.cuda(), mask, 4.0), x.double() * mask.cpu() * 4)


def samplers() -> None:
    theta, x = torch.randn(2, 2, 3), torch.randn(2, 3, 5, 4)

    def places(theta: Tensor) -> Tensor:
        ys, xs = torch.linspace(-1, 1, 6), torch.linspace(-1, 1, 7)
        base = torch.stack((xs.expand(6, 7), ys.unsqueeze(1).expand(6, 7), torch.ones(6, 7)), -1).double()
        return torch.einsum("hwk,nok->nhwo", base, theta)

    compare(lambda t: torch.cudnn_affine_grid_generator(t, 2, 3, 6, 7), places, (theta,))
    grid = places(theta.double()).detach().float()

    def sampled(x: Tensor, grid: Tensor) -> Tensor:
        column, row = (grid[..., at].add(1).div(2).mul(size - 1) for at, size in ((0, 4), (1, 5)))
        total = torch.zeros(2, 3, 6, 7, dtype=x.dtype)
        for down, right in itertools.product((0, 1), (0, 1)):
            r, c = row.floor() + down, column.floor() + right
            share = (1 - (row - r).abs()) * (1 - (column - c).abs())
            inside = (r >= 0) & (r < 5) & (c >= 0) & (c < 4)
            at = (r.clamp(0, 4) * 4 + c.clamp(0, 3)).long().reshape(2, 1, -1).expand(2, 3, -1)
            total = total + x.flatten(2).gather(2, at).reshape(2, 3, 6, 7) * (share * inside).unsqueeze(1)
        return total

    compare(torch.cudnn_grid_sampler, sampled, (x, grid))


def losses_of_sequences() -> None:
    """The sum over all paths that collapse to the target."""
    target = [1, 2]

    def formula(logs: Tensor) -> Tensor:
        total = torch.zeros((), dtype=logs.dtype)
        for path in itertools.product(range(3), repeat=4):
            if [one for one, _ in itertools.groupby(path) if one] == target:
                total = total + torch.exp(sum(logs[time, 0, one] for time, one in enumerate(path)))
        return -torch.log(total).unsqueeze(0)

    def compute(logs: Tensor) -> Tensor:
        return F.ctc_loss(logs, torch.tensor([target], dtype=torch.int32), (4,), (2,), reduction="none")

    compare(lambda x: compute(x.log_softmax(2)), lambda x: formula(x.log_softmax(2)), (torch.randn(4, 1, 3),))
    logs = torch.randn(4, 1, 3).log_softmax(2)
    arguments = (torch.tensor([1, 2], dtype=torch.int32), [4], [2], 0, False, False)
    near(torch._cudnn_ctc_loss(logs.cuda(), *arguments)[0], formula(logs.double()))


def products() -> None:
    a, b = torch.randn(3, 4, 5).half(), torch.randn(3, 5, 6).half()
    c = torch.randn(3, 4, 6)
    if not hasattr(torch.ops.aten.mm, "dtype"):
        return  # before PyTorch 2.8
    here = a.cuda(), b.cuda(), c.cuda()
    found = torch.mm(here[0][0], here[1][0], out_dtype=torch.float32)
    assert found.dtype is torch.float32
    near(found, a[0].double() @ b[0].double())
    near(torch.bmm(here[0], here[1], out_dtype=torch.float32), a.double() @ b.double())
    near(
        torch.addmm(here[2][0], here[0][0], here[1][0], out_dtype=torch.float32, beta=2, alpha=0.5),
        c[0].double() * 2 + a[0].double() @ b[0].double() * 0.5,
    )
    near(
        torch.baddbmm(here[2], here[0], here[1], out_dtype=torch.float32, beta=2),
        c.double() * 2 + a.double() @ b.double(),
    )


def results_in_outputs() -> None:
    """Overloads that write into a tensor."""
    aten = torch.ops.aten

    def check(expected: Tensor, overload: Callable[..., object], *args: object, **named: object) -> None:
        out = torch.zeros(expected.shape, device="cuda")
        overload(*args, **named, out=out)
        near(out, expected)

    x, weight = torch.randn(2, 4, 9, 8), torch.randn(4, 1, 3, 3)
    expected = _convolve(x.double(), weight.double(), 1, 1, 1, 4)
    here = x.cuda(), weight.cuda()
    check(expected, aten._conv_depthwise2d.out, *here, [3, 3], None, [1, 1], [1, 1], [1, 1])
    if hasattr(aten.cudnn_convolution, "out"):
        check(expected, aten.cudnn_convolution.out, *here, [1, 1], [1, 1], [1, 1], 4, False, False, False)
    w, b, mean, invstd = torch.randn(4), torch.randn(4), torch.randn(4), torch.rand(4)
    four = [one.cuda() for one in (w, b, mean, invstd)]
    w, b, mean, invstd = (one.double().reshape(-1, 1, 1) for one in (w, b, mean, invstd))
    check((x.double() - mean) * invstd * w + b, aten.batch_norm_elemt.out, here[0], *four, 1e-5)
    if hasattr(aten.mm, "dtype_out"):
        p, q, r = torch.randn(3, 4, 5).half(), torch.randn(3, 5, 6).half(), torch.randn(3, 4, 6)
        product, one, other, bias = p.double() @ q.double(), p.cuda(), q.cuda(), r.cuda()
        check(product[0], aten.mm.dtype_out, one[0], other[0], torch.float32)
        check(product, aten.bmm.dtype_out, one, other, torch.float32)
        check(product[0] + 2 * r[0].double(), aten.addmm.dtype_out, bias[0], one[0], other[0], torch.float32, beta=2)
        check(product * 0.5 + r.double(), aten.baddbmm.dtype_out, bias, one, other, torch.float32, alpha=0.5)


def statistics_of_equal_parts() -> None:
    """The kernel of SyncBatchNorm for parts of one size."""
    x = torch.randn(2, 5, 3, 4)
    means, deviations = zip(*(torch.batch_norm_stats(one.cuda(), 1e-5) for one in x), strict=True)
    running = torch.zeros(3, device="cuda"), torch.ones(3, device="cuda")
    mean, invstd = torch.batch_norm_gather_stats(
        x[0].cuda(), torch.stack(means), torch.stack(deviations), *running, 0.5, 1e-5, 20
    )
    whole = x.double()
    near(mean, whole.mean([0, 1, 3]))
    near(invstd, (whole.var([0, 1, 3], unbiased=False) + 1e-5).rsqrt())
    near(running[0], 0.5 * whole.mean([0, 1, 3]))
    near(running[1], 0.5 + 0.5 * whole.var([0, 1, 3], unbiased=True))


def losses_with_lengths_in_tensors() -> None:
    logs = torch.randn(4, 1, 3).log_softmax(2)
    target, lengths = torch.tensor([1, 2], dtype=torch.int32), torch.tensor([4], dtype=torch.int32)
    expected = F.ctc_loss(logs.double(), target.unsqueeze(0), (4,), (2,), reduction="none")
    there = logs.cuda(), target.cuda(), lengths.cuda(), torch.tensor([2], dtype=torch.int32, device="cuda")
    near(torch._cudnn_ctc_loss(*there, 0, False, False)[0], expected)


ALL = (
    flash_attention, efficient_attention, attention_of_cudnn, attention_with_dropout, attention_of_sequences,
    convolutions, transposed_convolutions, depthwise_convolutions, normalizations, normalization_of_several_processes,
    cells, recurrent_networks, bags, dropouts, samplers, losses_of_sequences, products, softmax_to_float32,
    masks_of_dropouts, results_in_outputs, statistics_of_equal_parts, losses_with_lengths_in_tensors,
)  # fmt: skip
called: set[str] = set()  # the operators whose formula was


def _noted(name: str, formula: Callable[..., object]) -> Callable[..., object]:
    def call(*args: object, **named: object) -> object:
        called.add(name)
        return formula(*args, **named)

    return call


def without_a_comparison() -> list[str]:
    """Return the operators without a kernel of the CPU that have a formula, which nothing here has called."""
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("CUDA")
    without = (name for name in registered if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU"))
    return sorted(name for name in without if name in FORMULAS and name not in REFUSED and name not in called)


if __name__ == "__main__":
    FORMULAS.update({name: _noted(name, formula) for name, formula in FORMULAS.items()})
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for check in ALL:
        if not sys.argv[1:] or check.__name__ in sys.argv[1:]:
            torch.manual_seed(1)
            try:
                check()
                print(check.__name__)
            except Exception:
                print(f"{check.__name__}: {traceback.format_exc()}")
    if not sys.argv[1:] and without_a_comparison():
        print("not compared:", *without_a_comparison())
