"""Programs with libraries over PyTorch compute on simulated GPUs what they compute on the CPU.

Their peaks depend on no value.
"""

import functools
import importlib.util
import json
import sys
from pathlib import Path

import no_gpu
import pytest
import script

HERE = Path(__file__).parent
needs_torch = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")
LIBRARIES = ("torchvision", "transformers", "peft", "diffusers", "timm", "accelerate", "lightning")
MISSING = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
pytestmark = [
    needs_torch,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
    pytest.mark.simulated_programs,
]


@functools.cache
def ran(values: str) -> dict[str, tuple[list[float], list[float], tuple[int, int]]]:
    """Run all programs.

    Returns, by name, the CPU's numbers, the simulated GPU's, and the peaks of allocated and reserved bytes.
    """
    command = [sys.executable, "-W", "ignore", str(HERE / "libraries_on_simulated_gpus.py"), values]
    done = script.completed(command, timeout=1700, env=script.plain())
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert values == "none" or "have no value" not in done.stderr, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return {name: (expected, found, (allocated, reserved)) for name, expected, found, allocated, reserved in rows}


def test_numbers_are_those_of_the_cpu() -> None:
    different = {
        name: row[:2] for name, row in ran("cpu").items() if row[1] != pytest.approx(row[0], rel=1e-5, abs=1e-8)
    }
    assert not different
    assert len(ran("cpu")) >= 40


def test_peaks_do_not_depend_on_values() -> None:
    with_values, without = ({name: row[2] for name, row in ran(values).items()} for values in ("cpu", "none"))
    # How many boxes a detector proposes is in values.
    assert {name for name, peaks in with_values.items() if peaks != without[name]} == {"detection_training"}
