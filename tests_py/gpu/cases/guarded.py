"""The guard on a real card: a limit below the card's memory is exact by every way in, and libraries get their own
errors there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpuconf
from checks import MIB, Missing, expect, installed, note
from gpuconf.jobs import budget as _budget

FILL = Path(__file__).with_name("guard_fill.py")
LIMIT = 1024 * MIB
CHUNK = 64 * MIB


def _uuid() -> str:
    return str(gpuconf.visible_devices()[0].uuid)


def _under(command: list[str], mode: str = "proxy") -> subprocess.CompletedProcess[str]:
    """Run a program with a limit of 1 GiB, and nothing else changed."""
    environment = {name: value for name, value in os.environ.items() if name != "GPUCONF_LIMIT"}
    environment["CUDA_VISIBLE_DEVICES"] = _uuid()
    with _budget.prepare({_uuid(): LIMIT}, mode, environment=environment) as budget:
        done = _ended(command, {**environment, **budget.environment}, 150)
        if said := budget.log():
            note(guard_log=said)
        return done


def _ended(command: list[str], environment: dict[str, str] | None, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a program; where it does not end, what it has said so far is the error."""
    try:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired as late:
        said = b"".join(part for part in (late.stdout, late.stderr) if part).decode(errors="replace")
        raise AssertionError(f"{command} has not ended after {seconds} seconds: {said}") from None


def _filled(what: str, mode: str = "proxy") -> dict[str, Any]:
    done = _under([sys.executable, str(FILL), what], mode)
    expect(done.returncode == 0, f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _by_every_way(mode: str) -> None:
    rows = _filled("driver", mode)
    # CUDA_ERROR_NOT_SUPPORTED.
    lacking = [name for name, row in rows.items() if not row["chunks"] and row["result"] == 801]
    note(ways=len(rows) - len(lacking), not_supported=lacking)
    wrong = {name: row for name, row in rows.items() if name not in lacking and not _exact(row)}
    expect(not wrong, f"{len(wrong)} of {len(rows)} ways: {wrong}")


def _exact(row: dict[str, int]) -> bool:
    """All that was left fitted, and all of it came back: what an earlier way has lost is not counted against this
    one.
    """
    return (row["chunks"], row["result"], row["after"]) == ((LIMIT - row["before"]) // CHUNK, 2, row["before"])


def case_the_guards_limit_is_exact_by_every_way_in() -> None:
    """Sixteen chunks of 64 MiB fit into 1 GiB, the next gets CUDA_ERROR_OUT_OF_MEMORY, and all of it comes back: by the
    proxy.
    """
    _by_every_way("proxy")


def case_the_preloaded_guards_limit_is_exact_by_every_way_in() -> None:
    """The same where dlopen() is preloaded."""
    _by_every_way("preload")


def case_nothing_gets_past_the_check() -> None:
    """``gpuconf run --check`` finds no way past a preloaded guard, and past the proxy only the driver's own path."""
    for mode in ("proxy", "preload"):
        command = [sys.executable, "-m", "gpuconf", "run", f"--guard={mode}", "--memory", "1GiB", "--check"]
        done = _ended(command, None, 75)
        note(**{mode: done.stdout.rstrip().rpartition("\n")[2], f"{mode}_table": done.stdout})
        past = [line.split("  ")[0] for line in done.stdout.splitlines() if "GOT PAST" in line]
        expect(past == (["by path"] if mode == "proxy" else []), done.stdout + done.stderr)
        expect(done.returncode == (3 if past else 0), f"exit code {done.returncode}: {done.stdout}{done.stderr}")


def _library(name: str, what: str) -> dict[str, Any]:
    installed(name)
    row = _filled(what)
    note(**row)
    told = f"{what}: {row}"
    expect(row["total"] == row["limit"] == LIMIT, told)
    expect(bool(row["error"]), told)
    expect(0 < row["used"] <= row["peak"] <= LIMIT, told)
    expect(row["chunks"] >= LIMIT // CHUNK - 2, told)  # a library's own reserves may take the rest
    return row


def _refused(row: dict[str, Any]) -> dict[str, Any]:
    """The guard said no, and then the cache was emptied.

    Where gpuconf's pool is the whole limit, the pool says no before that.
    """
    expect(row["refused"] and not row["emptied"], f"{row}")
    return row


def case_guarded_torch_fills_its_limit() -> dict[str, Any]:
    """PyTorch's own allocator sees the limit as the card, raises its own error there, empties its cache and tries
    again.
    """
    return _refused(_library("torch", "torch"))


def case_guarded_torch_in_mode_segments_counts_once() -> dict[str, Any]:
    """PyTorch's segments come from gpuconf's pool, which is the only thing that is charged, but for what the runtime
    takes.
    """
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
    return _refused(_library("cupy", "cupy"))


def case_guarded_numba_fills_its_limit() -> dict[str, Any]:
    """Numba's own memory management."""
    return _refused(_library("numba_cuda", "numba"))


def case_guarded_jax_fills_its_limit() -> dict[str, Any]:
    """JAX takes its fraction of the limit, not of the card, when it starts, and raises its own error there."""
    return _jax("jax")


def case_guarded_jax_grows_within_its_limit() -> dict[str, Any]:
    """The same where JAX does not preallocate."""
    return _jax("jax-growing")


def _jax(what: str) -> dict[str, Any]:
    installed("jax")
    row = _filled(what)
    if row["platform"] == "cpu":
        raise Missing("this JAX does not see the GPU")
    note(**row)
    expect(row["total"] == LIMIT and bool(row["error"]) and row["peak"] <= LIMIT, f"{row}")
    return row
