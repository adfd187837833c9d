"""The guard on a real card: a limit below the card's memory is exact by every way in, and libraries get their own errors there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpuconf
from checks import MIB, Missing, expect, need
from gpuconf.sharing import _budget

FILL = Path(__file__).with_name("guard_fill.py")
LIMIT = 1024 * MIB
CHUNK = 64 * MIB


def _uuid() -> str:
    return str(gpuconf.visible_devices()[0].uuid)


def _under(command: list[str], mode: str = "proxy") -> subprocess.CompletedProcess[str]:
    """Run a program with a limit of 1 GiB, and nothing else changed."""
    environment = {name: value for name, value in os.environ.items() if name != "GPUCONF_MEMORY_LIMIT"}
    environment["CUDA_VISIBLE_DEVICES"] = _uuid()
    with _budget.prepare({_uuid(): LIMIT}, mode, environment=environment) as budget:
        return subprocess.run(
            command, env={**environment, **budget.environment}, capture_output=True, text=True, check=False, timeout=150
        )


def _filled(what: str, mode: str = "proxy") -> dict[str, Any]:
    done = _under([sys.executable, str(FILL), what], mode)
    expect(done.returncode == 0, done.stdout + done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _by_every_way(mode: str) -> dict[str, int]:
    rows = _filled("driver", mode)
    lacking = [name for name, row in rows.items() if not row["chunks"] and row["result"] == 801]  # CUDA_ERROR_NOT_SUPPORTED
    for name, row in rows.items():
        if name not in lacking:
            expect((row["chunks"], row["result"], row["after"]) == (LIMIT // CHUNK, 2, 0), f"{name}: {row}")
    return {"ways": len(rows) - len(lacking), "not_supported": len(lacking)}


def case_the_guards_limit_is_exact_by_every_way_in() -> dict[str, int]:
    """Sixteen chunks of 64 MiB fit into 1 GiB, the next gets CUDA_ERROR_OUT_OF_MEMORY, and all of it comes back: by the proxy."""
    return _by_every_way("proxy")


def case_the_preloaded_guards_limit_is_exact_by_every_way_in() -> dict[str, int]:
    """The same where dlopen() is preloaded."""
    return _by_every_way("preload")


def case_nothing_gets_past_the_check() -> None:
    """``gpuconf run --check`` finds no way past a preloaded guard."""
    command = [sys.executable, "-m", "gpuconf", "run", "--guard=preload", "--memory", "1GiB", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
    expect(done.returncode == 0, done.stdout + done.stderr)


def _library(name: str, what: str) -> dict[str, Any]:
    need(name)
    row = _filled(what)
    told = f"{what}: {row}"
    expect(row["total"] == row["limit"] == LIMIT, told)
    expect(bool(row["error"]) and row["refused"], told)
    expect(0 < row["used"] <= row["peak"] <= LIMIT, told)
    expect(row["chunks"] >= LIMIT // CHUNK - 2, told)  # a library's own reserves may take the rest
    return row


def case_guarded_torch_fills_its_limit() -> dict[str, Any]:
    """PyTorch's own allocator sees the limit as the card, raises its own error there, empties its cache and tries again."""
    return _library("torch", "torch")


def case_guarded_torch_in_mode_segments_counts_once() -> dict[str, Any]:
    """PyTorch's segments come from gpuconf's pool, which is the only thing that is charged, but for what the runtime takes."""
    row = _library("torch", "torch-segments")
    expect(row["outside"] <= 64 * MIB, f"{row}")
    return row


def case_guarded_torch_in_mode_whole_counts_once() -> dict[str, Any]:
    """The same where each of PyTorch's tensors is a block of the pool."""
    row = _library("torch", "torch-whole")
    expect(row["outside"] <= 64 * MIB, f"{row}")
    return row


def case_guarded_cupy_fills_its_limit() -> dict[str, Any]:
    """CuPy's own pool."""
    return _library("cupy", "cupy")


def case_guarded_numba_fills_its_limit() -> dict[str, Any]:
    """Numba's own memory management."""
    return _library("numba_cuda", "numba")


def case_guarded_jax_fills_its_limit() -> dict[str, Any]:
    """JAX takes no more than its fraction of the limit, and raises its own error there."""
    jax = need("jax")
    if all(device.platform == "cpu" for device in jax.devices()):
        raise Missing("this JAX does not see the GPU")
    row = _filled("jax")
    expect(row["total"] == LIMIT and bool(row["error"]) and row["peak"] <= LIMIT, f"{row}")
    return row
