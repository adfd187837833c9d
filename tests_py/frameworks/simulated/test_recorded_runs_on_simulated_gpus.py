"""The memory of PyTorch on simulated GPUs is that of a real one: eight recorded runs of a Transformer,
tests_go/plan/rewind/testdata.
"""

import gzip
import importlib.metadata
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import no_gpu
import pytest
import recorded_runs
import script

PROGRAM = Path(__file__).parent / "recorded_transformer.py"
RUNS = [path for path in recorded_runs.FILES if path.name.startswith("medium_")]
TORCH = importlib.metadata.version("torch") if no_gpu.torch_folder() is not None else ""
pytestmark = [
    pytest.mark.skipif(not TORCH, reason="no PyTorch that is built for CUDA is installed"),
    pytest.mark.skipif(bool(TORCH) and not TORCH.startswith("2.11."), reason="the recorded runs are PyTorch 2.11's"),
]


def simulated(path: Path, *limit: str) -> list:
    _, length, kind = path.name.partition(".")[0].split("_")
    command = [sys.executable, "-W", "ignore", str(PROGRAM), length, kind, *limit]
    return json.loads(script.printed(command, timeout=600, env=script.plain()))


class Recorded:
    """A recorded step. What was allocated before it is still there at its end."""

    def __init__(self, path: Path) -> None:
        record = json.loads(gzip.decompress(path.read_bytes()))
        signs = {"alloc": 1, "free_completed": -1}
        self.changes = [signs[row[0]] * row[2] for row in record["trace"] if row[0] in signs]
        blocks = [block for segment in record["segments_at_end"] for block in segment["blocks"]]
        self.before = sum(size for _, size, _, state in blocks if state.startswith("active")) - sum(self.changes)
        self.reserved = sum(segment["total_size"] for segment in record["segments_at_end"])

    def live(self) -> Iterator[tuple[int, int]]:
        """Yield, after each change, how many allocations there were and how many bytes are allocated."""
        live, count = self.before, 0
        for change in self.changes:
            live, count = live + change, count + (change > 0)
            yield count, live

    def large_at(self, share: float) -> tuple[int, int, int]:
        """Return the first large allocation beyond a share of the peak: its number, what is allocated with it, and its
        size.
        """
        most, last = int(share * self.peak()), self.before
        for count, live in self.live():
            if live > most and live - last >= 32 << 20:
                return count, live, live - last
            most, last = max(most, live), live
        raise LookupError(share)

    def peak(self) -> int:
        return max(live for _, live in self.live())


@pytest.mark.parametrize("path", RUNS, ids=[path.name.partition(".")[0] for path in RUNS])
def test_peaks_are_those_of_the_real_gpu(path: Path) -> None:
    recorded = Recorded(path)
    allocated, reserved = simulated(path)
    assert allocated == pytest.approx(recorded.peak(), rel=0.001)
    assert reserved == pytest.approx(recorded.reserved, rel=0.01)


def said(message: str, before: str, after: str) -> float:
    """Return a number of GiB or MiB between two texts of PyTorch's message, in MiB."""
    found = re.search(rf"{before}([0-9.]+) ([GM])iB{after}", message)
    assert found, message
    return float(found[1]) * (1024 if found[2] == "G" else 1)


@pytest.mark.parametrize(("name", "share"), [("1024_inference", 0.9), ("1024_inference", 0.97), ("1024_training", 0.8)])
def test_memory_is_out_at_the_same_allocation(name: str, share: float) -> None:
    # In training, late in the forward pass: the formulas of the recorded backward pass are not known, and earlier the
    # allocation depends on what the steps before leave unused of their segments.
    (path,) = (path for path in RUNS if name in path.name)
    recorded = Recorded(path)
    expected, needed, size = recorded.large_at(share)
    # Half the allocation is missing, which what blocks leave unused of their segments does not change.
    limit = needed - size // 2
    number, message = simulated(path, str(limit))
    assert number == expected
    wanted = said(message, "Tried to allocate ", ". GPU 0 has a total capacity of 39.39 GiB")
    free, used = said(message, "of which ", " is free"), said(message, "this process has ", " memory in use")
    allocated = said(message, "Of the allocated memory ", " is allocated by PyTorch")
    unused = said(message, "and ", " is reserved by PyTorch but unallocated")
    assert free + used == pytest.approx(40 * 1024, abs=25)
    assert allocated + unused == pytest.approx(used, abs=25)
    assert allocated + wanted == pytest.approx(needed / (1 << 20), abs=6)
    assert said(message, "memory in use. ", " allowed") >= limit / (1 << 20) - 6
