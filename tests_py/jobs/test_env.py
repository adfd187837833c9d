"""``gpuconf env``, and ``gpuconf.max_memory``."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import gpuconf
import pytest
from command import COMMAND
from gpuconf.leases.environment import LeasedCard, of_frameworks
from script import environment

GIB = 1 << 30


def env(*options: str, code: int = 0, **variables: str) -> str:
    done = subprocess.run(
        [COMMAND, "env", *options], env=environment(variables), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_a_shell_takes_it_and_the_program_has_the_limit(tmp_path: Path) -> None:
    script = f"""
        eval "$({shlex.quote(COMMAND)} env --memory 3GiB --growth --simulate 2xT4)"
        exec {shlex.quote(sys.executable)} -c "import gpuconf; print(gpuconf.max_memory()[1], gpuconf.simulated())"
    """
    done = subprocess.run(
        ["sh", "-c", script], env=environment({"PYTHONPATH": "it's"}), capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{3 * GIB} 2xT4\n"


def test_every_framework_has_its_variables() -> None:
    found = json.loads(env("--memory", "25%", "--no-growth", "--simulate", "2xA100-40GB:40GiB", "--json"))[
        "environment"
    ]
    path = found.pop("PYTHONPATH")
    assert path.endswith("gpuconf/_startup")
    assert found.pop("LD_LIBRARY_PATH") == path.replace("_startup", "_simulator")
    assert found.pop("JAX_SKIP_CUDA_CONSTRAINTS_CHECK") == "1"
    assert found == {
        "CUPY_GPU_MEMORY_LIMIT": str(10 * GIB),
        "GPUCONF_GROWTH": "false",
        "GPUCONF_LIMIT": str(10 * GIB),
        "GPUCONF_SIMULATE": "2xA100-40GB:40GiB",
        "TF_DEVICE_MIN_SYS_MEMORY_IN_MB": str(30 << 10),
        "TF_FORCE_GPU_ALLOW_GROWTH": "false",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.250000",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "true",
    }


def test_a_machine_without_gpus() -> None:
    """Two frameworks have a fraction of the card, which was missing silently."""
    done = subprocess.run(
        [COMMAND, "env", "--memory=1GiB"], env=environment({}), capture_output=True, text=True, check=True
    )
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in done.stdout
    assert done.stderr.startswith("gpuconf env: there is no GPU here: XLA_PYTHON_CLIENT_MEM_FRACTION and TF_")


def test_formats() -> None:
    docker = env("--memory", "1GiB", "--format", "docker", PYTHONPATH="/p")
    assert f"GPUCONF_LIMIT={GIB}\n" in docker
    assert "PYTHONPATH" not in docker
    systemd = env("--memory", "1GiB", "--format", "systemd", PYTHONPATH='/100% "x"')
    assert systemd.endswith('/_startup:/100%% \\"x\\""\n')
    assert all(line.startswith('Environment="') for line in systemd.splitlines())


def test_values_with_any_bytes() -> None:
    """A shell got the digits of a byte that is not UTF-8 in its place, and a unit a line that systemd ignores."""
    path = os.fsdecode(b"/b\xffd\n")
    shell = [COMMAND, "env", "--memory", "1GiB"]
    done = subprocess.run(shell, env=environment({"PYTHONPATH": path}), capture_output=True, check=True, timeout=60)
    assert b"/_startup:/b\xffd\n'\n" in done.stdout
    assert env("--memory", "1GiB", "--format", "systemd", PYTHONPATH="/a\nb").endswith('/_startup:/a\\nb"\n')
    refused = env("--memory", "1GiB", "--format", "systemd", code=1, PYTHONPATH=path)
    assert refused.splitlines()[-1].startswith("gpuconf env: PYTHONPATH is not valid text")


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ("much", "gpuconf env: --memory 'much' is not a size"),
        ("25%", "--memory '25%' is a percentage, but the GPU is not known here"),
        ("1000", "--memory must be at least 1 MiB, but got '1000'; did you mean '1000MiB'?"),
    ],
)
def test_invalid_sizes(memory: str, message: str) -> None:
    assert message in env("--memory", memory, code=2)


def test_several_cards() -> None:
    """Each variable holds for all cards, so the tightest one decides. JAX refuses both of its names for a fraction."""
    cards = [LeasedCard("GPU-a", 40 * GIB, 30 * GIB), LeasedCard("GPU-b", 80 * GIB, 80 * GIB)]
    found = of_frameworks(cards, 10 * GIB, None, {"XLA_CLIENT_MEM_FRACTION": "0.9"})
    assert found == {
        "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b",
        "CUPY_GPU_MEMORY_LIMIT": str(10 * GIB),
        "TF_DEVICE_MIN_SYS_MEMORY_IN_MB": str(70 << 10),
        "XLA_CLIENT_MEM_FRACTION": "0.125000",
    }
    assert (
        of_frameworks([LeasedCard("GPU-a", 3 * GIB, GIB)], 2 * GIB, None, {})["XLA_PYTHON_CLIENT_MEM_FRACTION"]
        == "0.666666"
    )


@pytest.mark.usefixtures("two_gpus")
def test_max_memory_subtracts_what_is_in_use() -> None:
    gpu = gpuconf.config.list_physical_devices("GPU")[0]
    limits = [gpuconf.config.LogicalDeviceConfiguration(1024)] * 2
    gpuconf.config.set_logical_device_configuration(gpu, limits)
    gpuconf.config.set_logical_device_configuration(gpuconf.config.list_physical_devices("GPU")[1], limits[:1])
    with gpuconf.memory.allocate(1 << 20, "GPU:1"):
        found = gpuconf.max_memory()
    assert found.pop("cpu") > 1 << 20
    assert found == {0: 2 * GIB - (1 << 20), 1: GIB}


PRINT_LIMITS = """
import gpuconf
notes = gpuconf.configure("3GiB", libraries=[]).notes
print(gpuconf.memory.stats("GPU:0").bytes_limit, *notes.values())
"""


def test_the_variables_of_a_container_hold_below_run_without_options(tmp_path: Path) -> None:
    """Docker's leave out the startup code's path, so a program that never imports gpuconf had no limit."""
    done = subprocess.run(
        [COMMAND, "env", "--memory", "1GiB", "--simulate", "T4", "--format", "docker"],
        env=environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = done.stderr.splitlines()
    assert line.startswith("gpuconf env: PyTorch and Numba keep to these variables under gpuconf run, or in a program")
    variables = dict(line.split("=", 1) for line in done.stdout.splitlines())
    code = "import os, sys; print(os.environ['GPUCONF_LIMIT'], 'gpuconf_startup' in sys.modules)"
    run = [COMMAND, "run", sys.executable, "-c", code]
    done = subprocess.run(run, env=environment(variables), capture_output=True, text=True, check=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == (f"{GIB} True\n", "")


def test_the_limit_of_nvidias_container_toolkit() -> None:
    """In whole MiB, as the toolkit's hook takes it; it lowers what a program sets, and refuses what a lease asks."""
    container = {"GPUCONF_SIMULATE": "T4", "NVIDIA_GPU_MEMORY_REQUEST": "512", "NVIDIA_GPU_MEMORY_LIMIT": "2048"}

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [COMMAND, "run", *words, sys.executable, "-c", PRINT_LIMITS]
        variables = environment({**container, **more})
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=60)

    note = "lowered from 3.00GiB to 2.00GiB by NVIDIA_GPU_MEMORY_LIMIT, the container's limit"
    plain = [sys.executable, "-c", PRINT_LIMITS]
    done = subprocess.run(plain, env=environment(container), capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"{2 * GIB} {note}\n"
    assert run().stdout == f"{2 * GIB} lowered from 3.00GiB to 2.00GiB by GPUCONF_LIMIT in the environment\n"
    assert run("--memory", "1GiB").stdout.startswith(f"{GIB} lowered from 3.00GiB to 1.00GiB by GPUCONF_LIMIT")
    done = run("--memory", "3GiB")
    assert (done.returncode, done.stderr) == (
        3,
        "gpuconf run: 3.00GiB of memory exceed the container's limit for each GPU, 2.00GiB (NVIDIA_GPU_MEMORY_LIMIT). "
        "Request less memory\n",
    )
    assert f"export GPUCONF_LIMIT={2 * GIB}\n" in env(**container)
    assert "exceed the container's limit" in env("--memory", "3GiB", code=2, **container)
    for wrong in ("12abc", "-1", " 1024", "0", "17592186044416"):
        assert "must be a number of MiB, at least 1" in run(NVIDIA_GPU_MEMORY_LIMIT=wrong).stderr
    assert "is more than NVIDIA_GPU_MEMORY_LIMIT=2048" in run(NVIDIA_GPU_MEMORY_REQUEST="4096").stderr
