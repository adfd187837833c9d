"""torchrun on simulated GPUs: ranks with NCCL compute what ranks on the CPU compute with Gloo."""

import functools
import json
import re
import sys
from importlib.metadata import version
from pathlib import Path

import no_gpu
import pytest
import script

pytestmark = [
    pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed"),
    pytest.mark.simulated_programs,
]
PROGRAM = Path(__file__).parent / "ranks_on_simulated_gpus.py"
NAMES = ("ddp", "fsdp2", "fsdp2_mixed", "hybrid", "collectives", "captured")
SHARDED = ("fsdp2", "fsdp2_mixed", "hybrid")
TORCHRUN = ["-W", "ignore", "-m", "torch.distributed.run", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]


@functools.cache
def launch(ranks: int, kind: str, *words: str, names: tuple[str, ...]) -> dict[str, tuple[list[float], int]]:
    """Run programs in so many ranks. Returns the numbers and the peak of each."""
    torchrun = [sys.executable, *TORCHRUN, "--nproc-per-node", str(ranks), str(PROGRAM), kind, *names]
    variables = script.plain() | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = script.completed([*words, *torchrun], timeout=600, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ignored on" not in done.stderr
    assert ("have no value" in done.stderr) == ("none" in words)
    rows = map(json.loads, re.findall(r'^\["\w+", .*\]$', done.stdout, re.MULTILINE))  # in 2.9, Gloo prints lines, too
    return {name: (numbers, peak) for name, numbers, peak in rows}


def simulated(ranks: int, values: str) -> list[str]:
    return [sys.executable, "-m", "gpuconf", "run", "--simulate", f"{ranks}xA100-40GB", "--values", values]


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_train_as_on_the_cpu(ranks: int) -> None:
    # PyTorch 2.6's fully_shard does not run on the CPU, whose streams have no events there.
    names = tuple(name for name in NAMES if name not in SHARDED) if version("torch").startswith("2.6.") else NAMES
    expected = launch(ranks, "cpu", names=names)
    found = launch(ranks, "cuda", *simulated(ranks, "cpu"), names=NAMES)
    assert tuple(found) == NAMES
    for name in names:
        assert found[name][0] == pytest.approx(expected[name][0], rel=1e-5), name
    for name in ("fsdp2", "hybrid"):  # they train the same model on the same batches
        assert found[name][0][: len(found["ddp"][0])] == pytest.approx(found["ddp"][0], rel=1e-5), name


def test_peaks_do_not_depend_on_values() -> None:
    with_values, without = (
        {name: peak for name, (_, peak) in launch(2, "cuda", *simulated(2, values), names=NAMES).items()}
        for values in ("cpu", "none")
    )
    assert all(peak > 0 for peak in without.values())
    # After the first step DDP makes new buckets. Their last all_reduce keeps the old ones, 81,352 bytes of gradients,
    # until the thread of PyTorch's watchdog has seen that it is done: so that peak depends on time, as it does on a
    # card.
    assert abs(with_values.pop("ddp") - without.pop("ddp")) in (0, 81_408)
    assert with_values == without
