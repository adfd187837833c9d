"""JAX itself follows the configuration: what it got is read back through its own functions.

`make oracle` installs its CPU wheel. The code that reads the options of a GPU is in it; the plugin that would use them
is not.
"""

import ast
import importlib.util
import sys
from pathlib import Path
from typing import Any

import no_gpu
import pytest
import script

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed; make oracle does that"
)

READ_BACK = """
from jax._src import xla_bridge
from jaxlib import xla_client
def got():
    options = {**xla_client.generate_pjrt_gpu_plugin_options(), **xla_bridge._options_from_jax_configs("cuda")}
    return {name: options[name] for name in ("memory_fraction", "preallocate", "visible_devices") if name in options}
"""
PHYSICAL = "physical = gpuconf.config.list_physical_devices('GPU')\n"


def results(driver: Path, program: str) -> list[Any]:
    out = no_gpu.run(driver, PHYSICAL + program, FAKECUDA_GPUS="3", JAX_PLATFORMS="cpu")
    return [ast.literal_eval(line) if line[0] in "{[" else line for line in out.splitlines()]


def test_settings_from_before_the_import(driver: Path) -> None:
    program = f"""
gpuconf.config.set_visible_devices(physical[1:], "GPU")
gpuconf.configure(limit=["256MiB", "512MiB"], growth=True)
{READ_BACK}
print(got())
"""
    assert results(driver, program) == [{"memory_fraction": 0.25, "preallocate": False, "visible_devices": [1, 2]}]


def test_the_fraction_is_that_of_the_visible_gpus(driver: Path) -> None:
    program = f"""
L = gpuconf.config.LogicalDeviceConfiguration
gpuconf.config.set_logical_device_configuration(physical[0], [L(100)])
gpuconf.config.set_logical_device_configuration(physical[2], [L(201), L(200)])
gpuconf.config.set_visible_devices(physical[2], "GPU")
{READ_BACK}
print(got())
gpuconf.config.set_visible_devices(physical, "GPU")
print(got())
gpuconf.config.set_visible_devices([], "GPU")
print(got())
"""
    assert results(driver, program) == [
        {"memory_fraction": 0.390625, "visible_devices": [2]},  # 400 MiB of 1024: JAX rounds 401 up to 402
        {"memory_fraction": 0.097656},
        {},
    ]


def test_settings_from_between_its_import_and_its_start(driver: Path) -> None:
    program = f"""
import logging, sys, jax
{READ_BACK}
print(got())
gpuconf.config.experimental.set_memory_growth(physical[0], False)
gpuconf.config.set_visible_devices(physical[0], "GPU")
print(got())
logging.getLogger("gpuconf").addHandler(logging.StreamHandler(sys.stdout))
jax.numpy.ones(1)
gpuconf.config.set_visible_devices(physical[1], "GPU")
print(got())
print(gpuconf.configure(limit="1GiB").libraries["jax"])
try:
    gpuconf.configure(libraries="jax")
except RuntimeError as error:
    print(error)
"""
    started = "not changed: it has already started, and it uses its own allocator"
    assert results(driver, program) == [
        {},
        {"preallocate": True, "visible_devices": [0]},
        f"JAX: {started}",
        {"preallocate": True, "visible_devices": [0]},
        started,
        "gpuconf.configure() was called too late: JAX has already started. Call it earlier, or leave 'jax' out of "
        "libraries=",
    ]


@pytest.mark.parametrize(("guard", "fraction"), [("off", 0.25), ("proxy", 1.0)])
def test_an_unmodified_program_under_gpuconf_run(driver: Path, tmp_path: Path, guard: str, fraction: float) -> None:
    """JAX gets the limit as its fraction of the card, and computes. The guard's card is as large as the limit."""
    program = tmp_path / "program.py"
    program.write_text(f"""
import os, jax
{READ_BACK}
step = jax.jit(jax.value_and_grad(lambda w: ((w * 2 + 1) ** 2).sum()))
print(*map(float, step(jax.numpy.arange(3.0))[1]))
print(got(), os.environ["CUDA_VISIBLE_DEVICES"][:4])
""")
    env = {
        **script.plain(),
        "LD_LIBRARY_PATH": str(driver),
        "GPUCONF_LEDGER": str(tmp_path / "ledger"),
        "JAX_PLATFORMS": "cpu",
    }
    words = [sys.executable, *"-m gpuconf run --memory 256MiB --no-growth --guard".split(), guard, "--report", "--"]
    done = script.completed([*words, sys.executable, str(program)], env=env, timeout=180)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"4.0 12.0 20.0\n{{'memory_fraction': {fraction}, 'preallocate': True}} GPU-\n"
    *before, report = done.stderr.splitlines()
    assert len(before) == (guard != "off")  # what the guard does not count
    assert report.startswith("gpuconf run: ")
    assert "could not be limited" not in report


@pytest.mark.parametrize("mode", ["proxy", "preload"])
def test_its_cpu_wheel_runs_under_the_guard_as_without(driver: Path, mode: str) -> None:
    program = """
import jax, jax.numpy as np
weights = jax.random.normal(jax.random.key(0), (64, 64))
loss = jax.jit(lambda w: (np.tanh(w @ w.T) ** 2).sum())
for _ in range(5):
    weights -= 0.01 * jax.jit(jax.grad(loss))(weights)
print(jax.devices(), float(loss(weights)), jax.local_device_count())
"""
    plain = no_gpu.under_guard(driver, "off", 0, "-c", program)
    guarded = no_gpu.under_guard(driver, mode, 64 << 20, "-c", program)
    assert plain.returncode == 0, plain.stderr
    assert (guarded.returncode, guarded.stdout) == (0, plain.stdout), guarded.stderr
