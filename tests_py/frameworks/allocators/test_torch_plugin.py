"""The pytest plugin with PyTorch on the simulated GPUs of the package: suites with our marks and fixtures, and without
any.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import no_gpu
import pytest
from suites import suite as any_suite

__all__ = ["any_suite"]

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")

TIMEOUT_S = 600  # importing PyTorch takes long where other programs run


@pytest.fixture
def suite(any_suite: Callable[..., Any]) -> Callable[..., Any]:
    """Like that of other suites, which need less time."""
    return partial(any_suite, timeout=TIMEOUT_S)


HEADER = """
import ctypes, os, pytest, torch
KEPT = []
MIB = 1 << 20
def tensor(mib): return torch.zeros(mib << 20, dtype=torch.uint8, device="cuda")
"""
CONFTEST = "import torch\nAVAILABLE = torch.cuda.is_available()\n"  # before pytest_configure

PLAIN = """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@needs_cuda
def test_values():
    assert torch.arange(4.0, device=device).mul(2).tolist() == [0, 2, 4, 6]
@pytest.mark.parametrize("name", ["cpu", pytest.param("cuda", marks=needs_cuda)])
def test_trains(name):
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1).to(name)
    x, optimizer = torch.randn(64, 8).to(name), torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10
def test_fails(): assert device.type == "cpu"
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two")
def test_two(): assert torch.zeros(1, device="cuda:1").device.index == 1
"""


def test_a_suite_without_our_marks(suite: Callable[..., Any]) -> None:
    """What most suites are: no GPU without the option, and two with it."""
    outcomes = {
        "test_values": "passed",
        "test_trains[cpu]": "passed",
        "test_trains[cuda]": "passed",
        "test_fails": "failed",
        "test_two": "passed",
    }
    ran = suite(PLAIN, "--gpuconf-simulate=2xT4", header=HEADER, conftest=CONFTEST)
    assert ran.outcomes == outcomes, ran.out + ran.err
    assert "gpuconf: simulated GPUs: 2xT4 (docs/simulation.md says what differs from a card)" in ran.out


OURS = """
@pytest.mark.gpu(n=2)
def test_gpus(gpus, gpu):
    assert len(gpus) == 2
    assert torch.cuda.device_count() == 2 and "T4" in torch.cuda.get_device_name(1)
@pytest.mark.gpu(n=3)
def test_three(gpus): pass
def test_memory(gpu, gpu_memory):
    kept = tensor(4)
    tensor(8)
    torch.cuda.reset_peak_memory_stats()
    tensor(1)
    assert (gpu_memory.start, gpu_memory.peak, gpu_memory.end) == (0, 12 * MIB, 4 * MIB)
def test_sim(gpu_simulate):
    kept = tensor(1)
    gpu_simulate("2xT4")
    assert kept.add(1).sum().item() == MIB
def test_other_machine(gpu_simulate): gpu_simulate("A100")
@pytest.mark.gpu_process("2xA100")
def test_other_machine_in_a_process(gpu_simulate):
    gpu_simulate("2xA100")
    assert [torch.cuda.get_device_name(i)[:11] for i in (0, 1)] == ["NVIDIA A100"] * 2
    assert tensor(1).add(1).sum().item() == MIB
def test_machine_is_as_before(): assert "T4" in torch.cuda.get_device_name()
@pytest.mark.gpu_leak
def test_leak(): KEPT.append(tensor(3))
@pytest.mark.gpu_leak(allow="3MiB")
def test_allowed(): KEPT.append(tensor(3))
@pytest.mark.gpu_leak
def test_no_leak():
    layer = torch.nn.Linear(100, 100, device="cuda")
    layer(torch.ones(100, 100, device="cuda")).sum().backward()
@pytest.mark.gpu_leak
def test_leak_past_the_allocator():
    tensor(1)
    at = ctypes.c_uint64()
    assert ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(5 * MIB)) == 0
@pytest.mark.gpu_peak("5MiB")
def test_peak(): tensor(6)
@pytest.mark.gpu_peak("6MiB")
def test_peak_within_the_limit():
    tensor(6)
    torch.cuda.reset_peak_memory_stats()
@pytest.mark.gpu_exclusive
def test_exclusive(gpu): tensor(1)
def test_full_1():
    held = torch.empty(14 << 30, dtype=torch.uint8, device="cuda")
    assert not held.numel()
def test_full_2(): torch.empty(14 << 30, dtype=torch.uint8, device="cuda")
"""
WRONG = {
    "test_three": "skipped",
    "test_other_machine": "failed",
    "test_leak": "error",
    "test_leak_past_the_allocator": "error",
    "test_peak": "failed",
    "test_full_1": "failed",
}


def test_marks_and_fixtures(suite: Callable[..., Any]) -> None:
    ran = suite(OURS, "--gpuconf-simulate=2xT4", header=HEADER, conftest=CONFTEST)
    assert {name: came for name, came in ran.outcomes.items() if came != "passed"} == WRONG, ran.out + ran.err
    assert "needs 3 GPUs, and 2 of 2 visible GPUs can serve it" in ran.texts["test_three"]
    assert "PyTorch runs on simulated GPUs (2xT4)" in ran.texts["test_other_machine"]
    assert "@pytest.mark.gpu_process('A100') runs a test in a process of its own" in ran.texts["test_other_machine"]
    assert "cuda:0: 3.00MiB (3145728 bytes) in 1 block of PyTorch" in ran.texts["test_leak"]
    past = ran.texts["test_leak_past_the_allocator"]
    assert "cuda:0: 5.00MiB (5242880 bytes) from the driver, past PyTorch's allocator" in past
    assert "in 1 block" not in past
    told, line = ran.texts["test_peak"].splitlines()[-2:]  # not what other tests keep
    assert told.startswith("peak 6.00MiB (6291456 bytes) of GPU memory is 20.0 % above the limit of 5.00MiB")
    assert re.fullmatch(r"  6\.00MiB \(6291456 bytes\) at \S+test_suite\.py:\d+ \(tensor\), 1 block", line)


def test_workers(suite: Callable[..., Any]) -> None:
    """Each has a card of its own, also where the conftest uses CUDA."""
    ran = suite(
        OURS + "def test_card(): assert torch.cuda.device_count() == 1\n",
        "-p",
        "xdist",
        "-n2",
        "--gpuconf-simulate=2xT4",
        header=HEADER,
        conftest=CONFTEST,
    )
    wrong = {**WRONG, "test_gpus": "skipped"}
    assert {name: came for name, came in ran.outcomes.items() if came != "passed"} == wrong, ran.out + ran.err


FAILING = """
def test_after(gpu_oom_after):
    tensor(1)
    gpu_oom_after(2)
    kept = [tensor(1)]
    with pytest.raises(torch.OutOfMemoryError,
                       match="CUDA out of memory. Tried to allocate 2.00MiB.*an injected failure"):
        tensor(2)
    kept.append(tensor(2))
def test_in_an_operation(gpu_oom_after):
    a = tensor(1)
    gpu_oom_after(1)
    with pytest.raises(torch.OutOfMemoryError): a + a
def test_in_backward(gpu_oom_after):
    a = torch.ones(3, device="cuda", requires_grad=True)
    loss = (a * a).sum()
    gpu_oom_after(1)
    with pytest.raises(torch.OutOfMemoryError): loss.backward()
def test_not_reached(gpu_oom_after): gpu_oom_after(3), tensor(1)
SEEN = []
@pytest.mark.gpu_leak
def test_each(gpu_oom_each):
    SEEN.append(gpu_oom_each)
    a = tensor(1)
    b = a + a
    assert SEEN in ([1], [1, 2], [1, 2, 3], [1, 2, 3, 0])
@pytest.mark.gpu_leak
def test_each_keeps(gpu_oom_each):
    KEPT.append(tensor(1))
    try: tensor(1)
    except torch.OutOfMemoryError: return
    KEPT.clear()
def test_pools_count_with_it(gpu, gpu_oom_after):
    import gpuconf
    gpu_oom_after(2)
    tensor(1)
    with pytest.raises(gpuconf.errors.ResourceExhaustedError): gpuconf.memory.allocate("1MiB")
"""


def test_allocations_that_fail(suite: Callable[..., Any]) -> None:
    ran = suite(FAILING, "--gpuconf-simulate=T4", "-W", "default", header=HEADER)
    assert {name: came for name, came in ran.outcomes.items() if came != "passed"} == {"test_each_keeps": "error"}, (
        ran.out + ran.err
    )
    assert "Allocation 2 of this test was made to fail (injected)" in ran.out
    assert "gpu_oom_after(3) made no allocation fail: the test made 1 allocation after it" in ran.out


def test_torch_that_is_imported_inside_a_test(suite: Callable[..., Any]) -> None:
    ran = suite(
        """
def test_other(gpu_simulate):
    gpu_simulate("A100")
    import torch
def test_own():
    import torch
    assert "T4" in torch.cuda.get_device_name()
""",
        "--gpuconf-simulate=T4",
        header="import pytest",
    )
    assert ran.outcomes == {"test_other": "failed", "test_own": "passed"}, ran.out + ran.err
    assert "PyTorch would keep the GPUs that this test simulates (A100-40GB)" in ran.texts["test_other"]


def test_torch_that_another_plugin_has_imported(suite: Callable[..., Any]) -> None:
    ran = suite("def test_it(): pass", "-p", "torch", "--gpuconf-simulate=T4", header="")
    assert ran.code == pytest.ExitCode.USAGE_ERROR
    assert "--gpuconf=simulate: PyTorch was imported before gpuconf's plugin could simulate GPUs" in ran.err + ran.out
    assert "gpuconf run --simulate T4 -- " in ran.err + ran.out


BACKWARD = """
MORE = int(os.environ.get("MORE", "1"))
@pytest.mark.gpu_peak
def test_gradients():
    weights = torch.ones(MORE << 18, device="cuda", requires_grad=True)
    weights.sum().backward()
    weights.grad += 1
@pytest.mark.gpu_peak("1MiB")
def test_limit():
    weights = torch.ones(1 << 18, device="cuda", requires_grad=True)
    weights.sum().backward()
    weights.grad += 1
"""


def test_memory_of_the_backward_pass_is_named(suite: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch allocates it in threads without Python code, so it belongs to no line, and the other lines did not add
    up.
    """
    options = ("--gpuconf-simulate=T4", "--gpuconf-report")
    suite(BACKWARD, *options, "--gpuconf-update", header=HEADER)
    monkeypatch.setenv("MORE", "2")
    ran = suite(BACKWARD, *options, header=HEADER)
    assert ran.outcomes == {"test_gradients": "failed", "test_limit": "failed"}, ran.out + ran.err
    grown = [line.strip() for line in ran.texts["test_gradients"].splitlines() if line.startswith("  +")]
    assert any(
        re.fullmatch(r"\+1\.00MiB at unknown line, \d blocks? of PyTorch \(untagged\)", line) for line in grown
    ), grown
    assert (
        "at no line of Python (a library's own thread, such as PyTorch's for the backward pass), "
        in ran.texts["test_limit"]
    )


IN_A_CAPTURE = """
GRAPH = torch.cuda.CUDAGraph()
def test_fails_in_a_capture():
    held = tensor(1)
    torch.cuda.set_stream(torch.cuda.Stream())
    GRAPH.capture_begin()
    raise ValueError
def test_after_it(): GRAPH.capture_end()
"""


def test_a_test_that_fails_while_a_graph_is_captured(suite: Callable[..., Any]) -> None:
    """PyTorch's caches cannot be emptied then, which once ended the run with pytest's INTERNALERROR."""
    ran = suite(IN_A_CAPTURE, "--gpuconf-simulate=T4", header=HEADER)
    assert ran.outcomes == {"test_fails_in_a_capture": "failed", "test_after_it": "passed"}, ran.out + ran.err
