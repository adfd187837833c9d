"""fit_batch and release with the real PyTorch, on gpuconf's pools, without a GPU; and the real accelerate beside
fit_batch.
"""

import importlib.util
import json
from collections.abc import Callable

import no_gpu
import pytest

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")

# Training steps that differ in how their memory grows with the batch: live blocks in MiB, on a GPU with 1000 MiB.
CURVES = """
import math
import torch
LIMIT = 1000
CURVES = {
    "linear": lambda n, s: [s * n / 40] * 40,
    "with a constant": lambda n, s: [LIMIT / 60] * 20 + [s * n / 60] * 40,
    "in steps": lambda n, s: [s * 32 * math.ceil(n / 32)],
    "quadratic in part": lambda n, s: [s * n / 80, s * n * (s * n / LIMIT) / 80] * 40,
    "cached": lambda n, s: [s * n / 8] * 8,
}
def take(size):
    return torch.empty(max(1, int(size * MIB)), dtype=torch.uint8, device="cuda")
class Step:
    def __init__(self, curve, scale):
        self.curve, self.scale, self.sizes = curve, scale, []
    def __call__(self, n):
        self.sizes.append(n)
        held = [take(size) for size in CURVES[self.curve](n, self.scale)]
        return n
"""


@pytest.mark.parametrize("mode", ["whole", "segments"])
def test_a_training_loop(run: Callable[..., str], mode: str) -> None:
    """The loop keeps the loss and the gradients of a step until the next one, as loops do."""
    out = run(f"""
        gpuconf.configure(limit="1000MiB", libraries={{"torch": "{mode}"}})
        import torch
        weights = [torch.empty(1 << 20, device="cuda", requires_grad=True) for _ in range(8)]
        optimizer = torch.optim.SGD(weights, lr=0.1)
        sizes = []
        def step(batch_size):
            sizes.append(batch_size)
            x = torch.empty(batch_size, 1 << 18, device="cuda", requires_grad=True)
            for weight in weights:
                x = x * 2.0
                y = x.sum() + weight.sum()
            optimizer.zero_grad()
            y.backward()
            optimizer.step()
            return float(y)
        fit = gpuconf.memory.fit_batch(step, 512)
        print(fit)
        print(sizes)
        most = fit.batch_size
        while True:  # what really fits
            try:
                step(most + 1)
            except torch.OutOfMemoryError:
                break
            most += 1
            torch.cuda.empty_cache()
        print(fit.batch_size, most, len(fit.tries), fit.predicted)
        """)
    chosen, most, tries, predicted = map(int, out.splitlines()[-1].split())
    assert tries <= 3, out
    assert 128 <= chosen <= most, out  # halving finds 128 with as many tries
    assert 0.9 * most <= predicted <= most, out


def test_the_decorator_frees_what_the_failed_run_held(run: Callable[..., str]) -> None:
    out = run("""
        gpuconf.configure(limit="64MiB", libraries=["torch"])
        import torch
        before = []
        @gpuconf.memory.fit_batch(start=100)
        def train(batch_size):
            before.append(gpuconf.memory.stats().bytes_in_use)
            held = []
            for _ in range(batch_size):
                held.append(torch.empty(1 << 18, device="cuda"))
            return len(held)
        n = train()
        print(n == train.fit.batch_size, before == [0] * len(before), len(before), gpuconf.memory.stats().bytes_in_use)
        """)
    equal, free, tries, in_use = out.split()
    assert (equal, free, in_use) == ("True", "True", "0")
    assert int(tries) <= 3


def test_cublas_that_cannot_allocate_counts(run: Callable[..., str]) -> None:
    assert run("""
        import torch
        seen = []
        def step(n):
            seen.append(n)
            if n > 8:
                raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
            if n > 4:
                raise torch.OutOfMemoryError("CUDA out of memory.")
        print(gpuconf.memory.fit_batch(step, 16).batch_size, seen)
        """).splitlines() == ["4 [16, 8, 4]"]


@pytest.mark.skipif(importlib.util.find_spec("accelerate") is None, reason="accelerate is not installed")
@pytest.mark.parametrize("mode", ["whole", "segments"])
def test_never_more_tries_than_accelerates_finder(run: Callable[..., str], mode: str) -> None:
    out = run(
        CURVES
        + f"""
gpuconf.configure(limit="1000MiB", libraries={{"torch": "{mode}"}})
import accelerate, json
from accelerate.utils import find_executable_batch_size
found = []
for curve in ("linear", "with a constant", "in steps", "quadratic in part", "cached"):
    for start, part in ((128, 1.2), (128, 0.97), (512, 0.6), (512, 0.1)):
        theirs, ours = Step(curve, LIMIT / (start * part)), Step(curve, LIMIT / (start * part))
        them = find_executable_batch_size(theirs.__call__, starting_batch_size=start)()
        torch.cuda.empty_cache()
        fit = gpuconf.memory.fit_batch(ours, start)
        torch.cuda.empty_cache()
        found.append([curve, start, part, fit.batch_size, ours.sizes, them, theirs.sizes])
print(json.dumps([accelerate.__version__, found]))
"""
    )
    version, found = json.loads(out)
    print(f"mode {mode}, accelerate {version}")  # shown by -rP; benchmarks/reports/simulated-gpus.md has them
    for curve, start, part, chosen, ours, them, theirs in found:
        print(
            f"{curve}: start {start}, {part} of it fits: {len(ours)} tries, {chosen}; "
            f"accelerate {len(theirs)} tries, {them}"
        )
        assert len(ours) <= min(3, len(theirs)), (curve, start, part, ours, theirs)
        assert chosen in ours
    assert len(found) == 20


def test_release_empties_pytorchs_cache_and_names_the_tensor(run: Callable[..., str]) -> None:
    assert run("""
        import sys
        gpuconf.configure(limit="1000MiB", libraries={"torch": "segments"})
        import torch
        kept = {"layers": [torch.empty(4 << 20, device="cuda")]}
        def fail():
            batch = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
            raise ValueError
        try:
            fail()
        except ValueError as error:
            sys.last_value = error
        released = gpuconf.memory.release()
        freed = {step.step: step.bytes_freed >> 20 for step in released.steps}
        print(freed["tracebacks"], freed["caches"], released.bytes_in_use >> 20)
        print([(h.nbytes >> 20, h.what, h.referrers) for h in released.holders])
        """).splitlines() == [
        "0 64 16",
        "[(16, 'torch.Tensor (4194304,) float32', (\"__main__.kept['layers'][0]\",))]",
    ]
