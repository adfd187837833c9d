"""The memory of PyTorch on simulated GPUs is that of a real one: seven recorded runs of a Transformer, tests_go/rewind/testdata."""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import no_gpu
import pytest
import recorded_runs

PROGRAM = Path(__file__).parent / "recorded_transformer.py"
RUNS = [path for path in recorded_runs.FILES if path.name.startswith("medium_") and "512_inference" not in path.name]
TORCH = importlib.metadata.version("torch") if no_gpu.torch_folder() is not None else ""
pytestmark = [
    pytest.mark.skipif(not TORCH, reason="no PyTorch that is built for CUDA is installed"),
    pytest.mark.skipif(bool(TORCH) and not TORCH.startswith("2.11."), reason="the recorded runs are PyTorch 2.11's"),
]
DROPPED = ("GPUCONF_", "CUDA_", "FAKECUDA_", "PYTORCH_", "LD_")


def simulated(path: Path, *limit: str) -> list:
    _, length, kind = path.name.partition(".")[0].split("_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}
    command = [sys.executable, "-W", "ignore", str(PROGRAM), length, kind, *limit]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=kept)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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

    def peak(self) -> int:
        return max(live for _, live in self.live())


@pytest.mark.parametrize("path", RUNS, ids=[path.name.partition(".")[0] for path in RUNS])
def test_peaks_are_those_of_the_real_gpu(path: Path) -> None:
    recorded = Recorded(path)
    allocated, reserved = simulated(path)
    assert allocated == pytest.approx(recorded.peak(), rel=0.001)
    assert reserved == pytest.approx(recorded.reserved, rel=0.01)


@pytest.mark.parametrize("share", [0.9, 0.97])
def test_memory_is_out_at_the_same_allocation(share: float) -> None:
    (path,) = (path for path in RUNS if "1024_inference" in path.name)
    recorded = Recorded(path)
    limit = int(share * recorded.peak())
    expected = next(count for count, live in recorded.live() if live > limit)
    number, message = simulated(path, str(limit))
    assert number == expected
    assert "Tried to allocate 256.00 MiB. GPU 0 has a total capacity of 40.00 GiB" in message
