"""What README and the guides promise, on this card: each as a user runs it, in processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import gpuconf
from checks import MIB, Missing, expect, installed, note

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 120.0
PEAKS = """
torch.cuda.synchronize()
import json
print(json.dumps([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]), flush=True)
"""
SMALL_TRAINING = """
import torch
from torch import nn
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
model = nn.Sequential(nn.Embedding(8000, 512), nn.TransformerEncoder(layer, 6), nn.Linear(512, 8000)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(4):
    tokens = torch.randint(0, 8000, (16, 256), device="cuda")
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def _run(command: list[str], expected: int = 0, **settings: str) -> str:
    """A command's standard output; what it said is the error where it exits with another code."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"GPUCONF_LEDGER": str(Path(folder, "ledger"))} | settings
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=SECONDS, cwd=folder
        )
    expect(
        done.returncode == expected,
        f"{command[:6]}: exit code {done.returncode}: {done.stdout[-3000:]}{done.stderr[-5000:]}",
    )
    return done.stdout


def _program(text: str, folder: str, name: str = "train.py") -> str:
    path = Path(folder, name)
    path.write_text(textwrap.dedent(text))
    return str(path)


def _gpuconf(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gpuconf", *arguments]


def _profile() -> str:
    """The simulated card that is this one."""
    name = gpuconf.visible_devices()[0].name
    known = re.search(r"\b(H100|H200|A100|A10|L4|L40S|T4|V100|B200)\b", name)
    if known is None:
        raise Missing(f"no simulated card is known to be {name}")
    gigabytes = {"H100": "-80GB", "A100": "-80GB" if "80GB" in name else "-40GB"}
    return known[1] + gigabytes.get(known[1], "")


def case_the_first_blocks_of_readme_run() -> None:
    """README's limit for PyTorch, with its out-of-memory error, and CuPy within the same limit."""
    installed("torch")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[:2]
    try:
        installed("cupy")
    except Missing:
        blocks.pop()
    told = "import gpuconf as g; print(g.memory.stats().bytes_in_use >> 30)"
    said = _run([sys.executable, "-c", "\n".join([*blocks, told])])
    expect("limit 6.00GiB" in said, said)
    expect(said.split()[-1] == str({2: 6, 1: 4}[len(blocks)]), said)


def case_a_simulated_card_beside_the_real_one() -> dict[str, Any]:
    """PyTorch with its real CUDA libraries sees the simulated card alone, and takes nothing of the real one."""
    installed("torch")
    with tempfile.TemporaryDirectory() as folder:
        told = """
            import torch
            print(torch.cuda.get_device_name(), torch.cuda.device_count(),
                  (torch.ones(4, device="cuda") * 2).sum().item())
        """
        said = _run(_gpuconf("run", "--simulate", "2xT4", sys.executable, _program(told, folder)))
        expect(said.split("\n")[-2] == "Tesla T4 (simulated) 2 8.0", said)
    return {"said": said.strip()}


def case_a_rehearsal_predicts_the_run() -> dict[str, Any]:
    """``gpuconf plan`` rehearses a training on this card, simulated; then the same program runs on it."""
    return _predicted("a training", SMALL_TRAINING)


def case_a_rehearsal_predicts_a_classifier() -> dict[str, Any]:
    """The loops over a loader are cut in the rehearsal, and the validation has larger batches than the training."""
    return _predicted_of("classifier")


def case_a_rehearsal_predicts_two_networks() -> dict[str, Any]:
    """Two networks train against each other, each with its optimizer."""
    return _predicted_of("two_optimizers")


def case_a_rehearsal_predicts_a_language_model() -> dict[str, Any]:
    """A loop without a loader, with validations and checkpoints in it, and one before the first step."""
    return _predicted_of("language_model")


def _predicted_of(name: str) -> dict[str, Any]:
    """Compare a program of the tests of rehearsals."""
    path = ROOT / "tests_py" / "frameworks" / "rehearsed" / "programs" / f"{name}.py"
    return _predicted(name, path.read_text())


def _predicted(name: str, text: str) -> dict[str, Any]:
    """Compare the peaks of a rehearsal with those of the run."""
    installed("torch")
    with tempfile.TemporaryDirectory() as folder:
        program = _program(text + PEAKS, folder)
        command = _gpuconf("plan", "--gpu", _profile(), "--json", "--", sys.executable, program)
        (predicted,) = json.loads(_run(command))["processes"]
        allocated, reserved = json.loads(_run([sys.executable, program]).splitlines()[-1])
    note(
        allocated=allocated,
        predicted=predicted["allocated"],
        reserved=reserved,
        predicted_reserved=predicted["reserved"],
    )
    expect(abs(predicted["allocated"] / allocated - 1) <= 0.005, f"{name}: the allocated peak is not the predicted one")
    expect(abs(predicted["reserved"] / reserved - 1) <= 0.02, f"{name}: the reserved memory is not the predicted one")
    return {}


def case_a_snapshot_of_pytorch_is_planned() -> dict[str, Any]:
    """A snapshot that PyTorch dumps on this card: its planned peak is PyTorch's own."""
    installed("torch")
    with tempfile.TemporaryDirectory() as folder:
        program = "import torch\ntorch.cuda.memory._record_memory_history()\n" + SMALL_TRAINING + PEAKS
        program += f"\ntorch.cuda.memory._dump_snapshot({folder + '/snapshot.pickle'!r})"
        path = Path(folder, "train.py")
        path.write_text(program)
        allocated, _ = json.loads(_run([sys.executable, str(path)]).splitlines()[-1])
        plan = gpuconf.plan(gpuconf.memory.load_trace(f"{folder}/snapshot.pickle"))
    peaks = [usage.peak_bytes_in_use for usage in plan.usages]
    note(allocated=allocated, planned=peaks)
    expect(allocated in peaks, f"PyTorch allocated {allocated}, and the plan says {peaks}")
    return {}


def case_two_programs_share_the_card() -> dict[str, Any]:
    """``gpuconf run --memory``: two programs hold most of the card, and a third waits; each sees its lease as the
    card.
    """
    installed("torch")
    total = gpuconf.visible_devices()[0].total_memory or 0
    share = int(total * 0.4) // MIB
    text = """
        import sys, time, torch
        begin = time.time()
        sees = torch.cuda.get_device_properties(0).total_memory >> 20
        kept = [torch.zeros(256 << 20, dtype=torch.uint8, device="cuda") for _ in range(8)]
        torch.cuda.synchronize()
        try:
            torch.empty(int(sys.argv[1]) << 20, dtype=torch.uint8, device="cuda")
            outcome = "fitted"
        except torch.OutOfMemoryError:
            outcome = "refused"
        time.sleep(4)
        print(begin, time.time(), sees, outcome)
    """
    with tempfile.TemporaryDirectory() as folder:
        program, ledger = _program(text, folder), {"GPUCONF_LEDGER": str(Path(folder, "ledger"))}
        command = _gpuconf("run", "--memory", f"{share}MiB", "--timeout", "100", sys.executable, program, str(share))
        running = [
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | ledger
            )
            for _ in range(3)
        ]
        time.sleep(6)
        seen = subprocess.run(_gpuconf("top"), capture_output=True, text=True, check=False, env=os.environ | ledger)
        note(top=seen.stdout + seen.stderr)
        ended = [process.communicate(timeout=SECONDS) for process in running]
    note(said=[text[-600:] for pair in ended for text in pair])
    rows = sorted(
        (float(begin), float(end), int(sees), outcome)
        for begin, end, sees, outcome in (out.split() for out, _ in ended)
    )
    expect([row[3] for row in rows] == ["refused"] * 3, f"{rows}")
    expect(all(row[2] <= share for row in rows), f"a program sees more than {share} MiB: {rows}")
    expect(rows[1][0] < rows[0][1], f"the first two did not run at once: {rows}")
    expect(rows[2][0] >= min(rows[0][1], rows[1][1]), f"the third did not wait: {rows}")
    return {"share_MiB": share, "seen_MiB": rows[0][2]}


TESTS = """
    import pytest, torch

    def test_has_a_gpu(gpu):
        assert torch.zeros(1, device="cuda").is_cuda

    @pytest.mark.gpu_leak(warmup=1)
    def test_frees(gpu):
        (torch.ones(1000, 1000, device="cuda") @ torch.ones(1000, 1000, device="cuda")).sum().item()

    KEPT = []

    @pytest.mark.gpu_leak
    @pytest.mark.xfail(strict=True)
    def test_leaks(gpu):
        KEPT.append(torch.ones(1 << 20, device="cuda"))

    @pytest.mark.gpu_peak("80MiB")
    def test_peak(gpu, gpu_memory):
        a = torch.ones(16 << 20, device="cuda")
        assert gpu_memory.peak - gpu_memory.start == 64 << 20

    def test_recovers(gpu, gpu_oom_after):
        gpu_oom_after(2)
        torch.ones(1 << 20, device="cuda")
        with pytest.raises(torch.OutOfMemoryError):
            torch.ones(1 << 20, device="cuda")

    def test_every_allocation(gpu, gpu_oom_each):
        a = torch.ones(1 << 20, device="cuda")
        b = a * 2
"""


def case_the_plugin_tests_on_this_card() -> None:
    """The pytest plugin's fixtures and marks with PyTorch's own allocator on this card."""
    installed("torch", "pytest")
    with tempfile.TemporaryDirectory() as folder:
        test = _program(TESTS, folder, "test_on_a_card.py")
        options = ["-p", "no:cacheprovider", "-o", "gpuconf=auto", "-q"]
        said = _run([sys.executable, "-m", "pytest", *options, test])
    note(said=said[-1500:])
    expect(re.search(r"\b6 passed, 1 xfailed", said) is not None, said)


def _compiled(mode: str, compiled: str) -> dict[str, Any]:
    installed("torch", "triton")
    text = f"""
        import gpuconf
        gpuconf.configure(limit="2GiB", libraries={{"torch": {mode!r}}})
        import torch
        torch.manual_seed(0)
        layers = torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.LayerNorm(2048), torch.nn.Linear(2048, 512)
        net = torch.nn.Sequential(*layers).cuda()
        fast = torch.compile(net{compiled})
        x = torch.randn(256, 512, device="cuda")
        for _ in range(6):
            eager, quick = net(x), fast(x)
            assert torch.allclose(eager, quick, rtol=1e-2, atol=1e-2), (eager - quick).abs().max()
            net.zero_grad()
            quick.square().mean().backward()
            assert all(bool(p.grad.isfinite().all()) for p in net.parameters())
        del eager, quick
        torch.cuda.synchronize()
        print(gpuconf.memory.stats().bytes_reserved <= 2 << 30, gpuconf.memory.stats().bytes_in_use > 0)
    """
    with tempfile.TemporaryDirectory() as folder:
        said = _run([sys.executable, _program(text, folder)])
    expect(said.split() == ["True", "True"], said)
    return {}


def case_torch_compiles_in_segments_mode() -> dict[str, Any]:
    """torch.compile with Triton's kernels, forward and backward, on PyTorch's allocator over gpuconf's segments."""
    return _compiled("segments", "")


def case_torch_compiles_in_whole_mode() -> dict[str, Any]:
    """The same where each tensor is a block of gpuconf's pool."""
    return _compiled("whole", "")


def case_compiled_graphs_are_captured_in_segments_mode() -> dict[str, Any]:
    """torch.compile's CUDA graph trees, which keep pools of their own."""
    return _compiled("segments", ', mode="reduce-overhead"')


HANDED_OVER = """
    import sys
    import gpuconf
    gpuconf.configure(limit="1GiB", growth=sys.argv[1] == "growing", libraries={"torch": "segments"})
    import torch
    import torch.multiprocessing as mp

    def child(got, back):
        try:
            tensor = got.get(timeout=30)
            back.put(float(tensor.sum()))
            tensor.fill_(2)
            torch.cuda.synchronize()
            del tensor
            back.put("filled")
        except Exception as error:
            back.put(f"{type(error).__name__}: {error}")

    if __name__ == "__main__":
        context = mp.get_context("spawn")
        got, back = context.Queue(), context.Queue()
        process = context.Process(target=child, args=(got, back), daemon=True)
        process.start()
        before = [torch.full((24 << 20,), float(n), device="cuda", dtype=torch.float16) for n in range(3)]
        tensor = torch.ones(24 << 20, device="cuda", dtype=torch.uint8)  # not in the pool's first segment
        try:
            got.put(tensor)
            answers = [back.get(timeout=60)]
            answers += [back.get(timeout=60)] if isinstance(answers[0], float) else []
            print(*answers, int(tensor.sum(dtype=torch.long)) >> 20, [float(one.max()) for one in before])
        finally:
            process.join(30)
"""


def case_processes_hand_tensors_over() -> dict[str, Any]:
    """torch.multiprocessing sends a tensor to another process, from PyTorch's segments in a pool that does not grow."""
    installed("torch")
    with tempfile.TemporaryDirectory() as folder:
        said = _run([sys.executable, _program(HANDED_OVER, folder), "whole"])
    expect(said.split() == [f"{24 << 20}.0", "filled", "48", "[0.0,", "1.0,", "2.0]"], said)
    return {}


def case_a_growing_pool_hands_no_tensor_over() -> dict[str, Any]:
    """The same from a pool that grows, which docs/frameworks.md says does not work: an error, and no wrong data."""
    installed("torch")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, _program(HANDED_OVER, folder), "growing"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    said = done.stdout + done.stderr
    note(code=done.returncode, said=said[-1500:])
    expect("Error" in said or said.split()[:3] == [f"{24 << 20}.0", "filled", "48"], said)
    return {}
