"""The commands of ``gpuconf plan --fleet``: the job that was recorded fits under them, and under no less.

See no_gpu.py.
"""

import os
import subprocess
import sys
from pathlib import Path

import gpuconf
import no_gpu
import pytest
import script

pytestmark = pytest.mark.skipif(no_gpu.torch_folder() is None, reason="no PyTorch that is built for CUDA is installed")

# The free memory is in holes of 9 MiB: PyTorch's allocator needs 500 MiB, and gpuconf's the 360 MiB that are live at
# the peak.
JOB = """
import os, sys, torch
block = lambda mib: torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
if len(sys.argv) > 1:
    torch.cuda.memory._record_memory_history(stacks="python")
pairs = [(block(9), block(9)) for _ in range(20)]
kept = [second for _, second in pairs]
del pairs
kept.append(block(100))
if len(sys.argv) > 1:
    torch.cuda.memory._dump_snapshot(sys.argv[1])
os.write(1, b"fits")
os._exit(0)
"""


@pytest.mark.parametrize(("policy", "limit"), [("auto", 500)])
def test_a_job_fits_under_its_command(driver: Path, tmp_path: Path, policy: str, limit: int) -> None:
    """The limit was that of gpuconf's allocator, and the job ran with PyTorch's:
    4 of 4 recorded jobs ran out of memory.
    """
    program, trace = tmp_path / "job.py", tmp_path / "jobs" / "job.pickle"
    program.write_text(JOB)
    trace.parent.mkdir()
    kept = script.plain()
    kept |= {
        "LD_LIBRARY_PATH": str(driver),
        "GPUCONF_LEDGER": str(tmp_path / "ledger"),
        "FAKECUDA_MEMORY": str(4 << 30),
    }
    kept |= {"LD_PRELOAD": str(driver / "runtime.so"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def ends(command: str) -> str:
        words = ["/bin/sh", "-c", f"{command} {sys.executable} {program}"]
        return script.completed(words, env=kept, timeout=180).stdout

    subprocess.run([sys.executable, str(program), str(trace)], env=kept, check=True, timeout=180, capture_output=True)
    (job,) = gpuconf.plan_fleet(trace.parent, "1xA100-40GB", policy=policy).jobs
    assert job.limit == limit << 20
    assert ends(job.command) == "fits"
    assert ends(job.command.replace(f"{limit}MiB", f"{limit - 4}MiB")) == ""
