"""Batches of several sizes: what the answer says of larger ones, and ``gpuconf plan --longest``."""

import functools
import sys
from pathlib import Path
from typing import Any

import no_gpu
import pytest

pytestmark = [
    pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed"),
    pytest.mark.simulated_programs,
]
planned = functools.partial(no_gpu.answer, words=(sys.executable, "train.py"), timeout=500)

# Items of 100,000 to 12,800,000 numbers, which a batch puts one after the other.
PROGRAM = """
import torch
data = [torch.empty(number % 128 * 100_000 + 100_000) for number in range(256)]
{sampler}
loader = torch.utils.data.DataLoader(data, collate_fn=torch.cat, {options})
for x in loader:
    x.cuda()
"""
ITEM = 4 * 12_800_000


def program(options: str, sampler: str = "torch.manual_seed(1)") -> str:
    return PROGRAM.format(options=options, sampler=sampler)


OWN = """
class Batches:
    def __iter__(self):
        return iter([[number] for number in range(100)] + [[127, 126, 125], [1, 2, 3, 4, 5, 6]])
    def __len__(self):
        return 102
"""


def peak(answer: dict[str, Any]) -> float:
    return answer["processes"][0]["requested"] / ITEM


def test_larger_batches_than_those_that_ran_are_named(tmp_path: Path) -> None:
    """Of 64 batches of four none has the four largest items."""
    found = planned(tmp_path, program("batch_size=4, shuffle=True"), "--gpu", "T4")
    assert peak(found) < 3.9
    (note,) = (one for one in found["notes"] if "batches of several sizes" in one)
    assert note.endswith("and the data set's reach 51000000; see --longest (train.py:6)")


@pytest.mark.parametrize(
    ("options", "sampler", "items"),
    [
        ("batch_size=4, shuffle=True", "", 3.98),
        ("batch_size=4, shuffle=True, num_workers=2", "", 3.98),
        ("batch_size=None, shuffle=True", "torch.cat = lambda x: x", 1),
        ("batch_sampler=Batches()", OWN, 2.97),
    ],
    ids=["at random", "in workers", "one by one", "of a sampler's own"],
)
def test_the_longest_batch_comes_first(tmp_path: Path, options: str, sampler: str, items: float) -> None:
    """The program then ends after the iterations that it would have run."""
    counted = program(options, sampler).replace("for x in", "for step, x in enumerate(").replace("loader:", "loader):")
    after = "\nassert step + 1 == len(loader)\n"
    found = planned(tmp_path, counted + after, "--gpu", "T4", "--longest", "--all")
    assert found["why_no_verdict"] == ""
    assert peak(found) == pytest.approx(items, rel=0.01)
    assert "the batch of the largest items came first (train.py:" in "\n".join(found["notes"])


def test_longest_says_if_it_changes_nothing(tmp_path: Path) -> None:
    found = planned(tmp_path, program("batch_size=1").replace("number % 128 *", "0 *"), "--gpu", "T4", "--longest")
    assert "no loader was seen whose data set's items have several sizes (--longest)" in found["notes"]
