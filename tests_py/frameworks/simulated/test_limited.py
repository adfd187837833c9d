"""PyTorch keeps the limit of a program that imports gpuconf, or leases, without ``gpuconf run``."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from script import environment, execute

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")

# Prints the limit of the pools, and PyTorch's free and total memory, in GiB, after 6 GiB were refused; else "6 GiB".
TRY = """
def attempt():
    import torch
    try:
        torch.empty(6 << 30, dtype=torch.uint8, device="cuda")
        print("6 GiB")
    except torch.OutOfMemoryError:
        pass
    held = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    print(gpuconf.memory.stats("GPU:0").bytes_limit >> 30, *(size >> 30 for size in torch.cuda.mem_get_info()))
"""


def run(tmp_path: Path, code: str, **variables: str) -> tuple[int, str, str]:
    ledger = {"GPUCONF_LEDGER": str(tmp_path / "ledger"), "GPUCONF_SIMULATE": "T4"}
    done = execute([sys.executable, "-c", code], env=environment({**ledger, **variables}), cwd=tmp_path)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "imports", ["import gpuconf; import torch", "import torch; import gpuconf"], ids=["before PyTorch", "after it"]
)
@pytest.mark.parametrize(
    "variables", [{"GPUCONF_LIMIT": "4GiB"}, {"NVIDIA_GPU_MEMORY_LIMIT": "4096"}], ids=lambda value: next(iter(value))
)
def test_the_variables_limit_pytorch_where_gpuconf_is_imported(
    tmp_path: Path, imports: str, variables: dict[str, str]
) -> None:
    """The pools had the limit, and PyTorch the whole card, and no message said so."""
    if imports.startswith("import torch"):  # which is the simulated one
        imports = f"import gpuconf.simulation; gpuconf.simulate('T4'); del gpuconf; {imports}"
    assert run(tmp_path, f"{imports}\n{TRY}\nattempt()", **variables) == (0, "4 3 4\n", "")


def test_the_variables_of_env_limit_pytorch_where_gpuconf_is_imported(tmp_path: Path) -> None:
    """As docs/run.md says of a container."""
    words = [sys.executable, "-m", "gpuconf", "env", "--memory", "4GiB", "--simulate", "T4", "--json"]
    variables = json.loads(execute(words, env=environment({}), check=True).stdout)["environment"]
    del variables["PYTHONPATH"]
    assert run(tmp_path, f"import gpuconf\n{TRY}\nattempt()", **variables) == (0, "4 3 4\n", "")


def test_a_limit_in_a_file_holds_for_pytorch_from_configure_on(tmp_path: Path) -> None:
    """As docs/limits.md says: the import reads no file."""
    (tmp_path / "gpuconf.toml").write_text('limit = "4GiB"\n')
    file = {"GPUCONF_CONFIG": str(tmp_path / "gpuconf.toml")}
    assert run(tmp_path, f"import gpuconf\n{TRY}\ngpuconf.configure()\nattempt()", **file) == (0, "4 3 4\n", "")
    assert run(tmp_path, f"import gpuconf\n{TRY}\nattempt()", **file)[1].startswith("6 GiB\n")


def test_a_lease_limits_pytorch(tmp_path: Path) -> None:
    """It had the whole card in the block. One lease follows another, and PyTorch runs on between them, unlimited."""
    code = f"""
import gpuconf
{TRY}
for _ in range(2):
    with gpuconf.lease("4GiB"):
        attempt()
    import torch
    torch.empty(6 << 30, dtype=torch.uint8, device="cuda")
print(gpuconf.leases.ledger.open_ledger().claims())
"""
    assert run(tmp_path, code) == (0, "4 3 4\n" * 2 + "[]\n", "")


def test_a_lease_ends_when_pytorch_has_freed_its_memory(tmp_path: Path) -> None:
    """Of freed memory PyTorch keeps segments, which the program does not know of."""
    code = """
import gpuconf, torch
leased = gpuconf.lease("4GiB").__enter__()
held = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
try:
    leased.release()
except RuntimeError as error:
    print("still in use" in str(error), leased.memory >> 30)
del held
leased.release()
print(leased.memory)
"""
    assert run(tmp_path, code) == (0, "True 4\n0\n", "")


def test_a_pytorch_that_has_used_the_gpu_before_the_limit_is_named(tmp_path: Path) -> None:
    code = f"import gpuconf, torch; torch.ones(1, device='cuda')\n{TRY}\nwith gpuconf.lease('4GiB'): attempt()"
    status, out, err = run(tmp_path, code)
    assert (status, out.split()[:2]) == (0, ["6", "GiB"])
    said = "RuntimeWarning: gpuconf: PyTorch does not keep the memory limit of this process: it used the GPU before"
    assert [said in line for line in err.splitlines()] == [True], err


def test_a_configured_pytorch_keeps_its_mode(tmp_path: Path) -> None:
    """configure() chooses for a library, whether it is called before or after the lease begins."""
    shown = "import torch, gpuconf.allocators.torch as adaptor; print(torch.ones(1, device='cuda').item(), "
    shown += "adaptor.installed())"
    first = "gpuconf.configure(growth=True)\nwith gpuconf.lease('4GiB'):\n    "
    second = "with gpuconf.lease('4GiB'):\n    gpuconf.configure(growth=True)\n    "
    for beginning in first, second:
        status, out, err = run(tmp_path, f"import gpuconf\n{beginning}{shown}")
        assert (status, out) == (0, "1.0 whole\n"), err


def test_without_a_limit_pytorch_is_not_touched(tmp_path: Path) -> None:
    code = "import gpuconf, sys, torch; torch.ones(1, device='cuda'); print('gpuconf.allocators.torch' in sys.modules)"
    assert run(tmp_path, code) == (0, "False\n", "")
    code = "import gpuconf\nwith gpuconf.lease('4GiB'): pass\n" + code.removeprefix("import gpuconf, ").join(
        ("import ", "")
    )
    assert run(tmp_path, code) == (0, "False\n", "")
