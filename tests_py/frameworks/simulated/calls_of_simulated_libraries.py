"""A program: calls that reach every library that stands in for NVIDIA's, without the CPU's values.

It prints those that fail.
"""

import sys
from collections.abc import Callable
from typing import Any

import gpuconf
from gpuconf.simulation import simulated_torch

simulated_torch._after = lambda: None  # no package `values`: each operation takes the card's path, whatever its size
gpuconf.simulate("2xA100-40GB", values="none")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

failed: list[str] = []


def attempt(name: str, call: Callable[[], Any]) -> None:
    try:
        call()
        torch.cuda.synchronize()
    except Exception as error:
        failed.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")


def attempt_solver(name: str, call: Callable[[], Any]) -> None:
    """Some of PyTorch's solvers read values, which are unknown here: only a library's own error is a failure."""
    before = len(failed)
    attempt(name, call)
    failed[before:] = [
        text for text in failed[before:] if "cusolver" in text or "CUBLAS" in text or "CUDA error" in text
    ]


def on_card(*shape: int, **how: Any) -> Any:
    return torch.randn(*shape, device="cuda", requires_grad=True, **how)


def convolutions() -> None:
    images = on_card(4, 8, 16, 16)
    for name, module in {
        "conv2d": nn.Conv2d(8, 16, 3),
        "grouped": nn.Conv2d(8, 16, 3, groups=4),
        "transposed": nn.ConvTranspose2d(8, 4, 3, stride=2),
    }.items():
        attempt(name, lambda m=module: m.cuda()(images).sum().backward())
    attempt("conv3d", lambda: nn.Conv3d(2, 4, 3).cuda()(on_card(1, 2, 8, 8, 8)).sum().backward())
    last = images.half().to(memory_format=torch.channels_last)
    attempt(
        "channels last",
        lambda: nn.Conv2d(8, 16, 3).cuda().half().to(memory_format=torch.channels_last)(last).sum().backward(),
    )
    torch.backends.cudnn.benchmark = True
    attempt("benchmark", lambda: nn.Conv2d(8, 16, 5).cuda()(images).sum().backward())
    torch.backends.cudnn.benchmark = False
    attempt("batch norm", lambda: nn.BatchNorm2d(8).cuda()(images).sum().backward())
    attempt("batch norm, evaluated", lambda: nn.BatchNorm2d(8).cuda().eval()(last))
    attempt("grid_sample", lambda: F.grid_sample(images, torch.rand(4, 8, 8, 2, device="cuda")).sum().backward())


def recurrent() -> None:
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        for how in ({}, {"num_layers": 2, "bidirectional": True, "dropout": 0.5}, {"bias": False}):
            attempt(
                f"{kind.__name__} {how}",
                lambda k=kind, h=how: k(10, 20, **h).cuda()(on_card(5, 3, 10))[0].sum().backward(),
            )
    attempt("projection", lambda: nn.LSTM(10, 20, proj_size=5).cuda()(on_card(5, 3, 10))[0].sum().backward())
    module = nn.LSTM(10, 20, 2, bidirectional=True).cuda()
    parameters = list(module.parameters())
    whole = parameters[0].untyped_storage().nbytes()
    if len({p.untyped_storage().data_ptr() for p in parameters}) > 1 or whole != 4 * sum(p.numel() for p in parameters):
        failed.append("an LSTM's weights do not fill one buffer")
    packed = nn.utils.rnn.pack_padded_sequence(on_card(5, 3, 10), [5, 3, 2])
    attempt("packed", lambda: module(packed)[0].data.sum().backward())
    logits = on_card(50, 2, 20).log_softmax(2)
    targets, lengths = torch.randint(1, 20, (2, 10), dtype=torch.int32), torch.tensor([50, 50], dtype=torch.int32)
    attempt(
        "ctc_loss", lambda: F.ctc_loss(logits, targets, lengths, torch.tensor([10, 10], dtype=torch.int32)).backward()
    )


def attention() -> None:
    heads = on_card(2, 4, 64, 64, dtype=torch.bfloat16)
    for backend in (
        SDPBackend.FLASH_ATTENTION,
        SDPBackend.EFFICIENT_ATTENTION,
        SDPBackend.CUDNN_ATTENTION,
        SDPBackend.MATH,
    ):
        for dropout in (0.0, 0.125):
            with sdpa_kernel(backend):
                attempt(
                    f"{backend} {dropout}",
                    lambda d=dropout: (
                        F.scaled_dot_product_attention(heads, heads, heads, dropout_p=d, is_causal=d == 0)
                        .sum()
                        .backward()
                    ),
                )


def algebra() -> None:
    of_linalg = """
        qr svd svdvals eigh eigvalsh cholesky_ex inv_ex lu lu_factor_ex ldl_factor_ex det pinv slogdet eig
    """.split()
    for kind in (torch.float32, torch.complex128):
        for shape in ((8, 8), (3, 8, 8)):
            matrix = torch.randn(shape, device="cuda", dtype=kind)
            for name in of_linalg:
                attempt_solver(f"{name} {shape} {kind}", lambda n=name, m=matrix: getattr(torch.linalg, n)(m))
            attempt_solver(f"lstsq {shape}", lambda m=matrix: torch.linalg.lstsq(m, m))
            attempt_solver(f"solve {shape}", lambda m=matrix: torch.linalg.solve_ex(m, m))
            attempt_solver(f"cholesky_solve {shape}", lambda m=matrix: torch.cholesky_solve(m, m))
            attempt_solver(f"products {shape}", lambda m=matrix: m @ m @ m[..., :1])
    for driver in ("gesvd", "gesvdj", "gesvda"):
        attempt_solver(
            driver,
            lambda d=driver: torch.linalg.svd(torch.randn(3, 16, 8, device="cuda"), full_matrices=False, driver=d),
        )
    attempt(
        "int8 product", lambda: torch._int_mm(*(torch.ones(32, 32, device="cuda", dtype=torch.int8) for _ in range(2)))
    )
    attempt("linear with gelu", lambda: F.gelu(nn.Linear(16, 16).cuda().bfloat16()(on_card(4, 16).bfloat16())))
    attempt("fft", lambda: torch.fft.irfft2(torch.fft.rfft2(on_card(8, 8))).sum().backward())


def sparse() -> None:
    matrix = torch.eye(6, device="cuda")
    rows = torch.sparse_csr_tensor(torch.arange(7), torch.arange(6), torch.ones(6), (6, 6)).cuda()
    for name, kind in {"csr": rows, "coo": rows.cpu().to_sparse_coo().cuda()}.items():
        attempt(f"{name} product", lambda k=kind: k @ matrix)
        attempt(f"{name} vector", lambda k=kind: k @ matrix[0])
    attempt("sampled", lambda: torch.sparse.sampled_addmm(rows, matrix, matrix))
    attempt("triangular", lambda: torch.triangular_solve(matrix, rows))
    weights = torch.tensor([0, 0, 1, 1], device="cuda").tile(128, 32).half()
    torch.sparse.SparseSemiStructuredTensor._FORCE_CUTLASS = False
    attempt(
        "semi-structured", lambda: F.linear(on_card(128, 128).half(), torch.sparse.to_sparse_semi_structured(weights))
    )


def tools() -> None:
    square = torch.cuda.jiterator._create_jit_fn("template <typename T> T square(T x) { return x * x; }")
    attempt("jiterator", lambda: square(torch.randn(4, device="cuda")))
    attempt("special", lambda: torch.special.bessel_j0(torch.randn(4, device="cuda")))
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]

    def profiled() -> None:
        with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
            on_card(4, 4) @ on_card(4, 4)
        assert "aten::mm" in profile.key_averages().table()

    def captured() -> None:
        graph, kept = torch.cuda.CUDAGraph(), torch.zeros(8, device="cuda")
        with torch.cuda.graph(graph):
            kept.add_(1).relu_()
        graph.replay()

    attempt("profiler", profiled)
    attempt("graph", captured)
    attempt(
        "nvtx", lambda: (torch.cuda.nvtx.range_push("part"), torch.cuda.nvtx.mark("here"), torch.cuda.nvtx.range_pop())
    )
    attempt("nccl", lambda: torch.cuda.nccl.all_reduce([torch.ones(3, device=f"cuda:{i}") for i in range(2)]))
    attempt(
        "data parallel",
        lambda: nn.DataParallel(nn.Linear(4, 4).cuda())(torch.ones(8, 4, device="cuda")).sum().backward(),
    )


for part in (convolutions, recurrent, attention, algebra, sparse, tools):
    part()
print("\n".join(failed))
print(torch.__version__, torch.backends.cudnn.version(), torch.cuda.nccl.version(), file=sys.stderr)
