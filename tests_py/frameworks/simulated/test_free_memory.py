"""The free memory that a program reads is what it can still have, however it is limited and whichever API it calls."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import script
from ray_jobs import PATIENT
from script import environment

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")

MIB = 1 << 20
LIMIT, HELD, TOTAL = 2048, 1024, 4096  # MiB

# On a card of 4 GiB: what each says is free, and its total, while 1 GiB is in a tensor; what more a program can have.
PROGRAM = """
import ctypes, importlib.util, json, sys
from ctypes import byref, c_size_t, c_ulonglong, c_void_p
MIB = 1 << 20

def test_free_memory():
    import torch
    held = torch.empty(1024 * MIB, dtype=torch.uint8, device="cuda")
    torch.cuda.empty_cache()
    import gpuconf
    said = {"torch": torch.cuda.mem_get_info()}
    if hasattr(torch.accelerator, "get_memory_info"):
        said["accelerator"] = torch.accelerator.get_memory_info()
    stats = gpuconf.memory.stats("GPU:0")
    said["gpuconf"] = stats.bytes_limit - stats.bytes_in_use, stats.bytes_limit
    said["max_memory"] = gpuconf.max_memory()[0], stats.bytes_limit
    if importlib.util.find_spec("accelerate"):  # what device_map="auto" goes by
        from accelerate.utils import get_max_memory
        said["get_max_memory"] = get_max_memory()[0], stats.bytes_limit
        torch.cuda.empty_cache()  # of its own tensor
    free, total = c_size_t(), c_size_t()
    assert ctypes.CDLL("libcuda.so.1").cuMemGetInfo_v2(byref(free), byref(total)) == 0
    said["cuda"] = free.value, total.value
    nvml, card, figures = ctypes.CDLL("libnvidia-ml.so.1"), c_void_p(), (c_ulonglong * 3)()
    assert nvml.nvmlInit_v2() == nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(card)) == 0
    assert nvml.nvmlDeviceGetMemoryInfo(card, figures) == 0
    said["nvml"] = figures[1], figures[0]

    def can_have(nbytes):
        try:
            return torch.empty(nbytes, dtype=torch.uint8, device="cuda").nbytes == nbytes
        except torch.OutOfMemoryError:
            return False
        finally:
            torch.cuda.empty_cache()

    free, total = torch.cuda.mem_get_info()
    cache = int(total * 0.9) - (total - free)  # vLLM's, with gpu_memory_utilization=0.9
    can = [can_have(free // (2 * MIB) * 2 * MIB), can_have(free + 4 * MIB), can_have(cache // (2 * MIB) * 2 * MIB)]
    rows = {name: [figure // MIB for figure in pair] for name, pair in said.items()}
    open(FILE, "w").write(json.dumps([rows, can]))
"""
CONFIGURE = "import gpuconf\ngpuconf.configure('2GiB', growth={growth}, libraries={{'torch': '{mode}'}})\n"

# Beginnings of a program, and what then calls the function: here, or in a process of a cluster.
HERE = "\ntest_free_memory()\n"
DASK = """
if __name__ == "__main__":
    import distributed
    import gpuconf.dask
    with gpuconf.dask.LocalCluster(memory="2GiB", dashboard_address=None) as cluster, distributed.Client(cluster) as c:
        c.submit(test_free_memory).result()
"""
RAY = f"""{PATIENT}
import gpuconf.ray
ray.init(num_gpus=1, num_cpus=1, include_dashboard=False, resources=gpuconf.ray.resources())
class Actor:
    def __init__(self):
        test_free_memory()
    def wait(self):
        pass
"""
TASK = RAY + "ray.get(gpuconf.ray.remote(memory='2GiB')(test_free_memory).remote())\n"
ACTOR = RAY + "ray.get(gpuconf.ray.remote(memory='2GiB')(Actor).remote().wait.remote())\n"

RUN = ["run", "--simulate", "T4:4GiB"]
WAYS: dict[str, tuple[list[str], str]] = {  # words of gpuconf, and what the program calls first
    "run": ([*RUN, "--memory", "2GiB"], ""),
    "run --growth": ([*RUN, "--memory", "2GiB", "--growth"], ""),
    "run --no-growth": ([*RUN, "--memory", "2GiB", "--no-growth"], ""),
    "run --guard=off": ([*RUN, "--memory", "2GiB", "--guard=off"], ""),
    "plugin": (RUN, "plugin"),
}
for mode in ("whole", "segments"):
    WAYS |= {
        f"configure {mode} {growth}": (RUN, CONFIGURE.format(mode=mode, growth=growth)) for growth in (True, False)
    }


CLUSTERS = {"dask worker": ("distributed", DASK), "ray task": ("ray", TASK), "ray actor": ("ray", ACTOR)}


@pytest.mark.parametrize("way", [*WAYS, "variable", *CLUSTERS])
def test_free_memory_is_what_a_program_can_have(way: str, tmp_path: Path) -> None:
    """Under the guard NVML said that nothing was free, where a pool had reserved the whole limit."""
    words, before = WAYS.get(way, (RUN, ""))
    file, report = tmp_path / "test_program.py", tmp_path / "report"
    text = PROGRAM.replace("FILE", repr(str(report)))
    program = [sys.executable, str(file)]
    if before == "plugin":
        pytest.importorskip("xdist", reason="pytest-xdist is not installed")
        words_of_pytest = ["-q", "-p", "no:cacheprovider", "-n", "1", "--gpuconf-memory=2GiB"]
        program = [sys.executable, "-m", "pytest", *words_of_pytest, str(file)]
    else:
        library, after = CLUSTERS.get(way, ("torch", HERE))
        if importlib.util.find_spec(library) is None:  # which imports nothing
            pytest.skip(f"{library} is not installed")
        text = before + text + after
    file.write_text(text)
    variables = environment({"GPUCONF_LEDGER": str(tmp_path / "ledger")})
    command = [sys.executable, "-m", "gpuconf", *words, *program]
    if way == "variable":
        printed = [sys.executable, "-m", "gpuconf", "env", "--simulate", "T4:4GiB", "--memory", "2GiB", "--json"]
        done = script.completed(printed, env=variables, check=True, timeout=120)
        variables |= json.loads(done.stdout)["environment"]
        command = program
    done = script.completed(command, env=variables, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    rows, can = json.loads(report.read_text())
    assert can == [True, False, True]
    guarded = way.startswith("run") and "off" not in way
    for name, (free, total) in rows.items():
        if name in ("cuda", "nvml") and not guarded:  # the driver knows no limit, and pools have taken from the card
            assert total == TOTAL
            assert TOTAL - LIMIT <= free <= TOTAL - HELD, name
        else:
            assert (total, LIMIT - HELD - 2 <= free <= LIMIT - HELD) == (LIMIT, True), (name, free)


def test_out_of_memory_under_the_variable_names_it(tmp_path: Path) -> None:
    """PyTorch's message names a GPU of the limit's size, and nothing named gpuconf."""
    printed = [sys.executable, "-m", "gpuconf", "env", "--simulate", "T4:4GiB", "--memory", "2GiB", "--json"]
    done = script.completed(printed, env=environment({}), check=True, timeout=120)
    variables = environment(json.loads(done.stdout)["environment"])
    code = "import torch; torch.empty(3 << 30, dtype=torch.uint8, device='cuda')"
    done = script.completed([sys.executable, "-c", code], env=variables, timeout=120)
    assert done.returncode == 1
    said = f"gpuconf: the program ran out of memory, at its limit: GPUCONF_LIMIT={LIMIT * MIB}"
    assert done.stderr.splitlines()[-1] == said
