"""Programs that check at their end what their loops did, which a loop that was cut short has not done.

None of them fails in the answer: the program then runs again with whole loops.
"""

import functools
import sys
from pathlib import Path

import no_gpu
import pytest

pytestmark = [
    pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed"),
    pytest.mark.simulated_programs,
]
planned = functools.partial(no_gpu.answer, words=(sys.executable, "train.py"), timeout=500)
PROGRAM = """
import json
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.arange(400), torch.randn(400, 64))
loader, validation = DataLoader(data, batch_size=10, shuffle=True), DataLoader(data, batch_size=20)
model = torch.nn.Linear(64, 8).cuda()
optimizer = torch.optim.AdamW(model.parameters())
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.5, total_iters=80)
steps, rows, history, seen = 0, 0, [], set()
for epoch in range(2):
    losses = []
    for number, (index, x) in enumerate(loader):
        loss = model(x.cuda()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        steps += 1
        rows += len(x)
        losses.append(loss.item())
        seen.update(index.tolist())
    history.append(losses)
model.eval()
predictions, counts = [], torch.zeros(8, dtype=torch.long)
with torch.no_grad():
    for _, x in validation:
        predictions.append(model(x.cuda()).argmax(1).cpu())
        counts += 1
predicted = torch.cat(predictions)
"""
CHECKS = {
    "predictions": "assert len(predicted) == len(data)",
    "batches": "assert len(predictions) == len(validation)",
    "steps": "assert steps == 2 * len(loader)",
    "rows": "assert rows == 2 * len(data)",
    "the last number": "assert number == len(loader) - 1",
    "seen": "assert seen == set(range(len(data)))",
    "history": "assert [len(losses) for losses in history] == [40, 40]",
    "a schedule": "assert schedule.last_epoch == 80",
    "a rate": "assert abs(schedule.get_last_lr()[0] - 5e-4) < 1e-9",
    "an optimizer": "assert all(state['step'] == 80 for state in optimizer.state.values())",
    "a matrix": "assert counts.sum() == 8 * len(validation)",
    "a reshape": "predicted.view(len(data), 1)",
    "a comparison": "assert (predicted == torch.zeros(len(data), dtype=torch.long)).shape == (400,)",
    "zip": "list(zip(predicted.tolist(), range(len(data)), strict=True))",
    "an index": "predicted[len(data) - 1]",
    "a column": "torch.stack([predicted, data.tensors[0]])",
    "an error": "if steps != 80: raise RuntimeError(f'{steps} steps')",
    "an exit code": "sys.exit(0 if rows == 800 else 3)",
    "a file": "open('done.json', 'w').write(json.dumps(steps)); assert json.load(open('done.json')) == 80",
    "a mean": "assert sum(map(len, history)) / len(history) == len(loader)",
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
def test_a_failure_that_a_cut_caused_is_not_reported(tmp_path: Path, check: str) -> None:
    found = planned(tmp_path, PROGRAM + check, "--gpu", "T4")
    assert found["why_no_verdict"] == ""
    assert [(one["card"], one["verdict"]) for one in found["cards"] if one["setting"] == "default"] == [("T4", "fits")]
    assert found["ran"]["optimizer_steps"] == 80


def test_the_program_without_a_check_is_cut(tmp_path: Path) -> None:
    ran = planned(tmp_path, PROGRAM, "--gpu", "T4")["ran"]
    assert ran["cut"]
    assert ran["optimizer_steps"] < 40
