"""``make gpu-all`` with PyTorch, over the driver of host memory: what the steps do that need no results of kernels."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import gpuconf
import no_gpu
import pytest
import script
from fake_nvml import fake_nvml

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")

UNATTENDED = Path(__file__).resolve().parents[1] / "gpu" / "unattended.py"
CARD = (
    f"card {no_gpu.FIRST_CARD} domain=0 bus=26 device=0 cc=9.0 mig=off total=4831838208 used=536870912 NVIDIA Fake "
    "4GB\nlive\n"
)


@pytest.fixture(scope="module")
def libraries(driver: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """LD_LIBRARY_PATH of a card with NVML."""
    return f"{fake_nvml(tmp_path_factory.mktemp('nvml'))}:{driver}"


def steps(libraries: str, driver: Path, out: Path, only: str) -> dict[str, Any]:
    """Run the steps whose names contain this; their results."""
    (out / "machine.txt").write_text("driver 580.95.05\ncuda 13000\n" + CARD)
    environment = script.plain()
    environment |= {
        "LD_LIBRARY_PATH": libraries,
        "LD_PRELOAD": str(driver / "runtime.so"),
        "FAKECUDA_MEMORY": str(4 << 30),
    }
    environment["FAKECUDA_LENIENT"] = "1"  # expandable segments count on addresses as NVIDIA's driver has them
    environment |= {"FAKE_NVML": str(out / "machine.txt"), "GPUCONF_LEDGER": str(out / "ledger")}
    command = [sys.executable, UNATTENDED, "--out", out, "--only", only]
    done = script.completed(command, env=environment, timeout=600)
    found = json.loads((out / "gpu-results.json").read_text())["steps"] if (out / "gpu-results.json").exists() else {}
    assert found, done.stdout + done.stderr
    return dict(found)


def test_a_transformers_traces_are_kept(libraries: str, driver: Path, tmp_path: Path) -> None:
    found = steps(libraries, driver, tmp_path, "a_trace_of")
    assert found["a_trace_of_inference"]["result"] == "passed", found
    assert (
        found["a_trace_of_training"]["result"] == "passed"
        or "the loss is not finite" in found["a_trace_of_training"]["output"]
    )
    for kind in ("training", "inference"):
        figures = found[f"a_trace_of_{kind}"]["figures"]
        (tmp_path / "trace.csv").write_bytes(gzip.decompress((tmp_path / f"transformer-{kind}.csv.gz").read_bytes()))
        trace = gpuconf.memory.load_trace(tmp_path / "trace.csv")
        assert 10_000 < len(trace) <= figures["events"]  # the file leaves out the pool's segments
        assert gpuconf.plan(trace).usages[0].peak_bytes_in_use == figures["peak_bytes_in_use"] > 100 << 20
        assert figures["least_limit"] >= figures["peak_bytes_in_use"]


def test_growth_is_compared_with_pytorchs_expandable_segments(libraries: str, driver: Path, tmp_path: Path) -> None:
    found = steps(libraries, driver, tmp_path, "growth")
    assert {name: one["result"] for name, one in found.items()} == dict.fromkeys(found, "passed"), found
    assert found["growth_to_most_of_the_card"]["figures"]["gpuconf_us_per_step"] > 0
    assert found["growth_of_torchs_expandable_segments"]["figures"]["torch_expandable_us_per_step"] > 0


@pytest.mark.parametrize("only", ["guarded_torch", "nvml", "beside_its_tensors"])
def test_the_step_passes(libraries: str, driver: Path, tmp_path: Path, only: str) -> None:
    found = steps(libraries, driver, tmp_path, only)
    assert {name: one["result"] for name, one in found.items()} == dict.fromkeys(found, "passed"), found
