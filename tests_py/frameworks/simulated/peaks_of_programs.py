"""50 small training programs under ``gpu_peak``, on a simulated GPU: each also with one tensor more, and again and
again.

    python tests_py/frameworks/simulated/peaks_of_programs.py [RERUNS]

Writes the baseline of all programs, runs them RERUNS times in all (1,000 by default), in two processes, and then once
with a tensor more in each. Prints how many runs were false alarms, and for how many programs the report names the line
of that tensor. Exits with 1 unless these are 0 and 50.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HEADER = """
import os, pytest, torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
MORE = bool(os.environ.get("MORE"))
"""

# The model, an input, and a loss of the output.
MODELS = {
    "linear": (
        "nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 8))",
        "torch.randn(32, 64).cuda()",
        "y.square().mean()",
    ),
    "norm": (
        "nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.Dropout(0.1))",
        "torch.randn(32, 64).cuda()",
        "y.abs().mean()",
    ),
    "convolution": (
        "nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())",
        "torch.randn(4, 3, 16, 16).cuda()",
        "y.mean()",
    ),
    "pooling": (
        "nn.Sequential(nn.Conv1d(4, 8, 5), nn.MaxPool1d(2), nn.Flatten())",
        "torch.randn(8, 4, 64).cuda()",
        "y.square().sum()",
    ),
    "embedding": (
        "nn.Sequential(nn.Embedding(100, 32), nn.Linear(32, 100))",
        "torch.randint(0, 100, (8, 12)).cuda()",
        "F.cross_entropy(y.flatten(0, 1), x.flatten())",
    ),
    "recurrent": ("nn.GRU(16, 32, batch_first=True)", "torch.randn(8, 10, 16).cuda()", "y[0].square().mean()"),
    "memory": ("nn.LSTM(16, 32, num_layers=2)", "torch.randn(10, 8, 16).cuda()", "y[0].mean() + y[1][1].mean()"),
    "attention": (
        "nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)",
        "torch.randn(4, 10, 32).cuda()",
        "y.square().mean()",
    ),
    "upsampling": (
        "nn.Sequential(nn.ConvTranspose2d(4, 4, 2, 2), nn.Sigmoid())",
        "torch.randn(2, 4, 8, 8).cuda()",
        "F.binary_cross_entropy(y, torch.rand_like(y))",
    ),
    "bilinear": (
        "nn.Sequential(nn.Linear(40, 40), nn.Softmax(-1), nn.Linear(40, 4))",
        "torch.randn(50, 40).cuda()",
        "y.logsumexp(-1).mean()",
    ),
}

# How the optimizer is made, the forward pass, and the step.
TRAININGS = {
    "sgd": ("torch.optim.SGD(parameters, lr=0.1, momentum=0.9)", "y = model(x)", "loss.backward(); optimizer.step()"),
    "adamw": (
        "torch.optim.AdamW(parameters)",
        "y = model(x)",
        "loss.backward(); nn.utils.clip_grad_norm_(parameters, 1.0); optimizer.step()",
    ),
    "accumulated": (
        "torch.optim.Adam(parameters, foreach=False)",
        "y = model(x)",
        "loss.backward(); step % 2 and optimizer.step()",
    ),
    "recomputed": (
        "torch.optim.RMSprop(parameters)",
        "y = checkpoint(model, x, use_reentrant=False)",
        "loss.backward(); optimizer.step()",
    ),
    "scaled": (
        "torch.optim.Adam(parameters, amsgrad=True)",
        "y = model(x)",
        "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()",
    ),
}

PROGRAM = """
@pytest.mark.gpu_peak
def test_{name}():
    torch.manual_seed(0)
    scaler = torch.amp.GradScaler("cuda", enabled={scaled})
    model = {model}.cuda()
    parameters = list(model.parameters())
    optimizer = {optimizer}
    kept = []
    for step in range(3):
        optimizer.zero_grad()
        x = {input}
        if MORE:
            kept.append(torch.zeros(4096, device="cuda"))  # {name}
        {forward}
        loss = {loss}
        {step}
"""

REPEATED = """
import os
def pytest_collection_modifyitems(items):
    items[:] = items * int(os.environ.get("TIMES", "1"))
"""


def programs() -> str:
    """Return the module."""
    tests = [
        PROGRAM.format(
            name=f"{name}_{how}",
            model=model,
            optimizer=optimizer,
            input=data,
            forward=forward,
            loss=loss,
            step=step,
            scaled=how == "scaled",
        )
        for name, (model, data, loss) in MODELS.items()
        for how, (optimizer, forward, step) in TRAININGS.items()
    ]
    return HEADER + "".join(tests)


def run(folder: Path, *options: str, **variables: str) -> str:
    """Run the suite. Return its output."""
    command = [sys.executable, *"-W ignore -m pytest -q --tb=short -p no:cacheprovider -p no:randomly".split()]
    done = subprocess.run(
        [*command, "--gpuconf-simulate=A100-40GB", "--gpuconf-report", *options],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def main(reruns: int) -> int:
    """Run all of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = programs()
        (folder / "test_programs.py").write_text(source)
        (folder / "conftest.py").write_text(REPEATED)
        lines = {
            found[1]: number
            for number, text in enumerate(source.splitlines(), 1)
            if (found := re.search(r"  # (\w+)$", text))
        }
        first = run(folder, "--gpuconf-update")
        print("baseline:", first.strip().splitlines()[-1])
        times, alarms, passed = max(1, reruns // len(lines) // 2), 0, 0
        for _ in range(2):
            out = run(folder, TIMES=str(times))
            alarms += len(re.findall(r"^ERROR ", out, re.M))
            passed += int((re.search(r"(\d+) passed", out) or "00")[1])
            print("again:", out.strip().splitlines()[-1])
        out = run(folder, MORE="1")
        named = {test for test, number in lines.items() if f"at test_programs.py:{number} (test_{test})" in out}
        alarmed = set(re.findall(r"^ERROR test_programs\.py::test_(\w+)", out, re.M))
        print("a tensor more:", out.strip().splitlines()[-1])
    more = f"{len(alarmed)} of {len(lines)} reported, {len(named)} with its line"
    print(f"{passed} reruns, {alarms} false alarms; a tensor more: {more}")
    for test in sorted(lines.keys() - (named & alarmed)):
        print("missed:", test)
    return int(bool(alarms) or passed < reruns or len(named & alarmed) < len(lines))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
